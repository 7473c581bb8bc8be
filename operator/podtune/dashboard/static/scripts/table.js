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
// Which trials are chosen, on all pages of the table: a tab remembers them, and the form sends those of other pages too.
const FEWEST = 2, MOST = 20, KEPT = `chosen ${location.pathname}`;
const recall = () => { try { return new Set(JSON.parse(sessionStorage.getItem(KEPT) ?? "[]")); } catch { return new Set(); } };
const remember = (chosen) => { try { sessionStorage.setItem(KEPT, JSON.stringify([...chosen])); } catch { /* then they last as long as the page */ } };
const tell = () => {
  const choice = document.querySelector("[data-choose]");
  if (!choice) return;
  const chosen = recall(), boxes = [...choice.querySelectorAll(".pick")], here = new Set(boxes.map((box) => box.value));
  for (const box of boxes) box.checked = chosen.has(box.value);
  const elsewhere = [...chosen].filter((name) => !here.has(name));
  choice.querySelectorAll("[data-elsewhere]").forEach((field) => field.remove());
  for (const name of elsewhere) {
    const field = document.createElement("input");
    Object.assign(field, { type: "hidden", name: "trial", value: name });
    field.dataset.elsewhere = field.dataset.added = "";
    choice.append(field);
  }
  const count = chosen.size, others = elsewhere.length ? `, ${elsewhere.length} of them on other pages` : "";
  const button = choice.querySelector(".choose button"), told = choice.querySelector(".choose .hint"), clear = choice.querySelector("[data-clear]");
  const words = count > MOST ? `${count} are chosen${others}: at most ${MOST} can be told apart.` : count === 1 ? `One is chosen${elsewhere.length ? ", on another page" : ""}: tick another one.` : count ? `${count} are chosen${others}.` : told.dataset.hint;
  button.classList.toggle("primary", count >= FEWEST && count <= MOST);
  clear.hidden = !count;
  if (told.textContent !== words) told.textContent = words;
};
document.addEventListener("change", (event) => {
  if (!event.target.matches(".pick")) return;
  const chosen = recall();
  if (event.target.checked) chosen.add(event.target.value); else chosen.delete(event.target.value);
  remember(chosen);
  tell();
});
document.addEventListener("click", (event) => { if (event.target.matches("[data-clear]")) { remember(new Set()); tell(); } });
document.addEventListener("podtune-update", tell);
addEventListener("pageshow", tell);
tell();
