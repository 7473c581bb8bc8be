"""How people use pages: what they drag, choose and read there."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import FloatRect, Locator, Page, expect

from e2e.browser.visitor import Visitor


def find_box(page: Page, selector: str) -> FloatRect:
    """Where an element is in the window."""
    box = page.locator(selector).bounding_box()
    assert box is not None
    return box


def read_address(page: Page) -> str:
    """The address as the page has it now: `page.url` learns of one that a script has replaced only afterwards."""
    return str(page.evaluate("location.href"))


def read_query(page: Page) -> dict[str, list[str]]:
    """What the address says."""
    return parse_qs(urlsplit(read_address(page)).query)


def find_axis(page: Page, name: str) -> float:
    """Where an axis of the parallel coordinates stands, in pixels from the left."""
    label = page.locator("[data-axes] button", has_text=re.compile(f"^{name}$")).bounding_box()
    assert label is not None
    return label["x"] + label["width"] / 2


def brush(page: Page, name: str, start: float, end: float) -> None:
    """Drags along an axis, from one share of the height to another."""
    stage, across = find_box(page, "[data-stage]"), find_axis(page, name)
    page.mouse.move(across, stage["y"] + start * stage["height"])
    page.mouse.down()
    page.mouse.move(across, stage["y"] + (start + end) / 2 * stage["height"])
    page.mouse.move(across, stage["y"] + end * stage["height"])
    page.mouse.up()


def count_selected(page: Page) -> int:
    """How many trials are in the ranges of the parallel coordinates."""
    said = page.locator("[data-status]").inner_text()
    return int(said.split(" of ")[0].replace(",", ""))


def drag_across(page: Page, selector: str, down: int, start: float, end: float) -> None:
    """Drags from one share of an element's width to another, and keeps the button pressed."""
    element = page.locator(selector)
    element.evaluate("each => each.scrollIntoView()")  # its top: lanes are higher than the window
    box = find_box(page, selector)
    y = box["y"] + down
    page.mouse.move(box["x"] + start * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], y, steps=4)


def list_column(page: Page, title: str) -> list[str]:
    """The cells of a column of the trials' table."""
    heads = page.locator("table.trials thead th").all_inner_texts()
    place = heads.index(title) + 1
    return page.locator(f"table.trials tbody tr > :nth-child({place})").all_inner_texts()


def sort_by(page: Page, column: str, *, turned: bool = False) -> None:
    """Clicks on the head of a column of the trials' table: once, and again to turn the order."""
    page.locator("table.trials thead").get_by_role("link", name=column).click()
    page.wait_for_url(re.compile(f"sort={'-' if turned else ''}{column}"))


def filter_trials(page: Page, words: str) -> None:
    """Types a filter of the trials' table."""
    page.get_by_label("Filter").fill(words)
    page.get_by_label("Filter").press("Enter")
    page.wait_for_url(re.compile("q="))


def compare_trials(page: Page, *names: str) -> None:
    """Ticks trials of the table, and has them compared."""
    for name in names:
        page.get_by_label(f"Choose {name}", exact=True).check()
    expect(page.get_by_role("status").filter(has_text=f"{len(names)} are chosen.")).to_be_visible()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Compare {len(names)} trials")


def open_replay(visitor: Visitor, path: str) -> Page:
    """Opens a moment, until all of the record is there."""
    with visitor.page.expect_response(re.compile(r"tape\.json")):
        page = visitor.open(path)
    expect(page.locator("[data-show]")).to_be_hidden()
    page.wait_for_function("() => document.querySelector('[data-dots]').childElementCount > 0")
    return page


def read_moment(page: Page) -> int:
    """Which one replay shows, in seconds after the start."""
    return int(page.locator("[data-slider]").input_value())


def read_exploits(page: Page) -> list[Any]:
    """What of a family tree can be pointed at: the trial that continued, how, and the points of its arc."""
    tree = page.locator(".tree")
    return list(page.request.get(tree.evaluate("each => new URL(each.dataset.points, location).href")).json()["items"])


def open_by_keys(table: Locator) -> None:
    """Opens the table of a chart."""
    table.locator("summary").focus()
    table.page.keyboard.press("Enter")
    expect(table).to_have_attribute("open", "")
