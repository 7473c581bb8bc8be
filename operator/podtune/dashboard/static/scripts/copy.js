// Buttons that copy; without this, one selects a text of the page.
import { bindEach } from "./elements.js";

export const copy = async (button, text, instead) => {
  const word = button.dataset.word ??= button.textContent;
  try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; } catch { button.textContent = instead; }
  setTimeout(() => { button.textContent = word; }, 1800);
};

bindEach("[data-copy-of]", (button) => {
  button.hidden = false;
  button.addEventListener("click", () => copy(button, document.getElementById(button.dataset.copyOf).textContent, "Select it and copy"));
});
// Of a log, its end comes first.
document.querySelectorAll("[data-newest-last]").forEach((text) => { text.scrollTop = text.scrollHeight; });
