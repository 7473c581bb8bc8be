// Learning curves and rungs come from the server; this names the trial under the pointer or the arrow keys.
const SPACE = "http://www.w3.org/2000/svg", WIDTH = 2000, HEIGHT = 1000, NEAR = 26, FRESH = 3000;
const make = (tag, text, name) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
};
// How far a point is from a stretch, squared, and which end of it is nearer.
const measure = (x, y, [fromX, fromY], [toX, toY]) => {
  const [wide, high] = [toX - fromX, toY - fromY], length = wide ** 2 + high ** 2;
  const share = length ? Math.min(Math.max(((x - fromX) * wide + (y - fromY) * high) / length, 0), 1) : 0;
  return [(fromX + share * wide - x) ** 2 + (fromY + share * high - y) ** 2, share > 0.5];
};

class Chart {
  constructor(root) {
    Object.assign(this, { root, data: null, shown: null });
    this.frame = root.querySelector(".frame");
    this.tip = make("div", undefined, "tip");
    this.ring = make("div", undefined, "ring");
    this.tip.setAttribute("role", "status");
    this.tip.hidden = this.ring.hidden = true;
    this.tip.dataset.added = this.ring.dataset.added = "";
    root.append(this.ring, this.tip);
    this.lines = ["pointed under", "pointed"].map((name) => {
      const line = document.createElementNS(SPACE, "path");
      line.setAttribute("class", name);
      line.setAttribute("vector-effect", "non-scaling-stroke");
      line.dataset.added = "";
      return line;
    });
    root.addEventListener("pointerenter", () => this.load());
    root.addEventListener("pointermove", (event) => this.follow(event));
    root.addEventListener("pointerleave", () => this.hide());
    root.addEventListener("blur", () => this.hide());
    root.addEventListener("click", () => this.open());
    root.addEventListener("keydown", (event) => this.press(event));
  }

  // After an update of the page, what is shown stays shown, as it is now.
  async renew() {
    const name = this.shown && this.data.items[this.shown.item][0];
    if (this.since && Date.now() - this.since > FRESH) this.data = this.loading = undefined;
    this.hide();
    if (name === null || !this.root.matches(":hover, :focus-visible")) return;
    await this.load();
    const item = this.data ? this.data.items.findIndex((each) => each[0] === name) : -1;
    if (item >= 0) this.show({ item, place: this.data.items[item][2].length - 1 });
  }

  load() {
    this.since = this.loading ? this.since : Date.now();
    this.loading ??= fetch(this.root.dataset.points)
      .then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error(answer.statusText))))
      .then((data) => {
        this.data = data;
        // Marks of a strip from left to right, curves in their order: the best first.
        this.order = data.items.map((_, place) => place);
        if (data.labels.length === 1) this.order.sort((a, b) => data.items[a][2][0] - data.items[b][2][0]);
      })
      .catch((error) => { console.error(error); this.loading = undefined; });
    return this.loading;
  }

  follow(event) {
    if (!this.data) return;
    const box = this.frame.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const scale = (at, across) => [(at / WIDTH) * box.width, (across / HEIGHT) * box.height];
    let found = null, least = NEAR ** 2;
    this.data.items.forEach(([, , xs, ys], item) => {
      let from = scale(xs[0], ys[0]);
      for (let place = 0; place < xs.length; place += 1) {
        const to = scale(xs[place], ys[place]), [distance, isAtEnd] = measure(x, y, from, to);
        if (distance < least) { least = distance; found = { item, place: isAtEnd ? place : Math.max(place - 1, 0) }; }
        from = to;
      }
    });
    if (found) this.show(found); else this.hide();
  }

  async press(event) {
    if (event.key === "Enter" && this.shown) { this.open(); return; }
    if (event.key === "Escape") { this.hide(); return; }
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    await this.load();
    if (!this.data?.items.length) return;
    const at = this.shown ? this.order.indexOf(this.shown.item) + step : 0;
    const item = this.order[Math.min(Math.max(at, 0), this.order.length - 1)];
    this.show({ item, place: this.data.items[item][2].length - 1 });
  }

  show({ item, place }) {
    this.shown = { item, place };
    const [name, word, xs, ys, ...numbers] = this.data.items[item];
    const path = xs.map((x, at) => `${at ? "L" : "M"}${x} ${ys[at]}`).join("") + (xs.length === 1 ? "h0" : "");
    for (const line of this.lines) { line.setAttribute("d", path); this.root.querySelector("[data-marks]").append(line); }
    const box = this.frame.getBoundingClientRect(), outer = this.root.getBoundingClientRect();
    const left = box.left - outer.left + (xs[place] / WIDTH) * box.width;
    const top = box.top - outer.top + (Math.min(Math.max(ys[place], 0), HEIGHT) / HEIGHT) * box.height;
    this.tip.replaceChildren(make("b", name), ...this.data.labels.map((label, at) => {
      const line = make("span");
      line.append(label, make("em", numbers[at][place]));
      return line;
    }), make("span", word));
    this.tip.hidden = this.ring.hidden = false;
    this.ring.style.transform = `translate(${left}px, ${top}px)`;
    const flip = left + this.tip.offsetWidth + 24 > outer.width;
    const highest = Math.min(0, outer.height - this.tip.offsetHeight);
    this.tip.style.transform = `translate(${flip ? Math.max(left - this.tip.offsetWidth - 14, 0) : left + 14}px, ${Math.max(top - this.tip.offsetHeight - 10, highest)}px)`;
    this.root.style.cursor = "pointer";
  }

  hide() {
    this.shown = null;
    this.tip.hidden = this.ring.hidden = true;
    this.root.style.cursor = "";
    for (const line of this.lines) line.remove();
  }

  open() {
    if (this.shown) location.href = this.root.dataset.trials + encodeURIComponent(this.data.items[this.shown.item][0]);
  }
}
const charts = new Map();
const bindAll = () => document.querySelectorAll("[data-points]").forEach((root) => { if (!charts.has(root)) charts.set(root, new Chart(root)); });
bindAll();
document.addEventListener("podtune-update", () => {
  for (const [root, chart] of charts) if (root.isConnected) chart.renew(); else charts.delete(root);
  bindAll();
});
