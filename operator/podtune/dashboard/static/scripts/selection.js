// Which trials are selected, in which order the axes stand, and what the colour means; kept in the address.
const SEPARATOR = "~";
const LISTS = ["axis", "range", "pick", "unset"];

export class Selection {
  constructor(trials, query) {
    this.trials = trials;
    this.byName = new Map(trials.columns.map((column) => [column.name, column]));
    this.objective = trials.columns.find((column) => column.sign) ?? trials.columns[0];
    this.reset();
    this.read(query);
  }

  reset() {
    this.axes = [...this.trials.columns];
    this.brushes = new Map();
    this.top = 100;
    this.colour = this.objective.name;
  }

  get colourColumn() { return this.byName.get(this.colour); }

  read(query) {
    const named = query.getAll("axis").map((name) => this.byName.get(name)).filter(Boolean);
    this.axes = [...new Set([...named, ...this.axes])];
    if (this.byName.has(query.get("colour"))) this.colour = query.get("colour");
    const top = Number(query.get("top"));
    if (top >= 1 && top <= 100) this.top = Math.round(top);
    for (const text of query.getAll("range")) {
      const [name, from, to] = text.split(SEPARATOR), column = this.byName.get(name);
      if (column && !column.choices.length && Number.isFinite(Number(from)) && Number.isFinite(Number(to))) this.setRange(column, Number(from), Number(to));
    }
    for (const text of query.getAll("pick")) {
      const [name, ...places] = text.split(SEPARATOR), column = this.byName.get(name);
      const picked = places.map(Number).filter((place) => place >= 0 && place < column?.choices.length);
      if (column && picked.length) this.brushes.set(name, { picked: new Set(picked) });
    }
    for (const name of query.getAll("unset")) if (this.byName.get(name)?.values.includes(null)) this.setUnset(this.byName.get(name), true);
  }

  write(query) {
    for (const name of [...LISTS, "colour", "top"]) query.delete(name);
    if (this.axes.some((column, place) => column !== this.trials.columns[place])) for (const column of this.axes) query.append("axis", column.name);
    for (const [name, brush] of this.brushes) {
      if (brush.isUnset) query.append("unset", name);
      if (brush.picked?.size) query.append("pick", [name, ...[...brush.picked].sort((a, b) => a - b)].join(SEPARATOR));
      else if (brush.from !== undefined) query.append("range", [name, Number(brush.from.toPrecision(6)), Number(brush.to.toPrecision(6))].join(SEPARATOR));
    }
    if (this.colour !== this.objective.name) query.set("colour", this.colour);
    if (this.top < 100) query.set("top", this.top);
    return query;
  }

  // A brush that selects nothing is none.
  put(column, brush) {
    const whole = { ...brush, isUnset: brush.isUnset ?? this.brushes.get(column.name)?.isUnset };
    if (whole.isUnset || whole.picked?.size || whole.from !== undefined) this.brushes.set(column.name, whole);
    else this.brushes.delete(column.name);
  }

  setRange(column, from, to, isWhole = false) {
    this.put(column, isWhole ? {} : { from: Math.min(from, to), to: Math.max(from, to) });
  }

  // A range that was dragged on an axis of choices takes those that lie in it.
  setChoices(column, from, to) {
    const picked = column.choices.map((_, place) => place).filter((place) => place >= Math.min(from, to) - 0.3 && place <= Math.max(from, to) + 0.3);
    this.put(column, { picked: new Set(picked) });
  }

  toggle(column, place, isPicked) {
    const picked = new Set(this.brushes.get(column.name)?.picked);
    if (isPicked) picked.add(place); else picked.delete(place);
    this.put(column, { picked });
  }

  // Trials that do without a conditional parameter.
  setUnset(column, isUnset) { this.put(column, { ...this.brushes.get(column.name), isUnset }); }

  refresh() {
    const { trials, objective } = this;
    const brushed = [...this.brushes].map(([name, brush]) => [this.byName.get(name).values, brush]);
    const limit = this.findLimit();
    this.places = [];
    for (let place = 0; place < trials.names.length; place += 1) {
      if (limit !== null && !(objective.values[place] !== null && objective.sign * objective.values[place] >= limit)) continue;
      if (brushed.every(([values, brush]) => Selection.holds(values[place], brush))) this.places.push(place);
    }
  }

  findLimit() {
    if (this.top >= 100) return null;
    const { values, sign } = this.objective;
    const good = values.filter((value) => value !== null).map((value) => sign * value).sort((a, b) => b - a);
    return good.length ? good[Math.max(Math.ceil((good.length * this.top) / 100), 1) - 1] : Infinity;
  }

  static holds(value, brush) {
    if (value === null) return brush.isUnset === true;
    return brush.picked ? brush.picked.has(value) : value >= brush.from && value <= brush.to;
  }

  // The selected trials, the best first; those without a value come last.
  list() {
    const { values, sign } = this.objective;
    const rank = (place) => (values[place] === null ? -Infinity : (sign || 1) * values[place]);
    return [...this.places].sort((a, b) => rank(b) - rank(a) || a - b);
  }
}
