"""A dashboard with a login used: by people who may see different namespaces, and by one who may act."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from e2e.browser.examination import find_flaws, find_violations
from e2e.browser.experiments.simulated import NAMESPACE
from e2e.browser.serving import DEADLINE
from e2e.browser.team import ALICE, BOB, ELSEWHERE, LOG, LOGGED, TeamCluster, serve_team
from e2e.browser.tests.conftest import Visit
from e2e.browser.views import RUNNING
from e2e.browser.visitor import NARROW, WIDE, Visitor
from podtune.dashboard.pages import trial_texts
from podtune.kube import paths

EXPERIMENT = paths.experiment(NAMESPACE, "resnet-live")


@pytest.fixture
def cluster() -> TeamCluster:
    return TeamCluster()


@pytest.fixture
def team(cluster: TeamCluster) -> Iterator[str]:
    """The address of a dashboard that nobody else has used."""
    with serve_team(cluster) as address:
        yield address


def log_in(visitor: Visitor, token: str) -> Page:
    page = visitor.page
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    return page


def list_experiments(page: Page) -> list[str]:
    return page.locator("ul.experiments h2 a").all_inner_texts()


def test_a_person_logs_in_comes_to_the_page_that_was_asked_for_and_logs_out(team: str, visitors: Visit) -> None:
    visitor = visitors(team)
    visitor.pardon("a status of 401")
    page = visitor.open(RUNNING)
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    expect(page.get_by_label("Token")).to_be_focused()
    log_in(visitor, "mistyped")
    expect(page.get_by_role("alert")).to_contain_text("does not take this token")
    log_in(visitor, ALICE)
    expect(page.get_by_role("heading", level=1)).to_contain_text("resnet-live")
    assert page.evaluate("document.cookie") == "", "no script can read the token"
    page.get_by_role("link", name="Podtune, all experiments").click()
    expect(page.locator("ul.experiments")).to_be_visible()
    page.locator("details.account summary").press("Enter")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    visitor.open(RUNNING)
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")


def test_two_people_see_their_own_namespaces_side_by_side(team: str, visitors: Visit) -> None:
    alice, bob = visitors(team), visitors(team)
    for visitor, token in ((alice, ALICE), (bob, BOB)):
        visitor.log_in(token)
        visitor.pardon("a status of 403")
        visitor.open()
    assert list_experiments(alice.page) == ["resnet-failing", "resnet-live", "resnet-population"]
    assert list_experiments(bob.page) == ["edge-models", "resnet-brackets"]
    page = bob.open(RUNNING)
    expect(page.get_by_role("heading", level=1)).to_have_text(f"You may not see the experiments of {NAMESPACE}")
    expect(page.locator("main")).to_contain_text("bob@example.com needs the right to list")
    page.get_by_role("link", name="All experiments that you may see").click()
    expect(page.get_by_role("link", name="edge-models")).to_be_visible()


def test_a_pause_is_confirmed_asked_for_with_ones_own_token_and_seen(
    team: str, cluster: TeamCluster, visitors: Visit
) -> None:
    visitor = visitors(team)
    visitor.log_in(ALICE)
    page = visitor.open(RUNNING)
    actions = page.get_by_role("navigation", name="Actions")
    actions.get_by_role("link", name="Pause").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Pause experiment resnet-live?")
    page.get_by_role("link", name="Leave it as it is").click()
    assert not cluster.patched
    actions.get_by_role("link", name="Pause").click()
    page.get_by_role("button", name="Pause resnet-live").press("Enter")
    expect(page.locator(".asked")).to_contain_text("The pause was asked for.")
    assert cluster.patched == [(EXPERIMENT, {"spec": {"suspend": True}}, ALICE)]
    page.get_by_role("link", name="Back to resnet-live").click()
    expect(actions.get_by_role("link", name="Resume")).to_be_visible()
    expect(actions.get_by_role("link", name="Pause")).to_have_count(0)


def test_who_may_only_look_has_no_buttons(team: str, cluster: TeamCluster, visitors: Visit) -> None:
    visitor = visitors(team)
    visitor.log_in(BOB)
    visitor.pardon("a status of 403")
    page = visitor.open(f"experiments/{ELSEWHERE}/resnet-brackets/")
    expect(page.locator(".badge")).to_have_text("Running")
    expect(page.get_by_role("navigation", name="Actions")).to_have_count(0)
    visitor.open(f"experiments/{ELSEWHERE}/resnet-brackets/actions/pause")
    expect(page.get_by_role("alert")).to_contain_text("bob@example.com needs the right to patch")
    assert not cluster.patched


def test_a_log_is_opened_at_its_end_read_again_and_copied(team: str, visitors: Visit) -> None:
    visitor = visitors(team)
    visitor.log_in(ALICE)
    page = visitor.open(f"{RUNNING}trials/{LOGGED}")
    page.get_by_role("link", name="show the last lines").click()
    text = page.locator("#text")
    expect(text).to_contain_text(LOG[-1])
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").splitlines() == list(LOG)
    page.get_by_role("link", name="Read again").click()
    expect(text).to_contain_text(LOG[-1])
    assert text.evaluate("each => each.scrollTop + each.clientHeight >= each.scrollHeight - 2"), "its end is shown"


def test_a_page_says_whom_it_asks_until_they_have_answered(
    team: str, cluster: TeamCluster, visitors: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_texts, "LONGEST_ASKING", DEADLINE)
    visitor = visitors(team)
    visitor.log_in(ALICE)
    cluster.answers.clear()
    page = visitor.page
    page.goto(f"{visitor.address}/{RUNNING}trials/{LOGGED}/log", wait_until="commit")
    expect(page.locator(".meanwhile")).to_contain_text("Asking the API server")
    flaws = [flaw for width in (WIDE, NARROW) for flaw in find_flaws_at(visitor, width)]
    cluster.answers.set()
    expect(page.locator("#text")).to_contain_text(LOG[-1])
    expect(page.locator(".meanwhile")).to_be_hidden()
    assert not flaws + find_violations(page) + find_flaws(page)


def find_flaws_at(visitor: Visitor, width: int) -> list[str]:
    """What is wrong with a page that is not whole yet."""
    visitor.resize(width)
    return find_violations(visitor.page) + find_flaws(visitor.page)
