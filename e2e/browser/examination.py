"""Examines a page as it is drawn: accessibility by axe-core, whether texts can be read, and where the keyboard is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

LEAST_SIZE = 9
"""Pixels of a text as it is drawn. Charts that shrink with the window shrink their texts, too."""
Rules = Literal["all", "of colours"]
_FLAWS = (Path(__file__).parent / "flaws.js").read_text(encoding="utf-8")
_FOCUS = (Path(__file__).parent / "focus.js").read_text(encoding="utf-8")
_MOST_NAMED = 3
_HAS_AXE = "() => 'axe' in window"
# The rest of what axe-core finds would be megabytes of what is well. Styles of the page are there already.
_RUN_AXE = """(rules) => axe.run({ resultTypes: ["violations"], preload: false, ...rules })
  .then((results) => results.violations)"""
_RULES: dict[Rules, dict[str, Any]] = {"all": {}, "of colours": {"runOnly": ["color-contrast", "link-in-text-block"]}}


def find_violations(page: Page, rules: Rules = "all") -> list[str]:
    """What axe-core objects to, of any severity; empty where all is well.

    Args:
        page: What is examined.
        rules: Those of colours are enough where nothing but the theme has changed since all were asked for.
    """
    if not page.evaluate(_HAS_AXE):
        page.evaluate(Axe().axe_script)
    return [_describe_violation(violation) for violation in page.evaluate(_RUN_AXE, _RULES[rules])]


def _describe_violation(violation: dict[str, Any]) -> str:
    nodes = violation["nodes"]
    places = "; ".join(f"{node['target']} {_find_reason(node)}" for node in nodes[:_MOST_NAMED])
    return f"{violation['id']} ({violation['impact']}), {len(nodes)} times: {places}"


def _find_reason(node: dict[str, Any]) -> str:
    checks = [*node["any"], *node["all"], *node["none"]]
    return str(checks[0]["message"]) if checks else ""


def find_flaws(page: Page) -> list[str]:
    """Texts that lie over one another, are cut off or too small, and what makes the page wider than the window."""
    flaws: list[str] = page.evaluate(_FLAWS, {"leastSize": LEAST_SIZE})
    return flaws


def find_unseen_focus(page: Page) -> list[str]:
    """What the keyboard goes to without anybody seeing where it is. The focus moves, so this comes last."""
    page.keyboard.press("Tab")  # browsers outline what has the focus for those who use keys
    unseen: list[str] = page.evaluate(_FOCUS)
    return unseen
