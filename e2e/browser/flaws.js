// What is wrong with how a page is laid out, a sentence each. Runs in the page as it is drawn.
({ leastSize }) => {
  const MOST = 6, width = document.documentElement.clientWidth;
  const everything = [-Infinity, -Infinity, Infinity, Infinity], nothing = [0, 0, 0, 0];
  const meet = ([a, b, c, d], [e, f, g, h]) => [Math.max(a, e), Math.max(b, f), Math.min(c, g), Math.min(d, h)];
  const frame = (element) => { const box = element.getBoundingClientRect(); return [box.left, box.top, box.right, box.bottom]; };
  // What of an element's contents is seen; and what floats above the page, which may lie over it.
  const known = new Map();
  const look = (element) => {
    if (!element || element === document.body) return { seen: everything, floats: null };
    if (known.has(element)) return known.get(element);
    const { seen, floats } = look(element.parentElement);
    const style = getComputedStyle(element), isInner = element instanceof SVGElement && element.ownerSVGElement;
    const clips = !isInner && style.overflowX !== "visible";
    const found = {
      seen: style.clipPath.startsWith("inset(50%") ? nothing : clips ? meet(seen, frame(element)) : seen,
      floats: style.position === "sticky" || style.position === "fixed" ? element : floats,
    };
    known.set(element, found);
    return found;
  };
  const measureSize = (element) => {
    const size = parseFloat(getComputedStyle(element).fontSize);
    const matrix = element instanceof SVGGraphicsElement ? element.getScreenCTM() : null;
    return matrix ? size * Math.min(Math.hypot(matrix.a, matrix.b), Math.hypot(matrix.c, matrix.d)) : size;
  };

  const lines = [], flaws = [], small = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT, (node) =>
    (node.data.trim() ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_REJECT));
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement, name = `"${node.data.trim().slice(0, 40)}"`;
    if (!parent.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const range = document.createRange(), { seen, floats } = look(parent);
    range.selectNodeContents(node);
    const chart = parent instanceof SVGElement ? parent.closest("main svg:not(svg svg)") : null;
    const card = chart && parent.closest(".card");
    // A chart's text is one box, which may be turned; other text has a box for each line.
    for (const box of chart ? [parent.getBoundingClientRect()] : range.getClientRects()) {
      const [left, top, right, bottom] = meet(seen, [box.left, box.top, box.right, box.bottom]);
      if (right - left < 1 || bottom - top < 1) continue;
      lines.push({ name, node, chart, floats, left, right, top, bottom });
      if (left < -1 || right > width + 1) flaws.push(`${name} is cut off at the window's edge`);
      else if (card && (left < frame(card)[0] - 1 || right > frame(card)[2] + 1)) flaws.push(`${name} is drawn past the edge of its card`);
      const size = measureSize(parent);
      if (size < leastSize) small.set(`${parent.localName}.${parent.getAttribute("class")}`, `${name} is too small: ${size.toFixed(1)} pixels`);
    }
  }

  // Boxes have air above and below the letters: texts of one chart may share a hair of it, others that air.
  const shrink = ({ top, bottom }) => [top + 0.2 * (bottom - top), bottom - 0.2 * (bottom - top)];
  const lieOver = (one, two) => {
    if (one.node === two.node || one.floats !== two.floats) return false;
    const wide = Math.min(one.right, two.right) - Math.max(one.left, two.left);
    if (wide <= 1) return false;
    if (one.chart && one.chart === two.chart) return Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top) > 4;
    const [[top, bottom], [otherTop, otherBottom]] = [shrink(one), shrink(two)];
    return Math.min(bottom, otherBottom) - Math.max(top, otherTop) > 1;
  };
  lines.sort((one, two) => one.top - two.top);
  lines.forEach((one, place) => {
    for (let next = place + 1; next < lines.length && lines[next].top < one.bottom; next += 1)
      if (lieOver(one, lines[next])) flaws.push(`${one.name} and ${lines[next].name} overlap`);
  });
  flaws.push(...small.values());

  // A label that a style makes of an attribute is no text of the page.
  for (const each of document.querySelectorAll("[data-label]"))
    if (each.scrollWidth > each.clientWidth + 1) flaws.push(`"${each.dataset.label}" is wider than its cell`);

  if (document.documentElement.scrollWidth > window.innerWidth)
    for (const each of [...document.querySelectorAll("body *")]
      .filter((each) => each.getBoundingClientRect().right > window.innerWidth + 1 && !each.closest(".scroll, svg")).slice(-3))
      flaws.push(`<${each.localName} class="${each.className}"> is wider than the window`);
  const found = [...new Set(flaws)];
  return found.length > MOST ? [...found.slice(0, MOST), `and ${found.length - MOST} more flaws`] : found;
}
