// The table works without this: it only saves the click on Apply, and closes the menu of columns.
const form = document.querySelector("[data-filter]");
const menu = form.querySelector(".menu");
form.addEventListener("submit", () => {
  const boxes = [...menu.querySelectorAll("input")];
  // An address names the columns only where they are chosen.
  if (!menu.open && !new URLSearchParams(location.search).has("column")) boxes.forEach((box) => { box.disabled = true; });
  const text = form.querySelector("[name=q]");
  if (!text.value) text.disabled = true;
});
form.querySelectorAll(".chip input").forEach((box) => box.addEventListener("change", () => { menu.open = false; form.requestSubmit(); }));
document.addEventListener("click", (event) => { if (!menu.contains(event.target)) menu.open = false; });
menu.addEventListener("keydown", (event) => { if (event.key === "Escape") { menu.open = false; menu.querySelector("summary").focus(); } });
// How many trials are chosen, so that one knows before one asks for the comparison.
const FEWEST = 2, MOST = 20;
const tell = () => {
  const choice = document.querySelector("[data-choose]");
  if (!choice) return;
  const count = choice.querySelectorAll(".pick:checked").length;
  const button = choice.querySelector(".choose button"), told = choice.querySelector(".choose .hint");
  const words = count > MOST ? `${count} are chosen: at most ${MOST} can be told apart.` : count === 1 ? "One is chosen: tick another one." : count ? `${count} are chosen.` : told.dataset.hint;
  button.classList.toggle("primary", count >= FEWEST && count <= MOST);
  if (told.textContent !== words) told.textContent = words;
};
document.addEventListener("change", (event) => { if (event.target.matches(".pick")) tell(); });
document.addEventListener("podtune-update", tell);
tell();
