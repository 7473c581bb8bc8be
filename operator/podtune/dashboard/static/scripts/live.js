// Keeps the page up to date. The server tells that something has changed; the page is fetched anew, and what differs is
// replaced. Whatever a person has opened, typed, focused or scrolled stays.
const PACE = 1000, LONGEST = 30000, SHARE = 5;
const WORDS = { live: "Live", paused: "Paused", reconnecting: "Reconnecting", away: "Not reached" };
const TITLES = { live: "The page follows the cluster. Click to pause it.", paused: "The page stays as it is. Click to follow the cluster again.", reconnecting: "The dashboard does not answer. It is tried again.", away: "The API server does not answer. It is tried again." };
const KEPT = new Set(["style", "open", "value", "checked"]);
const button = document.getElementById("live"), label = button.querySelector(".label"), told = document.getElementById("live-status");
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const wait = (milliseconds) => new Promise((done) => { setTimeout(done, milliseconds); });

// What an element is about, so that a row that moves stays the same element; empty where its place says that.
const findKey = (node) => {
  if (node.nodeType !== Node.ELEMENT_NODE) return "";
  const field = node.matches("input, select, textarea") ? node : node.localName === "label" ? node.querySelector("input, select, textarea") : null;
  if (field) return `${node.localName} ${field.name} ${["checkbox", "radio"].includes(field.type) ? field.getAttribute("value") : ""}`;
  if (node.id) return `#${node.id}`;
  if (!["tr", "li"].includes(node.localName)) return "";
  return `${node.localName} ${node.querySelector("a")?.getAttribute("href") ?? ""} ${node.querySelector("time")?.dateTime ?? ""}`;
};
const findPlace = (node) => findKey(node) || node.nodeName;

const changeAttributes = (old, fresh) => {
  for (const { name } of [...old.attributes]) if (!KEPT.has(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (!KEPT.has(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
};

const changeNode = (old, fresh, changed) => {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.nodeValue = fresh.nodeValue;
    changed.add(old.parentElement);
    return;
  }
  if (old.hasAttribute("data-scripted")) return; // its script asks for what it shows
  changeAttributes(old, fresh);
  const waiting = new Map();
  for (const child of old.childNodes) {
    if (child.dataset?.added !== undefined) continue; // a script has put it there
    const place = findPlace(child);
    waiting.set(place, [...(waiting.get(place) ?? []), child]);
  }
  let next = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const known = waiting.get(findPlace(child))?.shift();
    if (known) changeNode(known, child, changed);
    const node = known ?? document.importNode(child, true);
    if (node === next) next = next.nextSibling; else old.insertBefore(node, next);
  }
  for (const left of [...waiting.values()].flat()) left.remove();
};

// A figure that has changed is lit for a moment.
const light = (elements) => {
  if (calm.matches) return;
  const colour = getComputedStyle(document.documentElement).getPropertyValue("--accent-soft").trim();
  for (const element of elements) if (element?.matches(".figures dd, .value, .tabs .count")) element.animate([{ backgroundColor: colour }, {}], 1200);
};

const replace = (fresh) => {
  const focused = document.activeElement, changed = new Set();
  document.title = fresh.title;
  for (const part of ["main", "footer"]) changeNode(document.querySelector(part), fresh.querySelector(part), changed);
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  light(changed);
  document.dispatchEvent(new CustomEvent("podtune-update"));
};

class Follower {
  constructor() {
    Object.assign(this, { revision: button.dataset.revision, stream: null, timer: 0, tries: 0, isPaused: false, isFetching: false, isBehind: false });
    button.hidden = false;
    button.addEventListener("click", () => { this.isPaused = !this.isPaused; this.turn(); });
    document.addEventListener("visibilitychange", () => this.turn());
    addEventListener("pagehide", () => this.close());
    addEventListener("pageshow", () => this.turn());
    this.turn();
  }

  turn() {
    if (this.isPaused || document.hidden) this.close(); else this.open();
    this.show(this.isPaused ? "paused" : this.tries ? "reconnecting" : "live");
  }

  show(state) {
    const shown = state === "live" && document.getElementById("outage") ? "away" : state;
    button.dataset.state = shown;
    button.title = TITLES[shown];
    button.setAttribute("aria-pressed", String(!this.isPaused));
    if (label.textContent !== WORDS[shown]) label.textContent = told.textContent = WORDS[shown];
  }

  open() {
    if (this.stream) return;
    clearTimeout(this.timer);
    this.stream = new EventSource(`${button.dataset.events}?since=${encodeURIComponent(this.revision)}`);
    this.stream.addEventListener("open", () => { this.tries = 0; this.show("live"); });
    this.stream.addEventListener("change", () => this.follow());
    this.stream.addEventListener("error", () => this.retry());
  }

  close() {
    clearTimeout(this.timer);
    this.stream?.close();
    this.stream = null;
  }

  // Ever more seldom, and not all pages at once.
  retry() {
    this.close();
    if (this.isPaused || document.hidden) return;
    this.tries += 1;
    this.show("reconnecting");
    this.timer = setTimeout(() => this.open(), Math.min(PACE * 2 ** (this.tries - 1), LONGEST) * (0.5 + Math.random() / 2));
  }

  async follow() {
    this.isBehind = true;
    if (this.isFetching) return;
    this.isFetching = true;
    try {
      while (this.isBehind && this.stream) {
        this.isBehind = false;
        const since = performance.now(), fresh = await this.fetch();
        if (!this.isPaused) this.take(fresh);
        // What takes the server long is asked for less often.
        await wait(Math.max(PACE, SHARE * (performance.now() - since)));
      }
    } catch {
      this.retry();
    } finally {
      this.isFetching = false;
    }
  }

  async fetch() {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (answer.status >= 500) throw new Error(answer.statusText);
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  }

  take(fresh) {
    const style = "link[rel=stylesheet]", lost = "main section.lost";
    const isOther = document.querySelector(style).getAttribute("href") !== fresh.querySelector(style)?.getAttribute("href");
    // A newer dashboard has other scripts, a page that was not there has none, and a page that asks who one is follows nothing.
    if (isOther || !fresh.getElementById("live") || (document.querySelector(lost) && !fresh.querySelector(lost))) { location.reload(); return; }
    this.revision = fresh.getElementById("live")?.dataset.revision ?? this.revision;
    replace(fresh);
    this.show("live");
  }
}

new Follower();
