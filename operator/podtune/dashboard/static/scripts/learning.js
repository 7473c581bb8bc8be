// Learning curves and rungs come from the server; this names the trial under the pointer or the arrow keys.
import { bindEach, loadOnce, makePath } from "./elements.js";
import { PointedChart } from "./pointing.js";

const WIDTH = 2000, HEIGHT = 1000, NEAR = 26;
// How far a point is from a stretch, squared, and which end of it is nearer.
const measure = (x, y, [fromX, fromY], [toX, toY]) => {
  const [wide, high] = [toX - fromX, toY - fromY], length = wide ** 2 + high ** 2;
  const share = length ? Math.min(Math.max(((x - fromX) * wide + (y - fromY) * high) / length, 0), 1) : 0;
  return [(fromX + share * wide - x) ** 2 + (fromY + share * high - y) ** 2, share > 0.5];
};

class CurveChart extends PointedChart {
  constructor(root) {
    super(root);
    this.lines = ["pointed under", "pointed"].map((name) => makePath(name));
    for (const line of this.lines) line.dataset.added = "";
  }

  async read() {
    const { labels, items } = await loadOnce(this.root.dataset.points);
    this.labels = labels;
    const marks = items.map(([name, word, xs, ys, ...numbers]) => ({ name, word, xs, ys, numbers, last: xs.length - 1 }));
    // Marks of a strip from left to right, curves in their order: the best first.
    return labels.length === 1 ? marks.sort((a, b) => a.xs[0] - b.xs[0]) : marks;
  }

  find(x, y, box) {
    const scale = (at, across) => [(at / WIDTH) * box.width, (across / HEIGHT) * box.height];
    let found = null, least = NEAR ** 2;
    for (const mark of this.marks) {
      let from = scale(mark.xs[0], mark.ys[0]);
      for (let place = 0; place <= mark.last; place += 1) {
        const to = scale(mark.xs[place], mark.ys[place]), [distance, isAtEnd] = measure(x, y, from, to);
        if (distance < least) { least = distance; found = { mark, place: isAtEnd ? place : Math.max(place - 1, 0) }; }
        from = to;
      }
    }
    return found;
  }

  locate({ mark, place }) { return [mark.xs[place] / WIDTH, Math.min(Math.max(mark.ys[place], 0), HEIGHT) / HEIGHT]; }

  describe({ mark, place }) { return this.labels.map((label, at) => [label, mark.numbers[at][place]]); }

  show(found) {
    super.show(found);
    const { xs, ys } = found.mark, path = xs.map((x, at) => `${at ? "L" : "M"}${x} ${ys[at]}`).join("") + (xs.length === 1 ? "h0" : "");
    for (const line of this.lines) { line.setAttribute("d", path); this.root.querySelector("[data-marks]").append(line); }
  }

  hide() {
    super.hide();
    for (const line of this.lines) line.remove();
  }
}

bindEach("[data-points]", (root) => new CurveChart(root));
