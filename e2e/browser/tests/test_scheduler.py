"""The family tree and brackets used, by pointer and by keys: what is named opens, and the table says the same."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from e2e.browser.gestures import open_by_keys, read_exploits
from e2e.browser.views import BRACKETS, POPULATION
from e2e.browser.visitor import Visitor

ACROSS, DOWN = 2000, 1000
"""The ends of the scales of what is drawn."""


@pytest.fixture
def page(visitor: Visitor) -> Page:
    return visitor.open(f"{POPULATION}scheduler")


def test_the_pointer_names_an_exploit_and_a_click_shows_the_ancestry_of_who_continued(page: Page) -> None:
    name, words, xs, ys, *_ = read_exploits(page)[-1]
    tree = page.locator(".tree")
    tip = tree.locator(".tip b")
    tree.hover(position={"x": 4, "y": 4})
    box = tree.locator(".frame").bounding_box()
    assert box is not None
    across, down = box["x"] + xs[-1] / ACROSS * box["width"], box["y"] + ys[-1] / DOWN * box["height"]
    for nudge in range(100):  # what it names is asked for when the pointer comes
        page.mouse.move(across + nudge % 2, down)
        if tip.is_visible():
            break
    expect(tip).to_have_text(name)
    expect(tree.locator(".tip")).to_contain_text(words)
    expect(tree.locator("path.pointed").first).to_be_attached()
    page.mouse.down()
    page.mouse.up()
    page.wait_for_url(re.compile(rf"trial={name}$"))
    expect(page.locator("select[name=trial]")).to_have_value(name)
    assert page.locator(".ancestors a").last.inner_text() == name


def test_arrow_keys_go_from_exploit_to_exploit_and_enter_shows_an_ancestry(page: Page) -> None:
    names = [item[0] for item in read_exploits(page)]
    tree = page.locator(".tree")
    tree.focus()
    tip = tree.locator(".tip b")
    for name in names[:2]:
        page.keyboard.press("ArrowRight")
        expect(tip).to_have_text(name)
    page.keyboard.press("ArrowLeft")
    expect(tip).to_have_text(names[0])
    page.keyboard.press("Escape")
    expect(tree.locator(".tip")).to_be_hidden()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(rf"trial={names[0]}$"))
    # The trials whose weights it has: a link each, and a lane that is marked.
    ancestors = page.locator(".ancestors a").all_inner_texts()
    assert len(ancestors) > 1
    assert ancestors[-1] == names[0]
    assert page.locator(".names .chosen").count() == 1
    assert page.locator(".names .ancestor").count() == len(set(ancestors)) - 1
    page.reload()
    assert page.locator(".ancestors a").all_inner_texts() == ancestors


def test_names_of_lanes_and_the_form_choose_whose_ancestry_is_shown(page: Page) -> None:
    choice = page.locator("select[name=trial]")
    other = "resnet-population-3"
    page.get_by_role("link", name=f"Ancestry of {other}", exact=True).click()
    page.wait_for_url(re.compile(rf"trial={other}#family"))
    expect(choice).to_have_value(other)
    choice.select_option("resnet-population-5")
    page.get_by_role("button", name="Show", exact=True).press("Enter")
    page.wait_for_url(re.compile("trial=resnet-population-5"))
    assert page.locator(".ancestors a").last.inner_text() == "resnet-population-5"


def test_the_table_of_exploits_is_opened_by_keys_and_has_what_the_arcs_have(page: Page) -> None:
    arcs = read_exploits(page)
    table = page.locator("details:has(table.exploits)")
    open_by_keys(table)
    rows = table.locator("tbody tr")
    expect(rows).to_have_count(len(arcs))
    newest = rows.first
    assert newest.locator("td:nth-child(2)").inner_text() in {item[0] for item in arcs}
    donor = newest.locator("td:nth-child(4) a")
    name = donor.inner_text()
    donor.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)


def test_a_bracket_is_linked_to_and_the_trial_that_it_waits_for_opened(visitor: Visitor) -> None:
    page = visitor.open(f"{BRACKETS}scheduler")
    heading = page.locator(".bracket h3 a").first
    heading.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".bracket:has(:target) h3 a")).to_have_text(heading.inner_text())
    awaited = page.locator(".waits a").first
    name = awaited.inner_text()
    awaited.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)


def test_the_table_of_brackets_is_opened_by_keys_and_has_what_the_bars_have(visitor: Visitor) -> None:
    page = visitor.open(f"{BRACKETS}scheduler")
    bars = page.locator(".level > span").all_inner_texts()
    table = page.locator("section[aria-labelledby=brackets] details:has(table)")
    open_by_keys(table)
    heads = table.locator("thead th").all_inner_texts()
    place = heads.index("Entered") + 1
    entered = table.locator(f"tbody tr > :nth-child({place})").all_inner_texts()
    assert sorted(text.split(" of ")[0] for text in bars) == sorted(entered)
