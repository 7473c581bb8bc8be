// Marks of charts are named by the pointer and by the arrow keys; a click or Enter opens what they stand for.
import { make } from "./elements.js";

const KEYS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -Infinity, End: Infinity };

// A name, lines of a label and a value each, and a word.
export const fillTip = (tip, name, lines, word) => {
  tip.replaceChildren(make("b", name), ...lines.map(([label, value]) => {
    const line = make("span");
    line.append(label, make("em", value));
    return line;
  }), ...(word ? [make("span", word)] : []));
};

// A chart has marks with a name each. Kinds of charts say how marks are read (`read`, in the order of the arrow keys),
// found below the pointer (`find`), and what is shown of one, or of one of its places: where it lies in the drawing, as
// shares of width and height (`locate`), and what there is to say (`describe`).
export class PointedChart {
  constructor(root) {
    Object.assign(this, { root, frame: root.querySelector(".frame") ?? root, marks: null, shown: null, loading: null, at: null });
    this.tip = make("div", undefined, "tip");
    this.ring = make("div", undefined, "ring");
    this.tip.setAttribute("role", "status");
    this.tip.hidden = this.ring.hidden = true;
    this.tip.dataset.added = this.ring.dataset.added = "";
    root.append(this.ring, this.tip);
    root.addEventListener("pointerenter", () => this.load());
    root.addEventListener("pointermove", (event) => this.follow(event));
    root.addEventListener("pointerleave", () => { this.at = null; this.hide(); });
    root.addEventListener("blur", () => this.hide());
    root.addEventListener("click", () => this.open());
    root.addEventListener("keydown", (event) => this.press(event));
  }

  // After an update of the page, what is shown stays shown, as it is now.
  async renew() {
    const { name, word } = this.shown?.mark ?? {};
    this.marks = this.loading = null;
    this.hide();
    if (!this.root.matches(":hover, :focus-visible")) return;
    await this.load();
    const mark = this.marks?.find((each) => each.name === name && each.word === word) ?? this.marks?.find((each) => each.name === name);
    if (mark) this.show({ mark, place: mark.last });
  }

  load() {
    if (this.loading) return this.loading;
    const loading = this.read()
      .then((marks) => {
        if (this.loading !== loading) return; // an update has come in between
        this.marks = marks;
        if (this.at) this.follow(this.at); // the pointer may rest by now
      })
      .catch((error) => { console.error(error); if (this.loading === loading) this.loading = null; });
    this.loading = loading;
    return loading;
  }

  follow(event) {
    this.at = event;
    if (!this.marks) return;
    const box = this.frame.getBoundingClientRect();
    const found = this.find(event.clientX - box.left, event.clientY - box.top, box);
    if (found) this.show(found); else this.hide();
  }

  async press(event) {
    if (event.target !== this.root || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter") { this.open(); return; }
    if (event.key === "Escape") { this.hide(); return; }
    if (!(event.key in KEYS)) return;
    event.preventDefault();
    await this.load();
    if (!this.marks?.length) return;
    const at = this.shown ? this.seek(this.marks.indexOf(this.shown.mark), event.key) : event.key === "End" ? Infinity : 0;
    const mark = this.marks[Math.min(Math.max(at, 0), this.marks.length - 1)];
    this.show({ mark, place: mark.last });
  }

  seek(place, key) { return place + KEYS[key]; }

  show(found) {
    this.shown = found;
    const { frame, root, ring, tip } = this, [x, y] = this.locate(found);
    fillTip(tip, found.mark.name, this.describe(found), found.mark.word);
    tip.hidden = ring.hidden = false;
    const box = frame.getBoundingClientRect(), outer = root.getBoundingClientRect();
    const left = box.left - outer.left + x * box.width, top = box.top - outer.top + y * box.height;
    ring.style.transform = `translate(${left}px, ${top}px)`;
    const flip = left + tip.offsetWidth + 24 > outer.width, highest = Math.min(0, outer.height - tip.offsetHeight);
    tip.style.transform = `translate(${flip ? Math.max(left - tip.offsetWidth - 14, 0) : left + 14}px, ${Math.max(top - tip.offsetHeight - 10, highest)}px)`;
    root.style.cursor = root.dataset.trials ? "pointer" : "";
  }

  hide() {
    this.shown = null;
    this.tip.hidden = this.ring.hidden = true;
    this.root.style.cursor = "";
  }

  open() {
    if (this.shown && this.root.dataset.trials) location.href = this.root.dataset.trials + encodeURIComponent(this.shown.mark.name);
  }
}
