"""The timeline used: a span of time by drag and by keys, a filter, and pages."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from e2e.browser.gestures import drag_across, read_address, read_query
from e2e.browser.tests.conftest import Visit
from e2e.browser.views import FINISHED, SWEEP
from e2e.browser.visitor import Visitor, Window


def read_span(page: Page) -> tuple[str, str]:
    """What the address says."""
    query = read_query(page)
    return query["from"][0], query["to"][0]


@pytest.mark.parametrize(("selector", "down"), [(".run", 30), (".rules", 12)], ids=["overview", "lanes"])
def test_a_drag_chooses_a_span_that_its_link_restores(visitors: Visit, gallery: str, selector: str, down: int) -> None:
    page = visitors(gallery).open(f"{FINISHED}timeline")
    drag_across(page, selector, down, 0.5, 0.25)
    expect(page.locator(f"{selector} .dragged")).to_be_visible()
    page.mouse.up()
    page.wait_for_url(re.compile("from="))
    begin, end = read_span(page)
    assert begin < end
    lanes = page.locator(".lane .name").all_inner_texts()
    other = visitors(gallery).open(page.url.removeprefix(f"{gallery.rstrip('/')}/"))
    assert other.locator(".lane .name").all_inner_texts() == lanes
    expect(other.locator("input[name=from]")).to_have_value(begin)


def test_escape_gives_a_drag_up(visitor: Visitor) -> None:
    page = visitor.open(f"{FINISHED}timeline")
    before = page.url
    drag_across(page, ".run", 30, 0.25, 0.5)
    page.keyboard.press("Escape")
    page.mouse.up()
    expect(page.locator(".run .dragged")).to_be_hidden()
    assert read_address(page) == before


def test_keys_zoom_and_move_and_the_strip_keeps_the_focus(visitor: Visitor) -> None:
    page = visitor.open(f"{FINISHED}timeline")
    page.locator(".run").focus()
    page.keyboard.press("+")
    page.wait_for_url(re.compile("from="))
    narrow = read_span(page)
    expect(page.locator(".run")).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.wait_for_url(lambda url: narrow[0] not in url)
    assert read_span(page)[0] > narrow[0]
    expect(page.locator(".run")).to_be_focused()
    page.keyboard.press("Home")
    page.wait_for_url(lambda url: narrow[1] not in url)
    expect(page.locator("[data-link=out]")).to_have_count(0)


def test_without_scripts_links_and_fields_do_the_same(visitors: Visit, gallery: str) -> None:
    page = visitors(gallery, Window(has_scripts=False)).open(f"{FINISHED}timeline")
    page.get_by_role("link", name="Zoom in").click()
    begin, end = read_span(page)
    assert begin < end
    page.get_by_role("link", name="by node").click()
    assert read_span(page) == (begin, end)


def test_a_filter_and_pages_hold_of_ten_thousand_trials(visitor: Visitor) -> None:
    page = visitor.open(f"{SWEEP}timeline")
    expect(page.locator(".lane .name a")).to_have_count(50)
    first = page.locator(".lane .name a").first.inner_text()
    page.get_by_role("link", name="Next").click()
    expect(page.locator(".lane .name a").first).not_to_have_text(first)
    page.locator(".chip", has_text="Completed").click()
    page.get_by_role("button", name="Show", exact=True).click()
    page.wait_for_url(re.compile("state=done"))
    assert "page=" not in page.url
    labels = page.locator(".track").evaluate_all("all => all.map((each) => each.getAttribute('aria-label'))")
    assert labels
    assert all("(completed)" in label for label in labels)
