// A title is told to a pointer that rests on it. This tells it to others: of what has the focus by keyboard, of what is
// tapped, and, while a table or a group of values has the focus, of one after the other by arrow keys.
import { make } from "./elements.js";

const STEPS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }, EDGE = 8;
const GROUPS = "[role=region][tabindex], [role=group][tabindex]", CELLS = "td[title], th[title]", VALUES = `${CELLS}, dd[title]`;
const tip = make("div", undefined, "tip hover"), told = make("span", undefined, "hide");
let at = null;

const hide = () => {
  at?.classList.remove("hovered");
  at = null;
  tip.hidden = true;
};

const place = () => {
  if (!at) return;
  const box = at.getBoundingClientRect(), isLow = box.bottom + tip.offsetHeight + EDGE > innerHeight;
  const x = Math.max(Math.min(box.left, document.documentElement.clientWidth - tip.offsetWidth - EDGE), EDGE);
  tip.style.transform = `translate(${x}px, ${isLow ? box.top - tip.offsetHeight - EDGE : box.bottom + EDGE}px)`;
};

const show = (element) => {
  hide();
  at = element;
  at.classList.add("hovered");
  tip.textContent = element.title;
  tip.hidden = false;
  place();
};

// Sideways from value to value, up and down within the column of a table.
const step = (group, key) => {
  // A region without such cells is scrolled.
  const all = [...group.querySelectorAll(group.getAttribute("role") === "group" ? VALUES : CELLS)], isInside = group.contains(at) && at !== group;
  if (!all.length) return false;
  const column = isInside && at.closest("table") && (key === "ArrowUp" || key === "ArrowDown") ? all.filter((each) => each.cellIndex === at.cellIndex) : all;
  const next = isInside ? column[column.indexOf(at) + STEPS[key]] ?? at : all[0];
  next.scrollIntoView({ block: "nearest", inline: "nearest" });
  show(next);
  told.textContent = next.title; // a screen reader has its focus elsewhere
  return true;
};

tip.setAttribute("aria-hidden", "true"); // the title itself is read
told.setAttribute("role", "status");
tip.hidden = true;
document.body.append(tip, told);
document.addEventListener("focusin", ({ target }) => { if (target.matches("[title]:focus-visible")) show(target); });
document.addEventListener("focusout", hide);
document.addEventListener("click", ({ target }) => {
  const titled = target.closest("a, button, summary, label, input, select") ? null : target.closest("[title]");
  if (titled) show(titled); else hide();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hide();
  if (!(event.key in STEPS) || event.altKey || event.ctrlKey || event.metaKey || !event.target.matches(GROUPS)) return;
  if (step(event.target, event.key)) event.preventDefault();
});
document.addEventListener("podtune-update", () => { if (at?.isConnected) show(at); else hide(); });
document.addEventListener("scroll", place, { capture: true, passive: true });
