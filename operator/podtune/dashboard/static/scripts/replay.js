// The drawings of the whole record come once and are revealed up to the moment; the server says what was known then.
import { bindEach, load, makePath } from "./elements.js";

const FRESH = 5000, PACE = 120, CHUNK = 400;
const STEPS = { ArrowLeft: "previous", ArrowDown: "previous", ArrowRight: "next", ArrowUp: "next", Home: "first", End: "last" };
const KINDS = { previous: "step", next: "step" };
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const wait = (milliseconds) => new Promise((done) => { setTimeout(done, milliseconds); });
// How many numbers of an ordered list are at most a limit.
const count = (numbers, limit) => {
  let low = 0, high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= limit) low = middle + 1; else high = middle;
  }
  return low;
};

class Replay {
  constructor(root) {
    Object.assign(this, { root, tape: null, chunks: [], isAsking: false, isBehind: false, frame: 0, since: Date.now(), timer: 0 });
    this.find = (name) => root.querySelector(`[data-${name}]`);
    this.length = Number(root.dataset.length);
    this.slider.value = this.slider.getAttribute("value"); // browsers restore another one
    this.second = Number(this.slider.value);
    this.isAtEnd = !new URLSearchParams(location.search).has("at");
    this.prepare();
    root.addEventListener("input", (event) => { if (event.target === this.slider) { this.pause(); this.go(Number(this.slider.value)); } });
    root.addEventListener("click", (event) => this.click(event));
    document.addEventListener("keydown", (event) => this.press(event));
    calm.addEventListener("change", () => { this.pause(); this.prepare(); });
    this.load();
  }

  get slider() { return this.find("slider"); }

  // What only works with a script is there from now on, and the other way round.
  prepare() {
    this.find("show").hidden = true;
    this.find("play").hidden = this.find("speeds").hidden = calm.matches;
    this.find("calm").hidden = !calm.matches;
  }

  async load() {
    try { this.tape = await load(this.root.dataset.tape); } catch (error) { console.error(error); return; }
    this.length = this.tape.length;
    this.find("curves")?.replaceChildren(...this.tape.curves.map((path) => makePath("curve", path)));
    this.find("best")?.replaceChildren(...["curve halo", "curve first"].map((name) => makePath(name, this.tape.best)));
    this.chunks = [];
    for (let first = 0; first < this.tape.dots.length; first += CHUNK) this.chunks.push({ first, shown: 0, path: makePath("spot") });
    this.find("dots")?.replaceChildren(...this.chunks.map((chunk) => chunk.path));
    this.reveal();
  }

  // After an update of the page: whoever stands at the end follows it.
  renew() {
    this.length = Number(this.root.dataset.length);
    if (this.isAtEnd) this.second = this.length;
    this.prepare();
    this.reveal();
    if (!this.timer) this.timer = setTimeout(() => { this.timer = 0; this.since = Date.now(); this.load(); }, Math.max(this.since + FRESH - Date.now(), 0));
  }

  reveal() {
    const share = this.second / this.length;
    this.slider.max = this.length;
    this.slider.value = this.second;
    this.find("past")?.setAttribute("width", 20 + 2000 * share);
    const cursor = this.root.querySelector("[data-part=cursor]");
    for (const end of ["x1", "x2"]) cursor?.setAttribute(end, `${100 * share}%`);
    if (!this.tape) return;
    const made = count(this.tape.made, this.second);
    for (const chunk of this.chunks) {
      const shown = Math.min(Math.max(made - chunk.first, 0), CHUNK);
      if (shown === chunk.shown) continue;
      chunk.shown = shown;
      chunk.path.setAttribute("d", this.tape.dots.slice(chunk.first, chunk.first + shown).join(""));
    }
  }

  go(second) {
    this.second = Math.min(Math.max(second, 0), this.length);
    this.isAtEnd = this.second >= this.length;
    this.reveal();
    this.ask();
  }

