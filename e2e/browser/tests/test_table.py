"""The table of trials used: filter, order, columns, pages, downloads, and trials chosen to be compared."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from e2e.browser.gestures import compare_trials, filter_trials, list_column, sort_by
from e2e.browser.views import FINISHED, SWEEP
from e2e.browser.visitor import Visitor


@pytest.fixture
def page(visitor: Visitor) -> Page:
    return visitor.open(f"{FINISHED}trials")


def press_until_focused(page: Page, wanted: Locator, most: int = 60) -> None:
    """Goes on by the Tab key to one of the wanted elements."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if wanted.evaluate_all("all => all.includes(document.activeElement)"):
            return
    pytest.fail(f"{wanted} is not reached by {most} tabs")


def test_a_filter_holds_for_all_rows_and_for_the_downloads(page: Page, tmp_path: Path) -> None:
    filter_trials(page, "learning_rate<0.01 optimizer=adamw")
    assert set(list_column(page, "optimizer")) == {"adamw"}
    assert all(float(value) < 0.01 for value in list_column(page, "learning_rate"))
    count = page.locator("table.trials tbody tr").count()
    for name in ("CSV", "JSON"):
        with page.expect_download() as download:
            page.get_by_role("link", name=name).click()
        download.value.save_as(tmp_path / name)
    with (tmp_path / "CSV").open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == count
    assert len(json.loads((tmp_path / "JSON").read_text(encoding="utf-8"))["items"]) == count


def test_states_are_chosen_by_a_click_and_go_with_a_filter(page: Page) -> None:
    page.get_by_label("Filter").fill("optimizer=sgd")
    page.get_by_role("search").get_by_text("Failed").click()
    page.wait_for_url(re.compile("state=failed"))
    assert set(list_column(page, "State")) == {"Failed"}
    assert page.get_by_label("Filter").input_value() == "optimizer=sgd"


def test_a_click_on_a_head_sorts_and_another_one_turns_the_order(page: Page) -> None:
    sort_by(page, "dropout")
    values = [float(value) for value in list_column(page, "dropout")]
    assert values == sorted(values)
    sort_by(page, "dropout", turned=True)
    values = [float(value) for value in list_column(page, "dropout")]
    assert values == sorted(values, reverse=True)
    expect(page.locator("th[aria-sort=descending]")).to_have_text("dropout")


def test_columns_are_chosen_and_stay_when_the_order_changes(page: Page) -> None:
    page.get_by_text("Columns", exact=True).click()
    page.locator(".menu").get_by_label("momentum").uncheck()
    page.get_by_role("button", name="Show these").click()
    page.wait_for_url(re.compile("column="))
    sort_by(page, "depth")
    heads = page.locator("table.trials thead th").all_inner_texts()
    assert "momentum" not in heads
    assert "depth" in heads


def test_the_menu_of_columns_closes_by_a_key_and_by_a_click_elsewhere(page: Page) -> None:
    menu, summary = page.locator("details.menu"), page.get_by_text("Columns", exact=True)
    summary.click()
    expect(menu).to_have_attribute("open", "")
    page.keyboard.press("Escape")
    expect(menu).not_to_have_attribute("open", "")
    summary.click()
    expect(menu).to_have_attribute("open", "")
    page.get_by_role("heading", level=1).click()
    expect(menu).not_to_have_attribute("open", "")


def test_ten_thousand_trials_are_paged_through(visitor: Visitor) -> None:
    page = visitor.open(f"{SWEEP}trials?sort=-accuracy")
    best = page.locator("table.trials tbody a").first.inner_text()
    page.get_by_role("link", name="Next →").click()
    page.wait_for_url(re.compile("page=2"))
    expect(page.locator("nav.pages")).to_contain_text("51–100 of 10,000")
    assert best not in list_column(page, "Trial")


def test_chosen_trials_are_compared_and_one_is_left_out_and_another_added(page: Page) -> None:
    compare_trials(page, "resnet-1", "resnet-4", "resnet-9")
    title = page.get_by_role("heading", level=1)
    page.get_by_label("Leave out resnet-4").click()
    expect(title).to_contain_text("Compare 2 trials")
    page.get_by_label("Add a trial").fill("resnet-20")
    page.get_by_role("button", name="Add").click()
    expect(title).to_contain_text("Compare 3 trials")
    names = page.locator(".sides thead th").all_inner_texts()
    assert names == ["resnet-1", "resnet-9", "resnet-20"]


def test_a_trial_is_found_chosen_and_opened_by_keyboard_alone(page: Page) -> None:
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    press_until_focused(page, page.get_by_label("Filter"))
    page.keyboard.type("optimizer=lion")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("q="))
    for _ in range(2):
        press_until_focused(page, page.locator("input.pick:not(:checked)"))
        page.keyboard.press("Space")
    assert page.locator("input.pick:checked").count() == 2
    press_until_focused(page, page.locator("table.trials tbody a"))
    name = page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
