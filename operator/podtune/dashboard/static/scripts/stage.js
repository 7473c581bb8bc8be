// Draws the axes and the lines, and tells what was brushed, moved or pointed at.
import { fillTip } from "./pointing.js";

const PAINTS = ["card", "ink", "soft", "faint", "line", "hair", "accent"], RAMP = ["ramp0", "ramp1", "ramp2", "ramp3", "ramp4", "ramp5"];
const SHADES = 28, CURVED = 3000, DRAFT = 1500, NEAR = 18, TALL = 460, ROW = 76, NARROW = 620, LEAST = 92;
const mix = (stops, share) => {
  const at = share * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2), part = at - low;
  const read = (text) => [1, 3, 5].map((start) => parseInt(text.slice(start, start + 2), 16));
  const [from, to] = [read(stops[low]), read(stops[low + 1])];
  return `rgb(${from.map((value, place) => Math.round(value + (to[place] - value) * part)).join(" ")})`;
};
const clamp = (value, low = 0, high = 1) => Math.min(Math.max(value, low), high);
const listRound = (low, high, most) => {
  const raw = (high - low) / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((each) => each >= raw);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, place) => Number(((first + place) * step).toPrecision(12)));
};
const listPowers = (low, high) => {
  const first = Math.ceil(Math.log10(low)), last = Math.floor(Math.log10(high)), step = Math.max(1, Math.ceil((last - first) / 5));
  return Array.from({ length: Math.max(0, Math.floor((last - first) / step) + 1) }, (_, place) => 10 ** (first + place * step));
};
// How far along a curve, from 0 to 1, the point is that lies `share` of the way between two axes.
const solve = (share) => {
  let low = 0, high = 1;
  for (let turn = 0; turn < 20; turn += 1) {
    const middle = (low + high) / 2;
    if (1.5 * middle * (1 - middle) + middle ** 3 < share) low = middle; else high = middle;
  }
  return low;
};

export class Stage {
  constructor(element, trials, selection, write, told) {
    Object.assign(this, { element, trials, selection, write, told, pointed: null, drag: null });
    this.canvas = element.querySelector("[data-canvas]");
    this.tip = element.querySelector("[data-tip]");
    this.labels = element.querySelector("[data-axes]");
    this.labelAxes();
    this.bindPointer();
    this.resize();
  }

  labelAxes() {
    this.buttons = new Map(this.trials.columns.map((column) => [column, this.makeButton(column)]));
    const focused = this.labels.contains(document.activeElement) ? document.activeElement.textContent : null;
    this.labels.replaceChildren(...this.buttons.values());
    for (const [column, button] of this.buttons) if (column.name === focused) button.focus({ preventScroll: true });
  }

  // Other trials, of which the same may be selected.
  replace(trials, selection) {
    Object.assign(this, { trials, selection, pointed: null });
    this.tip.hidden = true;
    this.labelAxes();
  }

  resize() {
    const room = this.element.parentElement.clientWidth, count = this.selection.axes.length;
    this.isFlat = room < NARROW;
    this.element.classList.toggle("flat", this.isFlat);
    this.width = this.isFlat ? room : Math.max(room, count * LEAST);
    this.height = this.isFlat ? count * ROW + 8 : TALL;
    this.element.style.width = `${this.width}px`;
    this.element.style.height = `${this.height}px`;
    this.scale = Math.min(window.devicePixelRatio || 1, 2);
    this.rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    this.canvas.width = Math.round(this.width * this.scale);
    this.canvas.height = Math.round(this.height * this.scale);
    if (this.selection.places) this.draw();
  }

  // Places. `across` is where an axis stands, `along` where a value lies on it.
  across(place) {
    const count = this.selection.axes.length;
    if (this.isFlat) return 40 + place * ROW;
    const side = Math.min(84, this.width / count / 2);
    return count === 1 ? this.width / 2 : side + (place * (this.width - 2 * side)) / (count - 1);
  }

  get ends() { return this.isFlat ? [34, this.width - 14] : [this.height - 44, 50]; }