  // Where a jump leads from here; null where it leads nowhere.
  seek(kind) {
    if (kind === "first") return 0;
    if (kind === "last") return this.length;
    const moments = this.tape?.stops[KINDS[kind] ?? kind];
    if (!moments) return null;
    const place = kind === "previous" ? count(moments, this.second - 1) - 1 : count(moments, this.second);
    return moments[place] ?? null;
  }

  step(kind) {
    const second = this.seek(kind);
    this.pause();
    if (second !== null) this.go(second);
  }

  click(event) {
    const jump = event.target.closest("[data-jump]");
    if (event.target.closest("[data-play]")) { if (this.frame) this.pause(); else this.play(); return; }
    if (!jump || !this.tape || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.step(jump.dataset.jump);
  }

  press(event) {
    const kind = STEPS[event.key], at = event.target;
    const isHere = at === document.body || at === this.slider || at.closest?.(".transport a, .transport button");
    if (!kind || !isHere || !this.tape || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (at === document.body && !["ArrowLeft", "ArrowRight"].includes(event.key)) return; // the others scroll
    event.preventDefault();
    this.step(kind);
  }

  play() {
    if (calm.matches) return;
    if (this.second >= this.length) this.go(0);
    let last = performance.now(), exact = this.second;
    const turn = (now) => {
      exact += ((now - last) / 1000) * (this.length / Number(this.find("speed").value));
      last = now;
      this.frame = requestAnimationFrame(turn);
      this.go(Math.min(Math.floor(exact), this.length));
      if (this.second >= this.length) this.pause();
    };
    this.frame = requestAnimationFrame(turn);
    this.find("play").textContent = "Pause";
  }

  pause() {
    if (!this.frame) return;
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.find("play").textContent = "Play";
    this.tell();
  }

  // One question at a time, and the next one about where the moment is by then.
  async ask() {
    this.isBehind = true;
    if (this.isAsking) return;
    this.isAsking = true;
    try {
      while (this.isBehind) {
        this.isBehind = false;
        const address = new URL(this.root.dataset.parts, location.href);
        address.searchParams.set("at", this.second);
        const answer = await fetch(address);
        const fresh = answer.ok ? new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-moment]") : null;
        if (!fresh) throw new Error(answer.statusText || "no moment");
        this.find("failure").hidden = true;
        this.take(fresh);
        if (this.frame) await wait(PACE);
      }
    } catch (error) {
      console.error(error);
      this.pause();
      this.find("failure").hidden = false;
    } finally {
      this.isAsking = false;
    }
  }

  take(fresh) {
    for (const part of fresh.querySelectorAll("[data-part]")) {
      for (const old of this.root.querySelectorAll(`[data-part="${part.dataset.part}"]`)) old.replaceWith(document.importNode(part, true));
    }
    for (const jump of fresh.querySelectorAll("[data-jump]")) {
      const old = this.root.querySelector(`[data-jump="${jump.dataset.jump}"]`);
      for (const name of ["href", "role", "aria-disabled"]) {
        if (jump.hasAttribute(name)) old?.setAttribute(name, jump.getAttribute(name)); else old?.removeAttribute(name);
      }
    }
    this.slider.setAttribute("aria-valuetext", fresh.dataset.words);
    this.words = fresh.dataset.words;
    if (!this.frame) this.tell();
    const here = new URL(location.href);
    if (this.isAtEnd) here.searchParams.delete("at"); else here.searchParams.set("at", this.second);
    for (const link of this.root.querySelectorAll("[data-here] a")) {
      const address = new URL(link.href);
      address.searchParams.set("at", this.second);
      link.href = address.href;
    }
    const kept = this.find("at");
    if (kept) kept.value = this.second;
    clearTimeout(this.noted);
    this.noted = setTimeout(() => history.replaceState(null, "", here), 150); // browsers refuse to note very many
  }

  tell() {
    if (this.words && document.activeElement !== this.slider) this.find("told").textContent = this.words;
  }
}

bindEach("[data-replay]", (root) => new Replay(root));
