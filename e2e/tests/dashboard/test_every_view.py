"""Every view of experiments of the cluster, opened, used, examined and photographed by people with their own tokens."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from e2e.bench.dashboard.servers import write_archive
from e2e.bench.dashboard.trial_maker import NAME as SWEEP
from e2e.browser.chromium import open_browser
from e2e.browser.examination import find_unseen_focus
from e2e.browser.gestures import (
    brush,
    compare_trials,
    count_selected,
    drag_across,
    filter_trials,
    list_column,
    open_by_keys,
    open_replay,
    read_moment,
    read_query,
    sort_by,
)
from e2e.browser.looks import LOOKS, PICTURES, Look, examine
from e2e.browser.views import PAGES
from e2e.browser.visitor import NARROW, WIDE, Visitor, visit
from e2e.devcluster import Cluster
from e2e.kubernetes import DEADLINE, Kubernetes
from e2e.tests.dashboard.conftest import Dashboard, Team, await_text, log_in, make_token
from e2e.tests.dashboard.small_experiments import (
    make_failing,
    make_finished,
    make_population,
    make_running,
    make_trade_off,
)

MANY = 10_000
IMPORT_SECONDS = 1800.0
"""The API server makes each of so many trials, and its status."""
FOLDER = PICTURES / "cluster"
OF_MANY = (Look(WIDE, "light", "all"), Look(NARROW, "dark", "all"))
EXPERIMENTS: Mapping[str, str] = {
    "failing": "base",
    "finished": "base",
    "population": "rate",
    "running": "base",
    "trade-off": "base",
}
"""With a parameter of each."""
ON_REQUEST = (
    ("population", "results", " in the store at "),
    ("population", "checkpoints", ' bytes">'),
    ("population", "stored-logs", "By attempt"),
    ("running", "log", '<pre id="text"'),
    ("running", "pod", "<td>Scheduled"),
    ("running", "manifest", "kind: Trial"),
)
"""Whose first trial's page is read on request, which, and what tells that it is there."""


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_every_view_is_opened_used_and_photographed(team: Team, cluster: Cluster) -> None:
    for body in (make_failing(), make_finished(), make_population(cluster), make_running()):
        team.ours.apply(body)
    team.theirs.apply(make_trade_off())
    expect.set_options(timeout=DEADLINE * 1000)
    flaws: list[str] = []
    address = team.stranger.address
    with open_browser() as browser, visit(browser, address) as alice, visit(browser, address) as bob:
        token = make_token(team.ours, "view")
        log_in(alice, token, ["failing", "finished", "population", "running"])
        log_in(bob, make_token(team.theirs, "view"), ["trade-off"])
        await_outcomes(alice, bob, team)
        for name, parameter in EXPERIMENTS.items():
            visitor, namespace = (bob, team.theirs) if name == "trade-off" else (alice, team.ours)
            base = f"experiments/{namespace.namespace}/{name}/"
            flaws += look_through(visitor, base, name)
            use_all(visitor, base, name, parameter)
        flaws += look_at_requested(alice, team, token)
        for visitor, foreign in (
            (alice, f"{team.theirs.namespace}/trade-off"),
            (bob, f"{team.ours.namespace}/failing"),
        ):
            page = visitor.open(f"experiments/{foreign}/")
            expect(page.get_by_role("heading", level=1)).to_contain_text("You may not see the experiments of")
            flaws += examine(visitor, f"forbidden-{foreign.partition('/')[2]}", LOOKS, FOLDER)
            visitor.pardon("a status of 401")
            visitor.pardon("a status of 403")
        assert not flaws + alice.list_problems() + bob.list_problems()


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_ten_thousand_trials_are_looked_at_and_used(
    namespace: Kubernetes, dashboard: Dashboard, tmp_path: Path
) -> None:
    file = tmp_path / "sweep.yaml"
    write_archive(MANY, file)
    words = [sys.executable, "-m", "podtune.cli.main", "import", str(file), "-n", namespace.namespace]
    namespace.cluster.run(words, timeout=IMPORT_SECONDS)
    expect.set_options(timeout=DEADLINE * 1000)
    base = f"experiments/{namespace.namespace}/{SWEEP}/"
    with open_browser() as browser, visit(browser, dashboard.address) as visitor:
        page = visitor.open(base)
        expect(page.locator(".tabs .count")).to_have_text(f"{MANY:,}")
        expect(page.locator(".badge")).to_have_text("Complete")
        flaws = look_through(visitor, base, SWEEP, OF_MANY)
        use_all(visitor, base, SWEEP, "learning_rate")
        assert not flaws + visitor.list_problems()


def await_outcomes(alice: Visitor, bob: Visitor, team: Team) -> None:
    """Returns as soon as each experiment has come so far that each of its views has something to show."""
    ours, theirs = (f"experiments/{each.namespace}/" for each in (team.ours, team.theirs))
    for visitor, path in ((alice, f"{ours}finished/"), (bob, f"{theirs}trade-off/")):
        expect(visitor.open(path).locator(".badge")).to_have_text("Complete")
    curves = "section[aria-labelledby=curves]"
    expect(alice.open(f"{ours}failing/").locator(f"{curves} .legend")).to_contain_text("Failed 1")
    expect(alice.open(f"{ours}running/").locator(f"{curves} .legend")).to_contain_text("Running 2")
    expect(alice.open(f"{ours}population/scheduler").locator(".family .arc").first).to_be_attached()