  share(column, value) {
    if (column.choices.length) return column.choices.length === 1 ? 0.5 : value / (column.choices.length - 1);
    return clamp(column.log ? Math.log(value / column.low) / Math.log(column.high / column.low) : (value - column.low) / (column.high - column.low));
  }

  along(column, value) {
    const [from, to] = this.ends;
    if (value === null) return this.isFlat ? from - 20 : from + 24;
    return from + this.share(column, value) * (to - from);
  }

  valueAt(column, at) {
    const [from, to] = this.ends, share = clamp((at - from) / (to - from));
    if (column.choices.length) return share * (column.choices.length - 1);
    return column.log ? column.low * (column.high / column.low) ** share : column.low + share * (column.high - column.low);
  }

  draw(isDone = true) {
    const { axes, places } = this.selection;
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(`--${name}`).trim();
    this.paint = Object.fromEntries(PAINTS.map((name) => [name, read(name)]));
    this.ramp = RAMP.map(read);
    this.tables = axes.map((column) => column.values.map((value) => this.along(column, value)));
    const pen = this.canvas.getContext("2d");
    pen.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    pen.lineJoin = "round";
    if (places.length < this.trials.names.length) this.drawRest(pen);
    this.drawSelected(pen, isDone || places.length <= DRAFT ? places : places.filter((_, at) => at % Math.ceil(places.length / DRAFT) === 0));
    if (this.pointed !== null) this.drawPointed(pen);
    axes.forEach((column, place) => this.drawAxis(pen, column, this.across(place)));
    this.placeButtons();
  }

  trace(pen, trial, isCurved) {
    const last = this.tables.length - 1;
    for (let place = 0; place <= last; place += 1) {
      const across = this.across(place), along = this.tables[place][trial];
      const [x, y] = this.isFlat ? [along, across] : [across, along];
      if (place === 0) { pen.moveTo(x, y); continue; }
      const before = this.across(place - 1), from = this.tables[place - 1][trial], middle = (before + across) / 2;
      if (!isCurved) pen.lineTo(x, y);
      else if (this.isFlat) pen.bezierCurveTo(from, middle, x, middle, x, y);
      else pen.bezierCurveTo(middle, from, middle, y, x, y);
    }
  }

  drawRest(pen) {
    const step = Math.max(1, Math.ceil(this.trials.names.length / DRAFT));
    pen.strokeStyle = this.paint.line;
    pen.globalAlpha = clamp(60 / (this.trials.names.length / step), 0.16, 0.7);
    pen.lineWidth = 1;
    pen.beginPath();
    for (let trial = 0; trial < this.trials.names.length; trial += step) this.trace(pen, trial, this.trials.names.length <= CURVED);
    pen.stroke();
    pen.globalAlpha = 1;
  }

  // The worst first, so that the best lie on top; trials of one shade are drawn together.
  drawSelected(pen, places) {
    const column = this.selection.colourColumn, shades = Array.from({ length: SHADES + 1 }, () => []);
    const span = this.findSpan(column);
    for (const place of places) {
      const value = column.values[place];
      if (value === null) { shades[0].push(place); continue; }
      const share = clamp(column.choices.length || column.log ? this.share(column, value) : (value - span[0]) / (span[1] - span[0]));
      shades[1 + Math.round((column.sign < 0 ? 1 - share : share) * (SHADES - 1))].push(place);
    }
    const isCurved = places.length <= CURVED;
    shades.forEach((trials, shade) => {
      if (!trials.length) return;
      const share = Math.max(shade - 1, 0) / (SHADES - 1);
      pen.strokeStyle = shade ? mix(this.ramp, share) : this.paint.faint;
      // The more lines there are of a shade, the fainter each: what many have in common still stands out.
      pen.globalAlpha = clamp(4.2 / Math.sqrt(trials.length), 0.035, 0.95) * (column.sign && shade ? 0.45 + 0.55 * share : 0.75);
      pen.lineWidth = column.sign && share > 0.9 ? 1.7 : 1.15;
      // Strokes of one path don't add up, so many trials are drawn in several.
      for (let first = 0; first < trials.length; first += 40) {
        pen.beginPath();
        for (const trial of trials.slice(first, first + 40)) this.trace(pen, trial, isCurved);
        pen.stroke();
      }
    });
    pen.globalAlpha = 1;
  }

