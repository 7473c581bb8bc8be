// Charts come from the server; this names the trial under the pointer, and a click opens it.
const loads = new Map(), FRESH = 3000;
const load = (address) => {
  if (!loads.has(address)) loads.set(address, { since: Date.now(), trials: fetch(address).then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error(answer.statusText)))) });
  return loads.get(address).trials;
};
const short = (value) => {
  if (!value || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e6)) return String(Number(value.toPrecision(4)));
  const [digits, power] = value.toExponential(3).split("e");
  return `${Number(digits)}e${Number(power)}`;
};

const makeScale = (data, axis) => {
  const take = (value) => (data[`${axis}Log`] === "1" ? Math.log(value) : Number(value));
  const low = take(data[`${axis}Low`]), high = take(data[`${axis}High`]);
  return (value) => Math.min(Math.max((take(value) - low) / (high - low), 0), 1);
};
const pick = (all, name) => {
  if (name === "#") return { values: all.index };
  if (name === "@") return { values: all.hours };
  if (name === "$") return { values: all.spent };
  return all.columns.find((column) => column.name === name);
};

const ENDED = new Set(["done", "stopped"]);
// Beside the middle of a choice, as the server places dots there.
const spread = (cells, number) => (cells ? (((number * 0.618034) % 1) - 0.5) * 0.6 / Number(cells) : 0);

const bind = (plot) => {
  const frame = plot.querySelector(".frame");
  const tip = document.createElement("div"), ring = document.createElement("div");
  tip.className = "tip"; ring.className = "ring";
  tip.hidden = ring.hidden = true;
  tip.dataset.added = ring.dataset.added = "";
  plot.append(ring, tip);
  let points = null, found = null;

  const prepare = async () => {
    const all = await load(plot.dataset.columns);
    const x = pick(all, plot.dataset.x), y = pick(all, plot.dataset.y);
    const toX = makeScale(plot.dataset, "x"), toY = makeScale(plot.dataset, "y");
    // A third column is what a map is about; it shows ended trials that have it, of very many the best.
    const third = plot.dataset.value ? pick(all, plot.dataset.value) : null, { most } = plot.dataset;
    const drawn = all.names.map((_, place) => place).filter((place) => x.values[place] !== null && y.values[place] !== null
      && (!third || (third.values[place] !== null && ENDED.has(all.keys[all.progress[place]]))));
    if (third) drawn.sort((a, b) => third.sign * (third.values[b] - third.values[a]) || a - b);
    points = drawn.slice(0, third ? Number(most) : undefined).map((place) => ({
      name: all.names[place], progress: all.words[all.progress[place]],
      x: toX(x.values[place]) + spread(plot.dataset.xCells, all.index[place]), y: 1 - toY(y.values[place]) - spread(plot.dataset.yCells, all.index[place] * 7),
      rows: [...(third ? [[third.name, third, place]] : []), [plot.querySelector(".axis.y").textContent, y, place], [plot.querySelector(".axis.x").textContent, x, place]],
    }));
  };
  const hide = () => { tip.hidden = ring.hidden = true; found = null; frame.style.cursor = ""; };
  const show = (point) => {
    const box = frame.getBoundingClientRect(), outer = plot.getBoundingClientRect();
    const left = box.left - outer.left + point.x * box.width, top = box.top - outer.top + point.y * box.height;
    const name = document.createElement("b");
    name.textContent = point.name;
    tip.replaceChildren(name, ...point.rows.map(([label, column, place]) => {
      const line = document.createElement("span"), value = document.createElement("em");
      value.textContent = column.choices?.length ? column.choices[column.values[place]] : short(column.values[place]);
      line.append(label, value);
      return line;
    }));
    const last = document.createElement("span");
    last.textContent = point.progress;
    tip.append(last);
    tip.hidden = ring.hidden = false;
    ring.style.transform = `translate(${left}px, ${top}px)`;
    const flip = left + tip.offsetWidth + 24 > outer.width;
    tip.style.transform = `translate(${flip ? Math.max(left - tip.offsetWidth - 14, 0) : left + 14}px, ${Math.max(top - tip.offsetHeight - 10, 0)}px)`;
    frame.style.cursor = "pointer";
  };
  const ready = () => { if (!points) prepare().catch(() => { points = []; }); };
  plot.addEventListener("pointerenter", ready);
  document.addEventListener("podtune-update", () => { points = null; hide(); if (plot.matches(":hover")) ready(); });
  plot.addEventListener("pointermove", (event) => {
    if (!points) return;
    const box = frame.getBoundingClientRect();
    let nearest = null, least = 28 ** 2;
    for (const point of points) {
      const distance = (box.left + point.x * box.width - event.clientX) ** 2 + (box.top + point.y * box.height - event.clientY) ** 2;
      if (distance < least) { least = distance; nearest = point; }
    }
    found = nearest;
    if (nearest) show(nearest); else hide();
  });
  plot.addEventListener("pointerleave", hide);
  plot.addEventListener("click", () => { if (found) location.href = plot.dataset.trials + encodeURIComponent(found.name); });
};
const bound = new WeakSet();
const bindAll = () => document.querySelectorAll("[data-plot]").forEach((plot) => { if (!bound.has(plot)) { bound.add(plot); bind(plot); } });
bindAll();
document.addEventListener("podtune-update", () => {
  for (const [address, { since }] of loads) if (Date.now() - since > FRESH) loads.delete(address);
  bindAll();
});
