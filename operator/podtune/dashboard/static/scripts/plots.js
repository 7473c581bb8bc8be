// Charts come from the server; this names the trial under the pointer or the arrow keys.
import { bindEach, loadOnce, shorten } from "./elements.js";
import { PointedChart } from "./pointing.js";

const NEAR = 28;
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
const write = (column, value) => (column.choices?.length ? column.choices[value] : shorten(value));

const ENDED = new Set(["done", "stopped"]);
// Beside the middle of a choice, as the server places dots there.
const spread = (cells, number) => (cells ? (((number * 0.618034) % 1) - 0.5) * 0.6 / Number(cells) : 0);

class DotChart extends PointedChart {
  async read() {
    const { root } = this, { dataset } = root, all = await loadOnce(dataset.columns);
    const x = pick(all, dataset.x), y = pick(all, dataset.y), toX = makeScale(dataset, "x"), toY = makeScale(dataset, "y");
    // A third column is what a map is about; it shows ended trials that have it, of very many the best.
    const third = dataset.value ? pick(all, dataset.value) : null, order = third ?? y;
    const drawn = all.names.map((_, place) => place).filter((place) => x.values[place] !== null && y.values[place] !== null
      && (!third || (third.values[place] !== null && ENDED.has(all.keys[all.progress[place]]))));
    drawn.sort((a, b) => order.sign * (order.values[b] - order.values[a]) || a - b);
    const rows = [...(third ? [[third.name, third]] : []), [root.querySelector(".axis.y").textContent, y], [root.querySelector(".axis.x").textContent, x]];
    return drawn.slice(0, third ? Number(dataset.most) : undefined).map((place) => ({
      name: all.names[place], word: all.words[all.progress[place]],
      x: toX(x.values[place]) + spread(dataset.xCells, all.index[place]), y: 1 - toY(y.values[place]) - spread(dataset.yCells, all.index[place] * 7),
      rows, place,
    }));
  }

  find(x, y, box) {
    let nearest = null, least = NEAR ** 2;
    for (const mark of this.marks) {
      const distance = (mark.x * box.width - x) ** 2 + (mark.y * box.height - y) ** 2;
      if (distance < least) { least = distance; nearest = mark; }
    }
    return nearest && { mark: nearest };
  }

  locate({ mark }) { return [mark.x, mark.y]; }

  describe({ mark }) { return mark.rows.map(([label, column]) => [label, write(column, column.values[mark.place])]); }
}

bindEach("[data-plot]", (root) => new DotChart(root));
