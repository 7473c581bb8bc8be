"""The site of the documentation: it asks nobody for anything, finds pages by messages, and can be read anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from e2e.browser.documentation import find_site, serve_site
from e2e.browser.examination import find_violations
from e2e.browser.looks import LEAVES_PICTURES, PICTURES
from e2e.browser.tests.conftest import Visit
from e2e.browser.visitor import NARROWEST, WIDE, Theme, Window

TABLET = 960
"""Pixels of the window at which the theme lays pages out anew: 60 rem."""
PAGES = ("index", "how-to/handle-failures", "reference/command-line")
MESSAGES = {
    "The API server does not take this token": "how-to/install-the-dashboard.html",
    "InvalidResources": "how-to/handle-failures.html",
    "StorageWorkFailed": "how-to/keep-export-delete.html",
}
"""What people see on a screen and type into the search, and a page that must then be among those found."""
_OVERHANG = "() => document.scrollingElement.scrollWidth - window.innerWidth"
_PICTURE = "() => document.querySelector('figure img').currentSrc"


@pytest.fixture(params=["disk", "server"])
def site(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of the site without a slash at its end."""
    with ExitStack() as stack:
        yield find_site() if request.param == "disk" else stack.enter_context(serve_site())


@pytest.mark.parametrize("message", MESSAGES)
def test_a_page_is_found_by_a_message_also_without_a_server(visitors: Visit, site: str, message: str) -> None:
    page = visitors(site).open("index.html")
    page.locator(".md-search__input").press_sequentially(message)  # it is the keys that have it search
    expect(page.locator(f".md-search-result__link[href*='{MESSAGES[message]}']").first).to_be_visible()


def test_the_first_page_leads_to_a_laptop_a_cluster_and_from_other_tools(visitors: Visit) -> None:
    visitor = visitors(find_site())
    entries = visitor.open("index.html").locator(".entries a")
    targets = [str(entry.get_attribute("href")) for entry in entries.all()]
    assert [target.rpartition("/")[2].removesuffix(".html") for target in targets][:2] == [
        "run-without-a-cluster",
        "first-experiment",
    ]
    assert "come-from" in targets[2]
    for target in targets:
        expect(visitor.open(target).locator("h1")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_pages_can_be_read_in_each_width_and_theme(visitors: Visit, name: str, theme: Theme) -> None:
    page = visitors(find_site(), Window(WIDE, theme)).open(f"{name}.html")
    flaws = []
    for width in (WIDE, TABLET, NARROWEST):
        page.set_viewport_size({"width": width, "height": 900})
        if page.evaluate(_OVERHANG) > 0:
            flaws.append(f"{width} px: wider than the window")
        flaws += [f"{width} px: {violation}" for violation in find_violations(page, "of colours")]
        take_picture(page, f"site-{name.rpartition('/')[2]}-{width}-{theme}")
    assert flaws == []


def test_the_picture_follows_the_theme_that_is_chosen(visitors: Visit) -> None:
    page = visitors(find_site()).open("index.html")
    assert page.evaluate(_PICTURE).endswith("search-space-light.png")
    for _ in range(2):  # from that of the system to the light one, and on to the dark one
        page.locator("label.md-header__button[for^='__palette']:visible").click()
    expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "slate")
    page.wait_for_function(f"({_PICTURE})().endsWith('search-space-dark.png')")


def take_picture(page: Page, name: str) -> None:
    """Leaves one of what is in the window, to be looked at; not in CI."""
    if not LEAVES_PICTURES:
        return
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=Path(PICTURES, f"{name}.jpeg"), quality=90, animations="disabled")
