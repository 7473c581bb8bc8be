"""Pages of a cluster while it changes, while it is away, and when what is looked at goes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from e2e.browser.examination import find_violations
from e2e.browser.experiments.simulated import make_running
from e2e.browser.gestures import read_query
from e2e.browser.living import LivingCluster
from e2e.browser.serving import serve_source
from e2e.browser.tests.conftest import Visit
from e2e.browser.views import RUNNING
from e2e.browser.visitor import Visitor
from e2e.chaos.processes.free_ports import free_port

FRESH = "resnet-live-99"
VALUE = {"bestValue": "0.9912", "best": {"accuracy": "0.9912"}}


@pytest.fixture
def cluster() -> Iterator[LivingCluster]:
    with LivingCluster(make_running()) as cluster:
        yield cluster


@pytest.fixture
def visitor(cluster: LivingCluster, visitors: Visit) -> Iterator[Visitor]:
    with serve_source(cluster.source) as address:
        visitor = visitors(address)
        yield visitor
        visitor.page.close()


def expect_state(page: Page, word: str) -> None:
    expect(page.locator("#live .label")).to_have_text(word)


def test_a_trial_appears_on_the_overview_and_becomes_the_best(visitor: Visitor, cluster: LivingCluster) -> None:
    page = visitor.open(RUNNING)
    expect_state(page, "Live")
    count = page.locator(".tabs .count")
    before = int(count.inner_text())
    cluster.put_trial(FRESH, state="RUNNING", attempt=1, startTime="2026-03-01T02:00:00Z")
    expect(count).to_have_text(str(before + 1))
    cluster.put_trial(FRESH, state="TERMINATED", reason="Completed", **VALUE)
    best = {"trial": FRESH, "value": "0.9912", "parameters": {"depth": "18"}}
    cluster.put_experiment(best=best)
    expect(page.locator(".hero .value")).to_have_text("0.9912")
    expect(page.locator(".hero .by")).to_have_text(f"by {FRESH}")


def test_what_a_person_does_on_a_page_outlives_its_updates(visitor: Visitor, cluster: LivingCluster) -> None:
    page = visitor.open(f"{RUNNING}trials")
    page.get_by_label("Choose resnet-live-3", exact=True).check()
    page.get_by_text("Columns", exact=True).click()
    field = page.get_by_label("Filter")
    field.fill("optimizer=ad")
    cluster.put_trial("resnet-live-5", bestValue="0.4321", best={"accuracy": "0.4321"})
    expect(page.get_by_role("cell", name="0.4321")).to_be_visible()
    expect(page.get_by_label("Choose resnet-live-3", exact=True)).to_be_checked()
    expect(page.locator("details.menu")).to_have_attribute("open", "")
    expect(field).to_have_value("optimizer=ad")
    expect(field).to_be_focused()


def test_parallel_coordinates_keep_their_ranges_while_trials_arrive(visitor: Visitor, cluster: LivingCluster) -> None:
    page = visitor.open(f"{RUNNING}parameters?pick=optimizer~1")
    said = page.locator("[data-status]")
    before = said.inner_text()
    total = int(before.split(" of ")[1].split(" ")[0])
    cluster.put_trial(FRESH, state="TERMINATED", reason="Completed", **VALUE)
    expect(said).to_have_text(re.compile(rf"\d+ of {total + 1} trials"))
    assert read_query(page)["pick"] == ["optimizer~1"]


def test_a_paused_page_stays_as_it_is_until_it_follows_again(visitor: Visitor, cluster: LivingCluster) -> None:
    page = visitor.open(RUNNING)
    count = page.locator(".tabs .count")
    before = count.inner_text()
    page.locator("#live").click()
    expect_state(page, "Paused")
    cluster.put_trial(FRESH, state="RUNNING", attempt=1)
    other = visitor.page.context.new_page()
    other.goto(page.url)
    expect(other.locator(".tabs .count")).to_have_text(str(int(before) + 1))
    other.close()
    assert count.inner_text() == before
    page.locator("#live").click()
    expect(count).to_have_text(str(int(before) + 1))


def test_while_the_api_server_is_away_the_page_says_so_and_recovers(visitor: Visitor, cluster: LivingCluster) -> None:
    page = visitor.open(RUNNING)
    value = page.locator(".hero .value").inner_text()
    cluster.lose_server("10.0.0.1:6443 can't be reached: no route to host")
    notice = page.get_by_role("alert")
    expect(notice).to_contain_text("The API server has not been reached since")
    expect(notice).to_contain_text("no route to host")
    expect_state(page, "Not reached")
    assert page.locator(".hero .value").inner_text() == value, "what was known is still shown"
    assert not find_violations(page)
    page.reload()
    expect(notice).to_contain_text("no route to host")
    cluster.put_trial(FRESH, state="RUNNING", attempt=1)
    cluster.answer_again()
    expect(notice).to_have_count(0)
    expect_state(page, "Live")
    expect(page.locator(".tabs .count")).to_have_text(str(len(make_running().trials) + 1))


def test_while_the_dashboard_is_away_the_page_tries_again(cluster: LivingCluster, visitors: Visit) -> None:
    port = free_port()  # while it is away, nobody else is given it
    with serve_source(cluster.source, port) as address:
        visitor = visitors(address)
        page = visitor.open(RUNNING)
        expect_state(page, "Live")
    for moment in ("CONNECTION_REFUSED", "CONNECTION_RESET", "EMPTY_RESPONSE", "INCOMPLETE_CHUNKED_ENCODING"):
        visitor.pardon(f"ERR_{moment}")
    expect_state(page, "Reconnecting")
    with serve_source(cluster.source, port):
        expect_state(page, "Live")
        page.close()


def test_an_experiment_that_is_deleted_while_it_is_looked_at(visitor: Visitor, cluster: LivingCluster) -> None:
    visitor.pardon("a status of 410")
    page = visitor.open(RUNNING)
    cluster.delete_experiment()
    expect(page.get_by_role("heading", level=1)).to_contain_text("resnet-live was deleted")
    assert not find_violations(page)
    page.get_by_role("main").get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Experiments")


def test_trials_whose_status_makes_no_sense_take_nothing_else_away(visitor: Visitor, cluster: LivingCluster) -> None:
    broken = {"bestValue": ["0.9"], "curve": {"results": "many", "values": 7}, "ledger": "none", "state": {"a": 1}}
    cluster.put_trial("resnet-live-3", **broken)
    cluster.put_trial("resnet-live-4", curve={"results": 3, "every": 1, "steps": [1], "seconds": [], "values": [[]]})
    cluster.put_trial("resnet-live-5", startTime="yesterday", usage={"gpuSeconds": -1}, iteration="-")
    cluster.put_trial(FRESH, state="Dreaming", reason="NotYetInvented")
    for path in ("", "parameters", "trials", "trials/resnet-live-3", "trials/resnet-live-4", f"trials/{FRESH}"):
        page = visitor.open(f"{RUNNING}{path}")
        expect(page.get_by_role("heading", level=1)).to_contain_text("resnet-live")
