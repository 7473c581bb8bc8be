"""What tests in the browser have: one browser, pages of made experiments, and visitors whose problems fail a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from e2e.browser.chromium import open_browser
from e2e.browser.serving import serve_source
from e2e.browser.views import open_gallery
from e2e.browser.visitor import DEADLINE, Visitor, visit

Visit = Callable[..., Visitor]
expect.set_options(timeout=DEADLINE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives the first test of each process time to have the experiments simulated, on a busy machine too."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def gallery() -> Iterator[str]:
    """The address of the pages of all made experiments."""
    with serve_source(open_gallery()) as address:
        yield address


@pytest.fixture
def visitors(browser: Browser) -> Iterator[Visit]:
    """Opens tabs, closes them again, and fails where one of them had a problem that was not expected."""
    with ExitStack() as stack:
        opened: list[Visitor] = []

        def open_tab(address: str, **options: object) -> Visitor:
            visitor = stack.enter_context(visit(browser, address, **options))  # type: ignore[arg-type]
            opened.append(visitor)
            return visitor

        yield open_tab
        problems = [problem for visitor in opened for problem in visitor.list_problems()]
    assert not problems, "\n".join(problems)


@pytest.fixture
def visitor(visitors: Visit, gallery: str) -> Visitor:
    """Somebody before a wide screen who looks at the made experiments."""
    return visitors(gallery)


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Where tests leave what they have seen, to be looked at."""
    folder = Path(__file__).parents[3] / "build" / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