  // Of an objective, the worst tenth shares one colour: a few bad values would leave no difference among the good ones.
  findSpan(column) {
    if (!column.sign) return [column.low, column.high];
    const known = column.values.filter((value) => value !== null).sort((a, b) => a - b);
    const cut = Math.floor(known.length / 10);
    const [low, high] = column.sign > 0 ? [known[cut], known.at(-1)] : [known[0], known.at(-1 - cut)];
    return high > low ? [low, high] : [column.low, column.high];
  }

  drawAxis(pen, column, at) {
    const [from, to] = this.ends, isFlat = this.isFlat;
    const point = (along, across = at) => (isFlat ? [along, across] : [across, along]);
    pen.strokeStyle = this.paint.soft;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(...point(from)); pen.lineTo(...point(to));
    pen.stroke();
    this.drawBrush(pen, column, at);
    pen.font = `${0.575 * this.rem}px ${getComputedStyle(document.body).fontFamily}`;
    pen.lineWidth = 4;
    pen.strokeStyle = this.paint.card;
    const last = column === this.selection.axes.at(-1) && !isFlat;
    const say = (text, along, index, total) => {
      pen.textAlign = isFlat ? (index === 0 ? "left" : index === total - 1 ? "right" : "center") : last ? "right" : "left";
      pen.textBaseline = isFlat ? "top" : "middle";
      const [x, y] = isFlat ? [along, at + 6] : [at + (last ? -8 : 8), along];
      pen.fillStyle = this.paint.soft;
      pen.strokeText(text, x, y);
      pen.fillText(text, x, y);
    };
    const ticks = this.listTicks(column);
    ticks.forEach((value, index) => say(this.cut(this.write(column, value), ticks.length), this.along(column, value), index, ticks.length));
    if (column.values.includes(null)) {
      const [x, y] = point(this.along(column, null));
      const isPicked = this.selection.brushes.get(column.name)?.isUnset;
      pen.beginPath(); pen.arc(x, y, isPicked ? 5 : 2.5, 0, 7); pen.fillStyle = isPicked ? this.paint.accent : this.paint.soft; pen.fill();
      if (!isFlat) say("not set", this.along(column, null), 0, 1);
    }
  }

  cut(text, count) {
    const room = this.isFlat ? Math.max(4, Math.floor((this.width - 50) / count / 7)) : 14;
    return text.length > room ? `${text.slice(0, room - 1)}…` : text;
  }

  listTicks(column) {
    if (column.choices.length) {
      const step = Math.ceil(column.choices.length / (this.isFlat ? 5 : 12));
      return column.choices.map((_, place) => place).filter((place) => place % step === 0);
    }
    const inner = column.log ? listPowers(column.low, column.high) : listRound(column.low, column.high, this.isFlat ? 3 : 5);
    const gap = this.isFlat ? 0.16 : 0.07;
    // The ends always have their numbers; round ones in between, where there is room.
    return [column.low, ...inner.filter((value) => this.share(column, value) > gap && this.share(column, value) < 1 - gap), column.high];
  }

  drawBrush(pen, column, at) {
    const span = this.findBrush(column);
    if (!span) return;
    const [low, high] = span;
    pen.fillStyle = this.paint.accent;
    const box = (start, length, half) => (this.isFlat ? pen.fillRect(start, at - half, length, 2 * half) : pen.fillRect(at - half, start, 2 * half, length));
    pen.globalAlpha = 0.25;
    box(low, high - low, 8);
    pen.globalAlpha = 1;
    box(low - 1, 2, 8);
    box(high - 1, 2, 8);
  }

