// Drawings whose marks have a title: a pointer that rests on one is told it by the browser, and the arrow keys by this.
import { bindEach } from "./elements.js";
import { PointedChart } from "./pointing.js";

class TitledDrawing extends PointedChart {
  // Marks may be replaced at any time, such as by a replay.
  load() {
    if (!this.marks?.every((mark) => mark.element.isConnected)) this.loading = null;
    return super.load();
  }

  async read() {
    const marks = [...this.root.querySelectorAll("title")].map((title) => {
      const element = title.parentElement, row = element.closest("[data-name]"), text = title.textContent;
      const name = row?.dataset.name ?? text, word = text === name ? "" : text.startsWith(`${name}: `) ? text.slice(name.length + 2) : text;
      return { element, row: row ?? element, name, word };
    });
    // What lies over a mark, such as the hatching of lost time, says the same.
    return marks.filter((mark, at) => at === 0 || mark.row !== marks[at - 1].row || mark.word !== marks[at - 1].word);
  }

  find() { return null; }

  // Up and down lead from row to row.
  seek(place, key) {
    const step = { ArrowUp: -1, ArrowDown: 1 }[key];
    if (!step || place < 0) return super.seek(place, key);
    const firsts = this.marks.map((_, at) => at).filter((at) => this.marks[at].row !== this.marks[at - 1]?.row);
    return firsts[firsts.findLastIndex((at) => at <= place) + step] ?? place;
  }

  async press(event) {
    await super.press(event);
    this.shown?.mark.element.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  locate({ mark: { element } }) {
    const shape = element.localName === "svg" ? element.firstElementChild : element;
    const box = this.frame.getBoundingClientRect(), own = shape.getBoundingClientRect();
    return [(own.left + own.width / 2 - box.left) / box.width, (own.top + own.height / 2 - box.top) / box.height];
  }

  describe() { return []; }
}

bindEach("[data-titles]", (root) => new TitledDrawing(root));
