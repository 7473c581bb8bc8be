"""A page as people look at it: in each width and theme, examined and photographed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.browser.examination import Rules, find_flaws, find_violations
from e2e.browser.visitor import NARROW, NARROWEST, WIDE, WIDEST, Theme, Visitor

PICTURES = Path(__file__).parents[2] / "build" / "pictures"
"""Where tests leave what they have seen, to be looked at."""
LEAVES_PICTURES = "CI" not in os.environ
"""CI leaves none: nobody looks at them there, and drawing them takes time."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a page is looked at: all in one visit, in this order.

    Attributes:
        rules: What axe-core examines; None where layout alone differs from another look.
        has_picture: Whether one is left.
    """

    width: int
    theme: Theme
    rules: Rules | None = None
    has_picture: bool = True


LOOKS = (
    Look(WIDE, "light", "all"),
    Look(WIDE, "dark", "of colours"),
    Look(WIDEST, "dark"),
    Look(NARROW, "dark", "all"),
    Look(NARROW, "light"),
    Look(NARROWEST, "light", has_picture=False),
)
ODD_LOOKS = (
    Look(WIDE, "light", "all"),
    Look(WIDEST, "light", has_picture=False),
    Look(NARROW, "dark", "all"),
    Look(NARROWEST, "dark", has_picture=False),
)


def examine(visitor: Visitor, name: str, looks: Sequence[Look] = LOOKS, folder: Path = PICTURES) -> list[str]:
    """What is wrong with the page that a visitor has open; pictures of it are left, unless in CI.

    Args:
        visitor: Who looks.
        name: What its pictures are called.
        looks: How it is looked at.
        folder: Where the pictures go.
    """
    page, flaws = visitor.page, list[str]()
    folder.mkdir(parents=True, exist_ok=True)
    for look in looks:
        visitor.resize(look.width)
        visitor.prefer(look.theme)
        found = [*find_flaws(page), *(find_violations(page, look.rules) if look.rules else ())]
        flaws += [f"{name}, {look.width} px, {look.theme}: {flaw}" for flaw in found]
        if look.has_picture and LEAVES_PICTURES:
            file = folder / f"{name}-{look.width}-{look.theme}.jpeg"  # a PNG takes twice the time
            page.screenshot(path=file, quality=90, full_page=True, animations="disabled")
    return flaws