  // From where to where a brush lies on its axis, in pixels.
  findBrush(column) {
    const brush = this.selection.brushes.get(column.name);
    const values = brush?.picked ? [...brush.picked] : brush?.from === undefined ? [] : [brush.from, brush.to];
    if (!values.length) return null;
    const pad = column.choices.length ? 9 : 0;
    const places = values.map((value) => this.along(column, value));
    return [Math.min(...places) - pad, Math.max(...places) + pad];
  }

  drawPointed(pen) {
    for (const [colour, width] of [[this.paint.card, 6], [this.paint.ink, 2.4]]) {
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      pen.beginPath();
      this.trace(pen, this.pointed, this.trials.names.length <= CURVED);
      pen.stroke();
    }
  }

  point(trial) {
    if (this.pointed === trial) return;
    this.pointed = trial;
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  }

  makeButton(column) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = column.name;
    button.title = `${column.name}: ${column.sentence}`;
    button.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      this.move(column, this.selection.axes.indexOf(column) + step);
      this.told.change(true);
      button.focus();
    });
    button.addEventListener("pointerdown", (event) => {
      button.setPointerCapture(event.pointerId);
      button.classList.add("held");
      event.stopPropagation();
    });
    button.addEventListener("pointermove", (event) => {
      if (!button.classList.contains("held")) return;
      const box = this.element.getBoundingClientRect(), at = this.isFlat ? event.clientY - box.top : event.clientX - box.left;
      const distances = this.selection.axes.map((_, place) => Math.abs(this.across(place) - at));
      const target = distances.indexOf(Math.min(...distances));
      if (target !== this.selection.axes.indexOf(column)) { this.move(column, target); this.told.change(false); }
    });
    const drop = () => { if (button.classList.contains("held")) { button.classList.remove("held"); this.told.change(true); } };
    button.addEventListener("pointerup", drop);
    button.addEventListener("pointercancel", drop);
    return button;
  }

  move(column, target) {
    const axes = this.selection.axes.filter((each) => each !== column);
    axes.splice(clamp(target, 0, axes.length), 0, column);
    this.selection.axes = axes;
  }

  placeButtons() {
    const { axes } = this.selection, room = this.isFlat ? this.width - 30 : (this.width / axes.length) - 6;
    this.element.style.setProperty("--room", `${Math.max(room, 60)}px`);
    axes.forEach((column, place) => {
      const button = this.buttons.get(column), across = this.across(place);
      button.style.left = `${this.isFlat ? 24 : across}px`;
      button.style.top = `${this.isFlat ? across - 34 : 6}px`;
      button.setAttribute("aria-label", `${column.name}, axis ${place + 1} of ${axes.length}; arrow keys move it`);
      // A button that leaves its place loses the pointer that drags it.
      if (!this.labels.querySelector(".held") && button !== this.labels.children[place]) this.labels.insertBefore(button, this.labels.children[place]);
    });
  }

  bindPointer() {
    const locate = (event) => {
      const box = this.element.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
      return this.isFlat ? { across: y, along: x, x, y } : { across: x, along: y, x, y };
    };
    const findAxis = ({ across }) => {
      const place = this.selection.axes.findIndex((_, each) => Math.abs(this.across(each) - across) < NEAR);
      return place < 0 ? null : this.selection.axes[place];
    };
    this.element.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      const at = locate(event), column = findAxis(at);
      if (!column) return;
      this.element.setPointerCapture(event.pointerId);
      this.drag = this.startDrag(column, at.along);
    });
    this.element.addEventListener("pointermove", (event) => {
      const at = locate(event);
      if (this.drag) { this.continueDrag(at.along); return; }
      const column = findAxis(at);
      this.element.style.cursor = column ? (this.isFlat ? "ew-resize" : "ns-resize") : "";
      this.hover(column ? null : this.findTrial(at), at);
    });
    this.element.addEventListener("pointerleave", () => { if (!this.drag) this.hover(null); });
    const end = () => {
      if (!this.drag) return;
      const { column, isMoved, isFresh, start } = this.drag, brush = this.selection.brushes.get(column.name);
      if (!isMoved && isFresh) {
        if (column.values.includes(null) && Math.abs(start - this.along(column, null)) < 9) this.selection.setUnset(column, !brush?.isUnset);
        else this.selection.brushes.delete(column.name);
      }
      this.drag = null;
      this.told.change(true);
    };
    this.element.addEventListener("pointerup", end);
    this.element.addEventListener("pointercancel", end);
    this.element.addEventListener("click", (event) => { if (this.pointed !== null && !findAxis(locate(event))) this.told.open(this.pointed); });
  }

  // A drag makes a new range, or moves an end of the one there is, or all of it.
  startDrag(column, at) {
    const span = this.findBrush(column);
    this.hover(null);
    if (!span || column.choices.length || at < span[0] - 6 || at > span[1] + 6) return { column, from: at, start: at, isFresh: true };
    if (Math.abs(at - span[0]) <= 6) return { column, from: span[1], start: at };
    if (Math.abs(at - span[1]) <= 6) return { column, from: span[0], start: at };
    return { column, span, start: at, isFresh: true };
  }

  continueDrag(at) {
    const { drag } = this, { column } = drag;
    if (!drag.isMoved && Math.abs(at - drag.start) < 3) return;
    drag.isMoved = true;
    const [from, to] = drag.span ? drag.span.map((end) => end + at - drag.start) : [drag.from, at];
    const [low, high] = [this.valueAt(column, from), this.valueAt(column, to)];
    if (column.choices.length) this.selection.setChoices(column, low, high); else this.selection.setRange(column, low, high);
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.told.change(false));
  }

  findTrial({ across, along }) {
    const { axes, places } = this.selection;
    const place = axes.findIndex((_, each) => each < axes.length - 1 && this.across(each) <= across && across <= this.across(each + 1));
    if (place < 0) return null;
    const linear = (across - this.across(place)) / (this.across(place + 1) - this.across(place));
    const turn = solve(linear), share = places.length <= CURVED ? 3 * turn ** 2 - 2 * turn ** 3 : linear;
    const [left, right] = [this.tables[place], this.tables[place + 1]];
    let found = null, least = 9;
    for (const trial of places) {
      const distance = Math.abs(left[trial] + (right[trial] - left[trial]) * share - along);
      if (distance < least) { least = distance; found = trial; }
    }
    return found;
  }

  hover(trial, at) {
    this.point(trial);
    this.tip.hidden = trial === null;
    if (trial === null) return;
    this.element.style.cursor = "pointer";
    fillTip(this.tip, this.trials.names[trial], this.selection.axes.slice(0, 16).map((column) => [column.name, this.write(column, column.values[trial])]));
    const x = at.x + this.tip.offsetWidth + 28 > this.width ? Math.max(at.x - this.tip.offsetWidth - 14, 0) : at.x + 16;
    this.tip.style.transform = `translate(${x}px, ${clamp(at.y - this.tip.offsetHeight / 2, 0, Math.max(this.height - this.tip.offsetHeight, 0))}px)`;
  }

  save(name) {
    this.pointed = null;
    this.draw();
    const picture = document.createElement("canvas");
    picture.width = this.canvas.width;
    picture.height = this.canvas.height;
    const pen = picture.getContext("2d");
    pen.fillStyle = this.paint.card;
    pen.fillRect(0, 0, picture.width, picture.height);
    pen.drawImage(this.canvas, 0, 0);
    pen.scale(this.scale, this.scale);
    pen.font = `600 ${0.65 * this.rem}px ${getComputedStyle(document.body).fontFamily}`;
    pen.fillStyle = this.paint.ink;
    pen.textAlign = this.isFlat ? "left" : "center";
    this.selection.axes.forEach((column, place) => pen.fillText(column.name, ...(this.isFlat ? [32, this.across(place) - 16] : [this.across(place), 24])));
    picture.toBlob((blob) => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    });
  }
}
