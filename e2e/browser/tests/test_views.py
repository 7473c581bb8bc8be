"""Every view, as it comes: no errors, no violations, nothing from elsewhere, and a picture of it to be looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.browser.examination import Rules, find_flaws, find_unseen_focus, find_violations
from e2e.browser.tests.conftest import Visit
from e2e.browser.views import VIEWS, Site, View
from e2e.browser.visitor import NARROW, NARROWEST, WIDE, WIDEST, Theme


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


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_a_view_has_no_flaw_at_any_width_in_either_theme(
    view: View, sites: Callable[[Site], str], visitors: Visit, pictures: Path
) -> None:
    visitor = visitors(sites(view.site))
    if view.token:
        visitor.log_in(view.token)
    if view.status != 200:
        visitor.pardon(f"a status of {view.status}")
    page = visitor.open(view.path)
    page.locator(view.ready).first.wait_for()
    flaws: list[str] = []
    for look in ODD_LOOKS if view.is_odd else LOOKS:
        visitor.resize(look.width)
        visitor.prefer(look.theme)
        found = [*find_flaws(page), *(find_violations(page, look.rules) if look.rules else ())]
        flaws += [f"{look.width} px, {look.theme}: {flaw}" for flaw in found]
        if look.has_picture:
            file = pictures / f"{view.name}-{look.width}-{look.theme}.jpeg"  # a PNG takes twice the time
            page.screenshot(path=file, quality=90, full_page=True, animations="disabled")
    flaws += find_unseen_focus(page)
    assert not flaws, "\n".join(flaws)
