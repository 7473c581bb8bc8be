// A button that copies a text of the page; without this, one selects it.
const bind = (button) => {
  if (!button.hidden) return;
  button.hidden = false;
  button.addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(document.getElementById(button.dataset.copyOf).textContent); button.textContent = "Copied"; } catch { button.textContent = "Select it and copy"; }
    setTimeout(() => { button.textContent = "Copy"; }, 1800);
  });
};
const bindAll = () => document.querySelectorAll("[data-copy-of]").forEach(bind);
bindAll();
document.addEventListener("podtune-update", bindAll);
// Of a log, its end comes first.
document.querySelectorAll("[data-end]").forEach((text) => { text.scrollTop = text.scrollHeight; });
