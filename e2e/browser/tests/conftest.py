"""What tests in the browser have: one browser, pages of made experiments, and visitors whose problems fail a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from e2e.browser.chromium import open_browser
from e2e.browser.serving import serve_source
from e2e.browser.team import TeamCluster, serve_outage, serve_team
from e2e.browser.views import Site, open_gallery
from e2e.browser.visitor import DEADLINE, DESK, ContextPool, Visitor, Window
from e2e.devcluster.errors import ClusterError

Visit = Callable[..., Visitor]
SITES: Mapping[Site, Callable[[], AbstractContextManager[str]]] = {
    Site.GALLERY: lambda: serve_source(open_gallery()),
    Site.TEAM: lambda: serve_team(TeamCluster()),
    Site.AWAY: serve_outage,
}
expect.set_options(timeout=DEADLINE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives the first test of each process time to have the experiments simulated, on a busy machine too."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Where it is missing and can't be installed, each test says so in one line."""
    with ExitStack() as stack:
        try:
            browser = stack.enter_context(open_browser())
        except ClusterError as error:
            pytest.fail(str(error), pytrace=False)
        yield browser


@pytest.fixture(scope="session")
def sites() -> Iterator[Callable[[Site], str]]:
    """Gives the address of a dashboard, which is served from its first use on."""
    with ExitStack() as stack:
        yield cache(lambda site: stack.enter_context(SITES[site]()))


@pytest.fixture(scope="session")
def gallery(sites: Callable[[Site], str]) -> str:
    """The address of the pages of all made experiments."""
    return sites(Site.GALLERY)


@pytest.fixture(scope="session")
def contexts(browser: Browser) -> ContextPool:
    return ContextPool(browser)


@pytest.fixture
def visitors(contexts: ContextPool) -> Iterator[Visit]:
    """Opens tabs, closes them again, and fails where one of them had a problem that was not expected."""
    with ExitStack() as stack:
        opened: list[Visitor] = []

        def open_tab(address: str, window: Window = DESK) -> Visitor:
            visitor = stack.enter_context(contexts.visit(address, window))
            opened.append(visitor)
            return visitor

        yield open_tab
        problems = [problem for visitor in opened for problem in visitor.list_problems()]
    assert not problems, "\n".join(problems)


@pytest.fixture
def visitor(visitors: Visit, gallery: str) -> Visitor:
    """Somebody before a wide screen who looks at the made experiments."""
    return visitors(gallery)
