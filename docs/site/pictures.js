// Pictures follow the theme that the reader has chosen here, not the one of their system.
const darkPictures = document.querySelectorAll('picture > source[media="(prefers-color-scheme: dark)"]');

function followTheme() {
  const isDark = document.body.dataset.mdColorScheme === "slate";
  for (const source of darkPictures) source.media = isDark ? "all" : "not all";
}

new MutationObserver(followTheme).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
followTheme();
