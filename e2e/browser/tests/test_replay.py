"""Replay used: slider, keys, jumps and playing lead to moments, which their addresses restore."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from e2e.browser.gestures import open_replay, read_moment
from e2e.browser.tests.conftest import Visit
from e2e.browser.views import FINISHED, SWEEP
from e2e.browser.visitor import Visitor, Window


@pytest.mark.parametrize("path", [FINISHED, SWEEP], ids=["80 trials", "10,000 trials"])
def test_arrow_keys_go_from_decision_to_decision_and_back(visitor: Visitor, path: str) -> None:
    page = open_replay(visitor, f"{path}replay?at=7200")
    slider, told = page.locator("[data-slider]"), page.locator(".told-now").first
    words = slider.get_attribute("aria-valuetext") or ""
    page.keyboard.press("ArrowRight")
    expect(slider).not_to_have_attribute("aria-valuetext", words)
    later, sentence = read_moment(page), told.inner_text()
    assert later > 7200
    page.keyboard.press("ArrowRight")
    expect(told).not_to_have_text(sentence)
    page.keyboard.press("ArrowLeft")
    expect(told).to_have_text(sentence)
    assert read_moment(page) == later
    page.wait_for_url(re.compile(rf"at={later}$"))
    page.reload()
    expect(told).to_have_text(sentence)


def test_jumps_lead_to_what_they_are_called(visitor: Visitor) -> None:
    page = open_replay(visitor, f"{FINISHED}replay?at=0")
    page.get_by_role("link", name="Next stop").click()
    expect(page.locator(".verdict-card .action").first).to_have_text("STOP")
    before = page.locator("[data-part=then] dd").first.inner_text()
    page.get_by_role("link", name="Next new best").click()
    expect(page.locator("[data-part=then] dd").first).not_to_have_text(before)
    page.get_by_role("link", name="Latest").click()
    expect(page.locator("[data-part=clock] .badge")).to_have_text("latest")
    expect(page).to_have_url(re.compile(r"replay$"))
    expect(page.get_by_role("link", name="Next decision")).to_have_attribute("aria-disabled", "true")


def test_the_end_has_the_numbers_of_the_overview(visitor: Visitor) -> None:
    page = visitor.open(FINISHED)
    best = page.locator(".hero .value").inner_text()
    open_replay(visitor, f"{FINISHED}replay")
    expect(page.locator("[data-part=then] dd").first).to_have_text(best)


def test_what_is_revealed_is_what_the_server_draws(visitor: Visitor) -> None:
    """A script that has the whole record shows no more of it than the page of that moment."""
    count = "() => [...document.querySelectorAll('[data-dots] path')].map((path) => path.getAttribute('d')).join('')"
    page = open_replay(visitor, f"{FINISHED}replay?at=0")
    assert page.evaluate(count) == ""
    page.locator("[data-slider]").evaluate(
        "slider => { slider.value = 7200; slider.dispatchEvent(new Event('input', { bubbles: true })); }"
    )
    revealed, width = page.evaluate(count), page.locator("[data-past]").get_attribute("width")
    expect(page.locator("[data-slider]")).to_have_attribute("aria-valuetext", re.compile("^2h after the start"))
    answer = page.request.get(f"{visitor.address}/{FINISHED}replay?at=7200").text()
    dots = re.search(r'data-dots="".*? d="([^"]*)"', answer, re.DOTALL)
    past = re.search(r'data-past="".*?width="([\d.]+)"', answer)
    assert dots is not None
    assert past is not None
    assert dots[1] == revealed
    assert float(past[1]) == pytest.approx(float(width or 0), abs=0.01)


def test_it_plays_and_pauses_unless_less_motion_is_asked_for(visitor: Visitor) -> None:
    page = open_replay(visitor, f"{FINISHED}replay?at=0")
    expect(page.locator("[data-play]")).to_be_hidden()
    expect(page.get_by_text("goes step by step")).to_be_visible()
    page.emulate_media(reduced_motion="no-preference")
    page.get_by_label("plays").select_option("in 45 seconds")
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("() => Number(document.querySelector('[data-slider]').value) > 600")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    paused = read_moment(page)
    page.wait_for_url(re.compile(rf"at={paused}$"))
    assert read_moment(page) == paused


def test_without_a_script_a_form_and_links_do_the_same(visitors: Visit, gallery: str) -> None:
    page = visitors(gallery, Window(has_scripts=False)).page
    page.goto(f"{gallery}{FINISHED}replay?at=7200")
    page.get_by_role("link", name="Next decision").click()
    page.wait_for_url(re.compile(r"at=\d+$"))
    later = read_moment(page)
    assert later > 7200
    page.locator("[data-slider]").press("ArrowRight")
    page.locator(".scrub").get_by_role("button", name="Show").click()
    page.wait_for_url(re.compile(rf"at={later + 1}$"))
