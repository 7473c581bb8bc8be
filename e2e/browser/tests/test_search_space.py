"""Parallel coordinates used: ranges, order, colour; by pointer and by keyboard, and kept in the address."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from e2e.browser.gestures import brush, count_selected, find_axis, find_box, read_address, read_query
from e2e.browser.tests.conftest import Visit
from e2e.browser.views import FINISHED, SWEEP
from e2e.browser.visitor import NARROW, Visitor, Window

TRIALS = 80
PNG_BEGIN = b"\x89PNG"


@pytest.fixture
def page(visitor: Visitor) -> Page:
    return visitor.open(f"{FINISHED}parameters")


def list_axes(page: Page) -> list[str]:
    return page.locator("[data-axes] button").all_inner_texts()


def test_a_dragged_range_selects_trials_and_is_restored_by_its_address(page: Page) -> None:
    assert count_selected(page) == TRIALS
    brush(page, "learning_rate", 0.3, 0.55)
    selected = count_selected(page)
    assert 0 < selected < TRIALS
    name, low, high = read_query(page)["range"][0].split("~")
    assert name == "learning_rate"
    shown = page.locator("[data-body] tr td:nth-child(3)").all_inner_texts()
    assert len(shown) == min(selected, 15)
    assert all(float(low) * 0.999 <= float(value) <= float(high) * 1.001 for value in shown)
    page.reload()
    expect(page.locator("[data-status]")).to_have_text(f"{selected} of {TRIALS} trials")
    page.get_by_role("button", name="Reset").click()
    assert count_selected(page) == TRIALS
    assert not read_query(page)


def test_ranges_on_two_axes_narrow_the_selection_and_a_click_on_an_axis_removes_its_own(page: Page) -> None:
    brush(page, "learning_rate", 0.3, 0.6)
    first = count_selected(page)
    brush(page, "dropout", 0.5, 0.9)
    assert count_selected(page) < first
    stage = find_box(page, "[data-stage]")
    page.mouse.click(find_axis(page, "dropout"), stage["y"] + 0.2 * stage["height"])
    assert count_selected(page) == first


def test_an_axis_is_moved_by_dragging_its_name_and_by_arrow_keys(page: Page) -> None:
    before = list_axes(page)
    name = page.get_by_role("button", name="depth, axis")
    name.hover()
    page.mouse.down()
    page.mouse.move(find_axis(page, before[1]) + 4, find_box(page, "[data-stage]")["y"] + 12, steps=8)
    page.mouse.up()
    moved = list_axes(page)
    assert moved == [before[0], "depth", *[each for each in before[1:] if each != "depth"]]
    assert read_query(page)["axis"] == moved
    name.press("ArrowLeft")
    assert list_axes(page)[0] == "depth"
    expect(name).to_be_focused()
    page.reload()
    page.locator("[data-parallel]").wait_for()
    assert list_axes(page)[0] == "depth"


def test_the_best_alone_are_chosen_by_keyboard(page: Page) -> None:
    slider = page.get_by_role("slider", name="Best")
    slider.press("Home")
    assert count_selected(page) == 1
    for _ in range(9):
        slider.press("ArrowRight")
    assert count_selected(page) == TRIALS // 10
    assert read_query(page)["top"] == ["10"]


def test_ranges_can_be_typed_and_choices_ticked(page: Page) -> None:
    page.get_by_text("Ranges, to type").click()
    page.get_by_label("dropout to").fill("0.1")
    page.get_by_label("dropout to").press("Enter")
    typed = count_selected(page)
    assert 0 < typed < TRIALS
    page.get_by_label("adamw", exact=True).check()
    assert count_selected(page) < typed
    assert set(page.locator("[data-body] tr td:nth-child(4)").all_inner_texts()) == {"adamw"}


def test_the_numbers_of_a_column_have_one_precision(page: Page) -> None:
    for place in (2, 7):  # accuracy and dropout
        shown = page.locator(f"[data-body] tr td:nth-child({place})").all_inner_texts()
        assert len({len(text.partition(".")[2]) for text in shown}) == 1, shown


def test_another_parameter_gives_the_colour(page: Page) -> None:
    page.get_by_label("Colour").select_option("depth")
    expect(page.locator("[data-worst]")).to_have_text("depth 8")
    assert read_query(page)["colour"] == ["depth"]


def test_a_line_names_its_trial_and_opens_it(page: Page) -> None:
    row = page.locator("[data-body] tr").first
    best = row.locator("a").inner_text()
    page.get_by_role("slider", name="Best").press("Home")
    stage = find_box(page, "[data-stage]")
    across = (find_axis(page, "learning_rate") + find_axis(page, "optimizer")) / 2
    tip = page.locator("[data-tip]")
    for share in range(12, 92, 2):  # the one line that is left crosses here, wherever its values are
        page.mouse.move(across, stage["y"] + share / 100 * stage["height"])
        if tip.is_visible():
            break
    expect(tip.locator("b")).to_have_text(best)
    page.mouse.down()
    page.mouse.up()
    expect(page.get_by_role("heading", level=1)).to_contain_text(best)


def test_the_picture_is_saved_and_the_address_copied(page: Page, tmp_path: Path) -> None:
    with page.expect_download() as download:
        page.get_by_role("button", name="PNG").click()
    download.value.save_as(tmp_path / "lines.png")
    assert (tmp_path / "lines.png").read_bytes().startswith(PNG_BEGIN)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_label("Colour").select_option("depth")
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == read_address(page)


def test_two_parameters_are_chosen_for_the_map(page: Page) -> None:
    form = page.locator("form.controls").first
    form.get_by_label("Across").select_option("dropout")
    form.get_by_label("Up").select_option("depth")
    form.get_by_role("button", name="Show").click()
    page.wait_for_url(re.compile("x=dropout&y=depth"))
    assert page.locator(".contour .axis").all_inner_texts() == ["depth", "dropout"]


def test_a_range_of_ten_thousand_trials_is_dragged(visitor: Visitor) -> None:
    page = visitor.open(f"{SWEEP}parameters")
    assert count_selected(page) == 10_000
    brush(page, "learning_rate", 0.3, 0.4)
    assert 0 < count_selected(page) < 10_000


def test_a_range_is_dragged_on_a_narrow_screen(visitors: Visit, gallery: str) -> None:
    page = visitors(gallery, Window(width=NARROW)).open(f"{FINISHED}parameters")
    stage = find_box(page, "[data-stage]")
    across = stage["y"] + 40  # the first axis lies there
    page.mouse.move(stage["x"] + 0.3 * stage["width"], across)
    page.mouse.down()
    page.mouse.move(stage["x"] + 0.5 * stage["width"], across, steps=3)
    page.mouse.up()
    assert 0 < count_selected(page) < TRIALS


def test_the_chart_says_that_it_loads_and_what_it_could_not_load(visitor: Visitor) -> None:
    page, waits = visitor.page, visitor.page.locator("[data-wait]")
    page.route("**/columns.json", lambda _: None)  # never answered
    page.goto(f"{visitor.address}/{FINISHED}parameters")
    expect(waits).to_have_text(f"Loading {TRIALS} trials …")
    visitor.pardon("Failed to")
    page.unroute("**/columns.json")
    page.route("**/columns.json", lambda route: route.abort())
    page.reload()
    expect(page.get_by_text("The trials could not be loaded.")).to_be_visible()
    expect(waits).to_be_hidden()
