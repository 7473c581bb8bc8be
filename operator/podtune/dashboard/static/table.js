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
