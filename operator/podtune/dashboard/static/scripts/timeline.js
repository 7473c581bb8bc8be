// Drag over the overview or the lanes to see a span of time; the same by keys. The span is in the address.
import { bindEach, make } from "./elements.js";

const LEAST = 6, KEY = "podtune-timeline";
const write = (seconds) => new Date(Math.round(seconds) * 1000).toISOString().slice(0, 19);
const keep = (facts) => { try { sessionStorage.setItem(KEY, JSON.stringify({ scroll: scrollY, ...facts })); } catch { /* the page goes to its top then */ } };
const go = (address, facts = {}) => { keep(facts); location.assign(address); };

const show = (begin, end) => {
  const address = new URL(location.href);
  address.searchParams.set("from", write(begin));
  address.searchParams.set("to", write(end));
  address.searchParams.delete("page");
  address.hash = "";
  address.search = address.search.replaceAll("%3A", ":");
  go(address.href);
};

class Span {
  constructor(root) {
    Object.assign(this, { root, from: null, at: 0 });
    this.box = make("div", undefined, "dragged");
    this.box.dataset.added = "";
    this.box.hidden = true;
    root.append(this.box);
    // Bars lie over the rules, and are dragged over like them.
    (root.closest(".lanes") ?? root).addEventListener("pointerdown", (event) => this.begin(event));
    root.addEventListener("pointermove", (event) => this.move(event));
    root.addEventListener("pointerup", () => this.end());
    root.addEventListener("pointercancel", () => this.cancel());
    addEventListener("keydown", (event) => { if (event.key === "Escape") this.cancel(); });
  }

  place(event) {
    const box = this.root.getBoundingClientRect();
    return Math.min(Math.max(event.clientX - box.left, 0), box.width);
  }

  begin(event) {
    if (event.button !== 0 || event.target.closest("a") || event.clientX < this.root.getBoundingClientRect().left) return;
    this.from = this.at = this.place(event);
    this.root.setPointerCapture(event.pointerId);
    event.preventDefault();
    this.root.focus({ preventScroll: true });
  }

  move(event) {
    if (this.from === null) return;
    this.at = this.place(event);
    const low = Math.min(this.from, this.at), width = Math.abs(this.at - this.from);
    this.box.hidden = width < LEAST;
    this.box.style.left = `${low}px`;
    this.box.style.width = `${width}px`;
  }

  end() {
    const { from, at } = this, width = this.root.getBoundingClientRect().width;
    this.cancel();
    if (from === null || Math.abs(at - from) < LEAST) return;
    const begin = Number(this.root.dataset.begin), length = Number(this.root.dataset.end) - begin;
    const low = begin + (Math.min(from, at) / width) * length, high = begin + (Math.max(from, at) / width) * length;
    show(Math.floor(low), Math.max(Math.ceil(high), Math.floor(low) + 1));
  }

  cancel() {
    this.from = null;
    this.box.hidden = true;
  }
}

const LINKS = { ArrowLeft: "earlier", ArrowRight: "later", "+": "in", "=": "in", "-": "out", Home: "all" };
document.addEventListener("keydown", (event) => {
  if (!event.target.matches?.(".run") || event.ctrlKey || event.metaKey || event.altKey) return;
  const link = document.querySelector(`[data-link="${LINKS[event.key]}"]`);
  if (!LINKS[event.key]) return;
  event.preventDefault();
  if (link) go(link.href, { focus: ".run" });
});
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("[data-link]");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) keep({ focus: `[data-link="${link.dataset.link}"]` });
});

bindEach("[data-span]", (root) => new Span(root));

try {
  const kept = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
  sessionStorage.removeItem(KEY);
  if (kept) {
    scrollTo({ top: kept.scroll, behavior: "instant" });
    if (kept.focus) (document.querySelector(kept.focus) ?? document.querySelector(".run"))?.focus({ preventScroll: true });
  }
} catch { /* nothing was kept */ }
