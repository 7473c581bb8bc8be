"""Every view, as it comes: no errors, no violations, nothing from elsewhere, and a picture of it to be looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.browser.examination import find_flaws, find_violations
from e2e.browser.tests.conftest import Visit
from e2e.browser.views import VIEWS, View
from e2e.browser.visitor import NARROW, WIDE, Theme

THEMES: tuple[Theme, ...] = ("light", "dark")


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_a_view_has_no_flaw_in_either_theme(
    view: View, width: int, gallery: str, visitors: Visit, pictures: Path
) -> None:
    visitor = visitors(gallery, width=width, is_touched=width == NARROW)
    if view.status != 200:
        visitor.pardon(f"a status of {view.status}")
    page = visitor.open(view.path)
    page.locator(view.ready).first.wait_for()
    flaws = []
    for theme in THEMES:
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)
        page.screenshot(path=pictures / f"{view.name}-{width}-{theme}.png", full_page=True, animations="disabled")
        flaws += [f"{theme}: {flaw}" for flaw in find_violations(page)]
    flaws += find_flaws(page)
    assert not flaws, "\n".join(flaws)
