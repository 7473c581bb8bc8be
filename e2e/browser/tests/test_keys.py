"""Charts by keyboard: what a pointer is told of a mark, the arrow keys tell too, and Enter opens what it stands for."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from e2e.browser.views import FAILING, FINISHED, POPULATION, SWEEP
from e2e.browser.visitor import Visitor


def point(page: Page, chart: Locator) -> Locator:
    """Focuses a chart, goes to its first mark, and returns the name that it shows."""
    chart.focus()
    page.keyboard.press("ArrowRight")
    name = chart.locator(".tip b")
    expect(name).to_be_visible()
    return name


@pytest.mark.parametrize("path", [FINISHED, SWEEP], ids=["80 trials", "10,000 trials"])
def test_dots_are_named_the_best_first(visitor: Visitor, path: str) -> None:
    page = visitor.open(path)
    best = page.locator(".hero .by a").inner_text()
    chart = page.locator("section[aria-labelledby=progress] [data-plot]")
    name = point(page, chart)
    expect(name).to_have_text(best)
    page.keyboard.press("ArrowRight")
    expect(name).not_to_have_text(best)
    page.keyboard.press("End")
    last = name.inner_text()
    page.keyboard.press("ArrowRight")  # there is none behind it
    expect(name).to_have_text(last)
    page.keyboard.press("Home")
    expect(name).to_have_text(best)
    page.keyboard.press("Escape")
    expect(chart.locator(".tip")).to_be_hidden()
    page.keyboard.press("ArrowRight")
    expect(name).to_have_text(best)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(best)


def test_the_chart_of_a_parameter_and_the_contour_name_their_trials(visitor: Visitor) -> None:
    page = visitor.open(f"{FINISHED}parameters")
    best = page.locator("[data-body] tr a").first.inner_text()
    expect(point(page, page.locator("figure [data-plot]").first)).to_have_text(best)
    expect(point(page, page.locator(".contour"))).to_have_text(best)


def test_arrow_keys_go_along_a_lane_and_from_lane_to_lane(visitor: Visitor) -> None:
    page = visitor.open(f"{FINISHED}timeline")
    trials = page.locator(".lanes .name a").all_inner_texts()
    lanes = page.locator(".lanes")
    name = point(page, lanes)
    expect(name).to_have_text(trials[0])
    first = lanes.locator(".tip").inner_text()
    page.keyboard.press("ArrowRight")
    expect(lanes.locator(".tip")).not_to_have_text(first)
    page.keyboard.press("ArrowDown")
    expect(name).to_have_text(trials[1])
    page.keyboard.press("ArrowUp")
    expect(name).to_have_text(trials[0])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(trials[1])


def test_purposes_failures_and_configurations_of_a_replay_are_named(visitor: Visitor) -> None:
    page = visitor.open(f"{FAILING}timeline")
    expect(point(page, page.locator(".by-purpose"))).to_have_text(re.compile("^Trained: "))
    page = visitor.open(f"{FAILING}parameters")
    name = point(page, page.locator(".failing [data-titles]"))
    failed = name.inner_text()
    page.keyboard.press("ArrowRight")
    expect(name).not_to_have_text(failed)
    page = visitor.open(f"{POPULATION}replay?at=3600")
    newest = page.locator("[aria-labelledby=looked] tbody td:first-child a").all_inner_texts()
    assert point(page, page.locator("[aria-labelledby=looked] [data-titles]")).inner_text() in newest


def test_what_titles_tell_a_pointer_the_keyboard_is_told_too(visitor: Visitor) -> None:
    page = visitor.open(FINISHED)
    tip, values = page.locator(".tip.hover"), page.locator(".best [role=group]")
    exact = [str(each.get_attribute("title")) for each in values.locator("dd").all()]
    values.focus()
    page.keyboard.press("ArrowRight")
    expect(tip).to_have_text(exact[0])
    page.keyboard.press("ArrowRight")
    expect(tip).to_have_text(exact[1])
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page = visitor.open(f"{FINISHED}trials/resnet-0")
    parameters = page.locator("section[aria-labelledby=configuration]")
    sentences = [str(each.get_attribute("title")) for each in parameters.locator("tbody th").all()]
    parameters.get_by_role("group").focus()
    page.keyboard.press("ArrowRight")
    expect(tip).to_have_text(sentences[0])
    page.keyboard.press("ArrowDown")
    expect(tip).to_have_text(sentences[1])
    page = visitor.open(f"{FINISHED}trials")
    page.locator("thead a").first.focus()
    page.keyboard.press("Tab")
    expect(tip).to_have_text(str(page.locator("thead a").nth(1).get_attribute("title")))


def test_the_link_of_a_chart_restores_what_was_chosen(visitor: Visitor) -> None:
    page = visitor.open(FINISHED)
    curves = page.locator("section[aria-labelledby=curves]")
    curves.get_by_role("link", name="x log").click()
    page.wait_for_url(re.compile(r"#curves$"))
    shown = curves.locator(".ticks text.x").all_inner_texts()
    link = curves.get_by_role("link", name="Link to the learning curves").get_attribute("href")
    assert link is not None
    page.goto(page.url.partition("?")[0])
    assert curves.locator(".ticks text.x").all_inner_texts() != shown
    page.evaluate("link => location.assign(link)", link)
    page.wait_for_url(re.compile(r"log=x#curves$"))
    assert curves.locator(".ticks text.x").all_inner_texts() == shown
