"""Examines a page as it is drawn: accessibility by axe-core, and whether texts lie over one another or are cut off."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

_MOST_NAMED = 3
# Texts of one picture whose boxes share more than a hair are hard to read. Boxes of letters have air above and below.
_FIND_OVERLAPS = """() => [...document.querySelectorAll("main svg")].flatMap((svg) => {
  if (svg.ownerSVGElement) return [];
  const texts = [...svg.querySelectorAll("text")].filter((text) => text.checkVisibility() && text.textContent.trim());
  const boxes = texts.map((text) => text.getBoundingClientRect());
  return texts.flatMap((text, place) => texts.slice(place + 1).flatMap((other, next) => {
    const [one, two] = [boxes[place], boxes[place + 1 + next]];
    const wide = Math.min(one.right, two.right) - Math.max(one.left, two.left);
    const high = Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top);
    return wide > 1 && high > 4 ? [`"${text.textContent.trim()}" and "${other.textContent.trim()}"`] : [];
  }));
})"""
_FIND_WIDER = """() => document.documentElement.scrollWidth > window.innerWidth
  ? [...document.querySelectorAll("body *")]
      .filter((each) => each.getBoundingClientRect().right > window.innerWidth + 1 && !each.closest(".scroll, svg"))
      .slice(-3).map((each) => `<${each.localName} class="${each.className}">`)
  : []"""


def find_violations(page: Page) -> list[str]:
    """What axe-core objects to, of any severity; empty where all is well."""
    response: dict[str, Any] = Axe().run(page, options={"resultTypes": ["violations"]}).response
    return [_describe_violation(violation) for violation in response["violations"]]


def _describe_violation(violation: dict[str, Any]) -> str:
    nodes = violation["nodes"]
    places = "; ".join(f"{node['target']} {_find_reason(node)}" for node in nodes[:_MOST_NAMED])
    return f"{violation['id']} ({violation['impact']}), {len(nodes)} times: {places}"


def _find_reason(node: dict[str, Any]) -> str:
    checks = [*node["any"], *node["all"], *node["none"]]
    return str(checks[0]["message"]) if checks else ""


def find_flaws(page: Page) -> list[str]:
    """Texts of charts that lie over one another, and what makes the page wider than the window."""
    overlaps: list[str] = page.evaluate(_FIND_OVERLAPS)
    wider: list[str] = page.evaluate(_FIND_WIDER)
    return [*(f"{texts} overlap" for texts in overlaps), *(f"{element} is wider than the window" for element in wider)]
