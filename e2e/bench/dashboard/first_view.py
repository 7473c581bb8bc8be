"""What a person waits for: the first paint of a page, and its first chart, in Debian's Chromium."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from playwright.sync_api import Browser, Page

PATIENCE = 300.0
"""Seconds that a page may take: on a slow machine, Optuna Dashboard's takes minutes."""
SIZE = {"width": 1440, "height": 900}
_WATCH = """
const look = () => {
  const chart = document.querySelector(%s);
  if (!chart || !chart.getBoundingClientRect().width) { requestAnimationFrame(look); return; }
  requestAnimationFrame(() => requestAnimationFrame(() => { window.benchChart = performance.now(); }));
};
requestAnimationFrame(look);
"""
"""A frame that is asked for within another begins when that one is on the screen."""
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
_BYTES = """['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind))
  .reduce((sum, each) => sum + each.encodedBodySize, 0)"""


@dataclass(frozen=True)
class FirstView:
    """What one visit took.

    Attributes:
        paint: Milliseconds until anything was painted.
        chart: Milliseconds until a chart was.
        kilobytes: What was sent until then, compressed.
    """

    paint: float
    chart: float
    kilobytes: float


def visit(browser: Browser, address: str, chart: str) -> FirstView:
    """Opens a page in a browser that has seen nothing yet.

    Args:
        browser: Which one.
        address: Of the page.
        chart: Selects what is drawn when the first chart can be read.

    Raises:
        TimeoutError: It never comes.
    """
    context = browser.new_context(viewport=SIZE)  # type: ignore[arg-type]
    try:
        page = context.new_page()
        page.add_init_script(_WATCH % json.dumps(chart))
        page.goto(address, wait_until="commit", timeout=1000 * PATIENCE)
        painted, drawn = _wait_for(page, _PAINT), _wait_for(page, "window.benchChart ?? null")
        return FirstView(painted, drawn, page.evaluate(_BYTES) / 1000)
    finally:
        context.close()


def find_median(views: Sequence[FirstView]) -> FirstView:
    """Of each figure the median."""
    paints, charts, sizes = ([getattr(each, name) for each in views] for name in ("paint", "chart", "kilobytes"))
    return FirstView(statistics.median(paints), statistics.median(charts), statistics.median(sizes))


def _wait_for(page: Page, expression: str) -> float:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = page.evaluate(expression)
        if found is not None:
            return float(found)
        page.wait_for_timeout(20)
    raise TimeoutError(f"{page.url}: no {expression} within {PATIENCE:g} s")
