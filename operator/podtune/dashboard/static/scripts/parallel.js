// Parallel coordinates: one line for each trial, on a canvas. What is selected stands in the address.
import { copy } from "./copy.js";
import { bindEach, chooseDecimals, load, make, shorten } from "./elements.js";
import { Selection } from "./selection.js";
import { Stage } from "./stage.js";

const MOST_LISTED = 15;
const write = (column, value, decimals = null) =>
  (value === null ? "–" : column.choices.length ? column.choices[value] : decimals === null ? shorten(value) : value.toFixed(decimals));
// Texts stand left, numbers right.
const side = (column) => (column.choices.some((choice) => Number.isNaN(Number(choice))) ? "" : "n");

class View {
  constructor(root, trials) {
    this.root = root;
    this.trials = trials;
    this.find = (name) => root.querySelector(`[data-${name}]`);
    this.selection = new Selection(trials, new URLSearchParams(location.search));
    root.hidden = false;
    this.stage = new Stage(this.find("stage"), trials, this.selection, write, {
      change: (isDone) => this.update(isDone),
      open: (place) => { location.href = `${root.dataset.trials}/${encodeURIComponent(trials.names[place])}`; },
    });
    this.bindControls();
    this.buildRanges();
    this.update(true);
    new ResizeObserver(() => this.stage.resize()).observe(this.find("stage").parentElement);
    document.documentElement.addEventListener("podtune-theme", () => this.stage.draw());
  }

  bindControls() {
    const colour = this.find("colour"), top = this.find("top");
    this.listColours();
    colour.addEventListener("change", () => { this.selection.colour = colour.value; this.update(true); });
    top.addEventListener("input", () => { this.selection.top = Number(top.value); this.update(false); });
    top.addEventListener("change", () => this.update(true));
    this.find("reset").addEventListener("click", () => { this.selection.reset(); this.buildRanges(); this.update(true); });
    this.find("copy").addEventListener("click", (event) => copy(event.target, location.href, "Copy it from the address bar"));
    this.find("png").addEventListener("click", () => this.stage.save(`${document.title}.png`));
  }

  listColours() { this.find("colour").replaceChildren(...this.trials.columns.map((column) => new Option(column.name, column.name))); }

  // While somebody drags or types, they are left alone.
  get isBusy() { return this.stage.drag !== null || this.root.querySelector(".held, select:focus, [data-ranges] :focus, input:active") !== null; }

  // Trials as they are by now; what is selected stands in the address.
  replace(trials) {
    this.trials = trials;
    this.selection = new Selection(trials, new URLSearchParams(location.search));
    this.stage.replace(trials, this.selection);
    this.listColours();
    this.buildRanges();
    this.update(true);
    this.stage.resize();
  }

  // Fields for those who don't drag: from and to of each number, and boxes for each choice.
  buildRanges() {
    this.fields = this.trials.columns.map((column) => {
      const set = make("fieldset");
      set.append(make("legend", column.name));
      if (column.choices.length) {
        column.choices.forEach((choice, place) => {
          const label = make("label"), box = make("input");
          box.type = "checkbox";
          box.addEventListener("change", () => { this.selection.toggle(column, place, box.checked); this.update(true); });
          label.append(box, choice);
          set.append(label);
        });
      } else {
        for (const word of ["from", "to"]) {
          const input = make("input");
          input.type = "text";
          input.inputMode = "decimal";
          input.setAttribute("aria-label", `${column.name} ${word}`);
          input.addEventListener("change", () => {
            const [from, to] = [...set.querySelectorAll("input[type=text]")].map((each) => (each.value.trim() === "" ? NaN : Number(each.value)));
            this.selection.setRange(column, Number.isNaN(from) ? column.low : from, Number.isNaN(to) ? column.high : to, Number.isNaN(from) && Number.isNaN(to));
            this.update(true);
          });
          set.append(input);
        }
      }
      if (column.values.includes(null) && !column.sign) {
        const label = make("label"), box = make("input");
        box.type = "checkbox";
        box.dataset.unset = "";
        box.addEventListener("change", () => { this.selection.setUnset(column, box.checked); this.update(true); });
        label.append(box, "not set");
        set.append(label);
      }
      return { column, set };
    });
    this.find("ranges").replaceChildren(...this.fields.map((field) => field.set));
  }

