"""Charts used: what is under the pointer or the arrow keys is named and opens; each has its table and its download."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from playwright.sync_api import Page, expect

from e2e.browser.tests.conftest import Visit
from e2e.browser.views import FINISHED, POPULATION, SWEEP, TRADE_OFF, VIEWS, View
from e2e.browser.visitor import Visitor, Window

CHARTS = tuple(view for view in VIEWS if view.name in ("overview", "overview-trade-off", "search-space", "trial"))


def find_middle(page: Page, selector: str, across: float, down: float) -> tuple[float, float]:
    """A point of an element, in pixels of the window."""
    element = page.locator(selector).first
    element.scroll_into_view_if_needed()
    box = element.bounding_box()
    assert box is not None
    return box["x"] + across * box["width"], box["y"] + down * box["height"]


def test_a_dot_names_its_trial_and_opens_it(visitor: Visitor) -> None:
    page = visitor.open(FINISHED)
    best = page.locator(".hero .by a").inner_text()
    x, y = find_middle(page, "[aria-labelledby=progress] .frame", 0.9, 0.02)
    tip = page.locator("[aria-labelledby=progress] .tip")
    with page.expect_response(re.compile("columns.json")):
        page.mouse.move(x, y)
    for step in range(180):  # the best trial's dot is at the top, somewhere along the line
        page.mouse.move(x - 20 * (step % 60), y)
        if tip.is_visible() and tip.locator("b").inner_text() == best:
            break
    expect(tip.locator("b")).to_have_text(best)
    page.mouse.down()
    page.mouse.up()
    expect(page.get_by_role("heading", level=1)).to_contain_text(best)


@pytest.mark.parametrize("path", [FINISHED, SWEEP], ids=["80 trials", "10,000 trials"])
def test_arrow_keys_go_from_curve_to_curve_the_best_first(visitor: Visitor, path: str) -> None:
    page = visitor.open(path)
    best = page.locator(".hero .by a").inner_text()
    chart = page.locator("section[aria-labelledby=curves] [data-points]")
    chart.focus()
    page.keyboard.press("ArrowRight")
    tip = chart.locator(".tip")
    expect(tip.locator("b")).to_have_text(best)
    page.keyboard.press("ArrowRight")
    expect(tip.locator("b")).not_to_have_text(best)
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page.keyboard.press("ArrowRight")
    expect(tip.locator("b")).to_have_text(best)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(best)


def test_a_mark_at_a_rung_names_its_trial(visitor: Visitor) -> None:
    page = visitor.open(FINISHED)
    strip = page.locator(".strip").first
    strip.focus()
    page.keyboard.press("ArrowRight")
    first = strip.locator(".tip b")
    expect(first).to_have_text(re.compile(r"resnet-\d+"))
    leftmost = first.inner_text()
    page.keyboard.press("ArrowRight")
    expect(first).not_to_have_text(leftmost)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("resnet-")


def test_scales_are_chosen_and_stand_in_the_address(visitor: Visitor) -> None:
    page = visitor.open(FINISHED)
    curves = page.locator("section[aria-labelledby=curves]")
    before = curves.locator(".ticks text.x").all_inner_texts()
    curves.get_by_role("link", name="x log").click()
    page.wait_for_url(re.compile(r"#curves$"))
    assert curves.locator(".ticks text.x").all_inner_texts() != before
    curves.get_by_role("link", name="by time").click()
    expect(curves.locator(".axis.x")).to_contain_text("hours")
    expect(curves.get_by_role("link", name="x log")).to_have_attribute("aria-current", "true")
    page.reload()
    expect(curves.locator(".axis.x")).to_contain_text("hours")


@pytest.mark.parametrize("view", CHARTS, ids=lambda view: view.name)
def test_each_chart_has_its_table_and_its_download_in_the_theme_that_is_seen(
    visitors: Visit, gallery: str, view: View
) -> None:
    visitor = visitors(gallery, Window(theme="dark"))
    page = visitor.open(view.path)
    links = page.locator("main a.download[data-theme-link]").evaluate_all("all => all.map((link) => link.href)")
    assert links
    for link in links:
        answer = page.request.get(link)
        assert answer.status == 200, link
        picture = ET.fromstring(answer.text())
        assert picture.tag.endswith("svg")
        assert "theme=dark" in link
    for table in page.locator("main details:has(table)").all():
        table.evaluate("each => { each.open = true; }")
        assert table.locator("tbody tr").count(), view


def test_an_improvement_of_the_front_is_in_both_objectives(visitor: Visitor) -> None:
    page = visitor.open(TRADE_OFF)
    table = page.locator("section[aria-labelledby=front] tbody")
    page.locator("section[aria-labelledby=front] summary").click()
    rows = [[float(text) for text in row.locator("td.n").all_inner_texts()] for row in table.locator("tr").all()]
    assert len(rows) > 2
    assert rows == sorted(rows)


def test_a_trial_of_a_population_says_whose_weights_it_took(visitor: Visitor) -> None:
    page = visitor.open(f"{POPULATION}trials/resnet-population-3")
    expect(page.locator("section[aria-labelledby=ledger] .ledger li").first).to_be_visible()
    page.get_by_role("link", name="resnet-population-4 →").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("resnet-population-4")


def test_the_theme_is_switched_and_kept(visitor: Visitor) -> None:
    page = visitor.open(FINISHED)
    root = page.locator("html")
    expect(root).to_have_attribute("data-theme", "light")
    page.get_by_role("button", name="Theme: light; switch to dark").click()
    expect(root).to_have_attribute("data-theme", "dark")
    visitor.open(f"{FINISHED}parameters")
    expect(root).to_have_attribute("data-theme", "dark")


def test_pages_say_as_much_without_scripts(visitors: Visit, gallery: str) -> None:
    page = visitors(gallery, Window(has_scripts=False)).page
    page.goto(f"{gallery}{FINISHED}")
    expect(page.locator(".hero .value")).to_have_text(re.compile(r"0\.\d+"))
    assert page.locator("section[aria-labelledby=curves] .curve").count() > 2
    page.goto(f"{gallery}{FINISHED}parameters")
    # Playwright looks for no text in a noscript, but it does in what that holds.
    expect(page.locator("noscript p").first).to_contain_text("This chart needs JavaScript.")
    expect(page.locator("noscript p").first).to_be_visible()
    page.get_by_role("link", name="Trials").first.click()
    page.get_by_label("Filter").fill("optimizer=lion")
    page.get_by_role("button", name="Apply").click()
    assert page.locator("table.trials tbody tr").count() > 3
