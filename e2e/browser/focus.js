// What the keyboard goes to and nobody sees that it is there, a sentence each. It moves the focus, so it comes last.
() => {
  const MOST = 4, EDGE = 1, REACHED = "a[href], button, input, select, textarea, summary, [tabindex='0']";
  const name = (element) => `<${element.localName} class="${element.getAttribute("class") ?? ""}"> ${(element.getAttribute("aria-label") ?? element.textContent).trim().slice(0, 30)}`;
  // A field may leave it to what it stands in, such as the chip of a box that is not drawn itself.
  const findOutlined = (element) => [element, element.parentElement].find((each) => {
    const style = getComputedStyle(each);
    return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= EDGE;
  });
  const isCutOff = (element) => {
    const style = getComputedStyle(element), away = parseFloat(style.outlineOffset) + EDGE;
    const box = element.getBoundingClientRect();
    const sides = { left: box.left - away, top: box.top - away, right: box.right + away, bottom: box.bottom + away };
    const lost = new Set();
    for (let outer = element.parentElement; outer && outer !== document.body; outer = outer.parentElement) {
      if (getComputedStyle(outer).overflowX === "visible" || outer instanceof SVGElement) continue;
      const edge = outer.getBoundingClientRect();
      for (const side of ["left", "top"]) if (sides[side] < edge[side] - 0.5) lost.add(side);
      for (const side of ["right", "bottom"]) if (sides[side] > edge[side] + 0.5) lost.add(side);
    }
    return lost.size > 1;
  };
  const flaws = [];
  for (const element of document.querySelectorAll(REACHED)) {
    if (element.disabled || !element.checkVisibility({ visibilityProperty: true })) continue;
    element.focus();
    if (document.activeElement !== element) continue;
    const outlined = findOutlined(element);
    if (!outlined) flaws.push(`${name(element)} has the focus, and nothing shows it`);
    else if (isCutOff(outlined)) flaws.push(`${name(element)} has an outline that is cut off`);
  }
  const kinds = [...new Map(flaws.map((flaw) => [flaw.replace(/>.*?(has|$)/, "$1"), flaw])).values()];
  return kinds.length > MOST ? [...kinds.slice(0, MOST), `and ${kinds.length - MOST} more`] : kinds;
}