def list_pages(visitor: Visitor, base: str) -> dict[str, str]:
    """The views that an experiment has, by what they are called."""
    tabs = visitor.open(base).locator("nav.tabs a").evaluate_all("all => all.map((each) => each.getAttribute('href'))")
    has_scheduler = any(tab.endswith("/scheduler") for tab in tabs)
    return PAGES | ({"scheduler": "scheduler"} if has_scheduler else {})


def look_through(visitor: Visitor, base: str, name: str, looks: tuple[Look, ...] = LOOKS) -> list[str]:
    """What is wrong with the views of an experiment, and the page of its first trial; pictures of them are left."""
    flaws: list[str] = []
    for view, path in {**list_pages(visitor, base), "trial": f"trials/{name}-0"}.items():
        page = visitor.open(f"{base}{path}")
        hold_still(page)
        flaws += examine(visitor, f"{name}-{view}", looks, FOLDER)
        visitor.resize(WIDE)
        flaws += [f"{name}-{view}: {flaw}" for flaw in find_unseen_focus(page)]
    return flaws


def look_at_requested(visitor: Visitor, team: Team, token: str) -> list[str]:
    """What is wrong with pages that read a trial's store, or ask the API server."""
    flaws: list[str] = []
    for name, view, text in ON_REQUEST:
        path = f"experiments/{team.ours.namespace}/{name}/trials/{name}-0/{view}"
        await_text(team.stranger.log_in(token), path, text)
        page = visitor.open(path)
        expect(page.locator(".failure")).to_have_count(0)
        flaws += examine(visitor, f"{name}-trial-{view}", LOOKS, FOLDER)
    return flaws


def hold_still(page: Page) -> None:
    """Pauses the updates of a page, where it has any: what is looked at in several widths is one page."""
    button = page.locator("#live")
    if button.count():
        button.click()
        expect(button).to_have_attribute("data-state", "paused")


def use_all(visitor: Visitor, base: str, name: str, parameter: str) -> None:
    """Uses each view of an experiment as people do, on a wide screen."""
    visitor.resize(WIDE)
    uses: Mapping[str, Callable[[Page, str], None]] = {
        "overview": use_curves,
        "search-space": use_search_space,
        "timeline": use_timeline,
        "scheduler": use_scheduler,
        "trials": use_table,
    }
    for view, path in list_pages(visitor, base).items():
        if view == "replay":
            use_replay(visitor, f"{base}replay?at=0")
            continue
        page = visitor.open(f"{base}{path}")
        hold_still(page)
        uses[view](page, parameter)
    page = visitor.open(f"{base}trials")
    compare_trials(page, f"{name}-0", f"{name}-1")


def use_curves(page: Page, _: str) -> None:
    """Goes from curve to curve."""
    chart = page.locator("section[aria-labelledby=curves] [data-points]")
    chart.focus()
    page.keyboard.press("ArrowRight")
    expect(chart.locator(".tip b")).to_have_text(re.compile(r"-\d+$"))
    page.keyboard.press("Escape")
    expect(chart.locator(".tip")).to_be_hidden()


def use_search_space(page: Page, parameter: str) -> None:
    """Drags a range, and takes it back."""
    total = count_selected(page)
    brush(page, parameter, 0.3, 0.6)
    name, low, high = read_query(page)["range"][0].split("~")
    assert (name, float(low) < float(high)) == (parameter, True)
    assert count_selected(page) < total or total < MANY
    page.get_by_role("button", name="Reset").click()
    assert count_selected(page) == total


def use_timeline(page: Page, _: str) -> None:
    """Chooses a span, and zooms out again."""
    drag_across(page, ".run", 30, 0.25, 0.75)
    page.mouse.up()
    page.wait_for_url(re.compile("from="))
    chosen = page.url
    page.locator(".run").focus()
    page.keyboard.press("Home")
    page.wait_for_url(lambda url: url != chosen)


def use_scheduler(page: Page, _: str) -> None:
    """Goes to an exploit by keys, or opens the table of brackets."""
    tree = page.locator(".tree")
    if not tree.count():
        open_by_keys(page.locator("section[aria-labelledby=brackets] details:has(table)"))
        return
    tree.focus()
    page.keyboard.press("ArrowRight")
    expect(tree.locator(".tip b")).to_have_text(re.compile(r"population-\d+$"))


def use_table(page: Page, parameter: str) -> None:
    """Sorts and filters."""
    sort_by(page, parameter)
    values = [float(value) for value in list_column(page, parameter)]
    assert values == sorted(values)
    middle = values[len(values) // 2]
    filter_trials(page, f"{parameter}>={middle}")
    assert all(float(value) >= 0.99 * middle for value in list_column(page, parameter))


def use_replay(visitor: Visitor, path: str) -> None:
    """Goes to the end, back to the start, and to the first decision, after which there may be no other."""
    page = open_replay(visitor, path)
    assert read_moment(page) == 0
    page.get_by_role("link", name="Latest").click()
    expect(page).to_have_url(re.compile(r"replay$"))
    page.get_by_role("link", name="Start").click()
    expect(page.locator("[data-slider]")).to_have_value("0")
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-slider]")).not_to_have_value("0")
