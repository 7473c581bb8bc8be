"""What pages do with experiments that are not as one expects."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from e2e.browser.examination import find_flaws
from e2e.browser.experiments.odd import IMAGE, SCRIPT
from e2e.browser.views import FINISHED, HOSTILE, PAGES, WIDER
from e2e.browser.visitor import NARROW, NARROWEST, WIDE, Visitor

HOSTILE_PAGES, WIDE_PAGES = (
    (*PAGES.values(), f"trials/{name}-3", f"compare?trial={name}-3&trial={name}-4") for name in ("hostile", "wider")
)


def test_texts_of_an_experiment_are_shown_and_never_run(visitor: Visitor) -> None:
    for path in HOSTILE_PAGES:
        page = visitor.open(f"{HOSTILE}{path}")
        assert "hurt" not in page.title(), path
        shown = page.locator("main").inner_text()
        assert SCRIPT in shown or IMAGE in shown, path
        assert page.locator("main img, main script").count() == 0, path


def test_a_hostile_name_is_shown_beside_the_pointer_as_it_is(visitor: Visitor) -> None:
    page = visitor.open(f"{HOSTILE}parameters")
    assert page.locator("[data-head]").inner_text().count(SCRIPT) == 2
    page.get_by_text("Ranges, to type").click()
    page.get_by_label(IMAGE, exact=True).check()
    expect(page.locator("[data-status]")).to_have_text("7 of 20 trials")
    assert page.title().startswith("Search space of hostile")


@pytest.mark.parametrize("path", WIDE_PAGES)
def test_five_hundred_parameters_fit_on_each_page(visitor: Visitor, path: str) -> None:
    page = visitor.open(f"{WIDER}{path}")
    for width in (WIDE, NARROW, NARROWEST):
        visitor.resize(width)
        assert not find_flaws(page), width


def test_an_experiment_that_is_not_there_is_told_with_a_way_back(visitor: Visitor) -> None:
    visitor.pardon("a status of 404")
    for path in ("experiments/vision/nothing/", "experiments/vision/nothing/trials/nothing-1", f"{FINISHED}trials/no"):
        page = visitor.open(path)
        expect(page.get_by_role("heading", level=1)).to_have_text("Not there")
        page.get_by_role("main").get_by_role("link").first.click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("Experiments")
