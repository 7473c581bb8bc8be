// Runs before the page is drawn, so that it never flashes in the other theme.
(() => {
  const root = document.documentElement;
  const read = () => { try { return localStorage.getItem("podtune-theme"); } catch { return null; } };
  const keep = (theme) => { try { localStorage.setItem("podtune-theme", theme); } catch { /* private window: for this page only */ } };
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = new URLSearchParams(location.search).get("theme") || read();
  const current = () => (chosen === "dark" || chosen === "light" ? chosen : system.matches ? "dark" : "light");
  const apply = () => {
    root.dataset.theme = current();
    root.dispatchEvent(new CustomEvent("podtune-theme"));
    mark();
  };
  const mark = () => {
    for (const link of document.querySelectorAll("[data-theme-link]")) {
      const address = new URL(link.href);
      address.searchParams.set("theme", current());
      link.href = address.href;
    }
  };
  apply();
  system.addEventListener("change", apply);
  document.addEventListener("podtune-update", mark);
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const name = () => button.setAttribute("aria-label", `Theme: ${current()}; switch to ${current() === "dark" ? "light" : "dark"}`);
    button.hidden = false;
    button.addEventListener("click", () => { chosen = current() === "dark" ? "light" : "dark"; keep(chosen); apply(); name(); });
    name();
    apply();
  });
})();
