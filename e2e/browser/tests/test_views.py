"""Every view, as it comes: no errors, no violations, nothing from elsewhere, and a picture of it to be looked at."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from e2e.browser.examination import find_unseen_focus
from e2e.browser.looks import LOOKS, ODD_LOOKS, examine
from e2e.browser.tests.conftest import Visit
from e2e.browser.views import VIEWS, Site, View


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_a_view_has_no_flaw_at_any_width_in_either_theme(
    view: View, sites: Callable[[Site], str], visitors: Visit
) -> None:
    visitor = visitors(sites(view.site))
    if view.token:
        visitor.log_in(view.token)
    if view.status != 200:
        visitor.pardon(f"a status of {view.status}")
    page = visitor.open(view.path)
    page.locator(view.ready).first.wait_for()
    flaws = examine(visitor, view.name, ODD_LOOKS if view.is_odd else LOOKS)
    flaws += find_unseen_focus(page)
    assert not flaws, "\n".join(flaws)