  showRanges() {
    for (const { column, set } of this.fields) {
      const brush = this.selection.brushes.get(column.name);
      set.querySelectorAll("input").forEach((input, place) => {
        if (input.dataset.unset !== undefined) input.checked = brush?.isUnset === true;
        else if (input.type === "checkbox") input.checked = brush?.picked?.has(place) === true;
        else if (input !== document.activeElement) {
          input.value = brush?.from !== undefined ? shorten(place ? brush.to : brush.from) : "";
          input.placeholder = shorten(place ? column.high : column.low);
        }
      });
    }
  }

  update(isDone) {
    const { selection, trials } = this;
    selection.refresh();
    this.stage.draw(isDone);
    this.find("status").textContent = `${selection.places.length.toLocaleString("en")} of ${trials.names.length.toLocaleString("en")} trials`;
    this.find("top").value = selection.top;
    this.find("top-text").textContent = `${selection.top} %`;
    this.find("colour").value = selection.colour;
    const colour = selection.colourColumn;
    const ends = [colour.low, colour.high].map((end) => write(colour, colour.choices.length ? Math.round(end) : end));
    if (colour.sign < 0) ends.reverse();
    this.find("worst").textContent = `${colour.name} ${ends[0] ?? ""}`;
    this.find("best").textContent = ends[1] ?? "";
    if (!isDone) return;
    this.showRanges();
    this.list();
    const query = selection.write(new URLSearchParams(location.search)).toString();
    history.replaceState(null, "", query ? `?${query}` : location.pathname);
  }

  list() {
    const { selection, trials, root } = this;
    const shown = selection.list().slice(0, MOST_LISTED);
    const metrics = trials.columns.filter((column) => column.sign), others = selection.axes.filter((column) => !column.sign);
    const columns = [...metrics, ...others];
    const decimals = columns.map((column) => (column.log || column.choices.length ? null : chooseDecimals(shown.map((place) => column.values[place]))));
    const head = make("tr");
    head.append(make("th", "Trial"), ...columns.map((column) => make("th", column.name, side(column))));
    this.find("head").replaceChildren(head);
    this.find("body").replaceChildren(...shown.map((place) => {
      const line = make("tr"), cell = make("td"), link = make("a", trials.names[place]);
      link.href = `${root.dataset.trials}/${encodeURIComponent(trials.names[place])}`;
      cell.append(link);
      line.append(cell, ...columns.map((column, at) => make("td", write(column, column.values[place], decimals[at]), side(column))));
      line.addEventListener("pointerenter", () => this.stage.point(place));
      line.addEventListener("pointerleave", () => this.stage.point(null));
      return line;
    }));
  }
}

const PAUSE = 5000;
// All trials are much to send: they are asked for more seldom than the page.
class Lines {
  constructor(root) {
    Object.assign(this, { root, view: null, since: Date.now(), timer: 0 });
    const [wait, failure] = ["wait", "failure"].map((name) => root.parentElement.querySelector(`[data-${name}]`));
    wait.hidden = false;
    load(root.dataset.columns)
      .then((trials) => { this.view = new View(root, trials); })
      .catch((error) => { console.error(error); failure.hidden = false; })
      .finally(() => { wait.hidden = true; });
  }

  renew() {
    if (!this.view || this.timer) return;
    this.timer = setTimeout(() => this.replace(), Math.max(this.since + PAUSE - Date.now(), 0));
  }

  async replace() {
    this.since = Date.now();
    try {
      const trials = await load(this.root.dataset.columns);
      this.timer = 0;
      if (this.view.isBusy) this.renew(); else this.view.replace(trials);
    } catch (error) { this.timer = 0; console.error(error); }
  }
}

bindEach("[data-parallel]", (root) => new Lines(root));
