"""The views that are opened, photographed and examined. A new one is one line here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from e2e.browser.experiments.odd import make_hostile, make_new, make_wide
from e2e.browser.experiments.simulated import (
    NAMESPACE,
    make_failing,
    make_finished,
    make_hyperband,
    make_population,
    make_running,
    make_trade_off,
)
from e2e.browser.experiments.sweep import make_sweep
from e2e.browser.serving import Gallery
from e2e.browser.team import ALICE, CAROL, ELSEWHERE, LOGGED


class Site(StrEnum):
    """A dashboard to look at."""

    GALLERY = "gallery"
    """Archives of all made experiments."""
    TEAM = "team"
    """A cluster's, with a login and actions."""
    AWAY = "away"
    """A cluster's that is open to everybody, while the API server does not answer."""


@dataclass(frozen=True, slots=True)
class View:
    """One page.

    Attributes:
        name: What its pictures are called.
        path: Its address, without that of the dashboard.
        ready: A selector of what is there as soon as all is drawn, where scripts draw more than parallel coordinates.
        status: What the server answers.
        site: The dashboard whose page it is.
        token: Whose eyes see it; empty for somebody who has not logged in, or need not.
        is_odd: Whether it shows what is hard to lay out, and not what people come for: then each width is looked at
            in one theme.
    """

    name: str
    path: str
    ready: str = "main"
    status: int = 200
    site: Site = Site.GALLERY
    token: str = ""
    is_odd: bool = False


def _find(experiment: str, namespace: str = NAMESPACE) -> str:
    return f"experiments/{namespace}/{experiment}/"


def _list_odd(experiment: str, trials: Sequence[int] = ()) -> list[View]:
    """The pages of an experiment that is hard to lay out, and of two of its trials."""
    pages = dict(PAGES)
    if trials:
        names = [f"{experiment}-{index}" for index in trials]
        pages |= {"trial": f"trials/{names[0]}", "compare": "compare?" + "&".join(f"trial={name}" for name in names)}
    return [View(f"{name}-{experiment}", f"{_find(experiment)}{page}", is_odd=True) for name, page in pages.items()]


PAGES = {"overview": "", "search-space": "parameters", "timeline": "timeline", "replay": "replay", "trials": "trials"}
"""The pages that each experiment has, by what they are called."""
FINISHED, RUNNING, FAILING = _find("resnet"), _find("resnet-live"), _find("resnet-failing")
BRACKETS = _find("resnet-brackets")
POPULATION, TRADE_OFF, SWEEP = _find("resnet-population"), _find("edge-models"), _find("sweep-10k")
HOSTILE, WIDER, NEW = _find("hostile"), _find("wider"), _find("new")

VIEWS = (
    View("experiments", ""),
    View("overview", FINISHED),
    View("overview-running", RUNNING),
    View("overview-failing", FAILING),
    View("overview-population", POPULATION),
    View("overview-trade-off", TRADE_OFF),
    View("overview-10k", SWEEP),
    View("search-space", f"{FINISHED}parameters"),
    View("search-space-failing", f"{FAILING}parameters"),
    View("search-space-trade-off", f"{TRADE_OFF}parameters"),
    View("search-space-10k", f"{SWEEP}parameters"),
    View("timeline", f"{FINISHED}timeline"),
    View("timeline-running", f"{RUNNING}timeline"),
    View("timeline-by-node", f"{FAILING}timeline?by=node&size=25"),
    View("timeline-population", f"{POPULATION}timeline"),
    View("timeline-10k", f"{SWEEP}timeline"),
    View("timeline-refused-span", f"{FINISHED}timeline?from=yesterday", status=400, is_odd=True),
    View("brackets", f"{FINISHED}scheduler"),
    View("brackets-hyperband", f"{BRACKETS}scheduler"),
    View("brackets-10k", f"{SWEEP}scheduler", is_odd=True),
    View("family-tree", f"{POPULATION}scheduler"),
    View("trials", f"{FINISHED}trials"),
    View("trials-10k", f"{SWEEP}trials?sort=-accuracy"),
    View("trials-no-match", f"{FINISHED}trials?q=accuracy%3E2", is_odd=True),
    View("trials-refused-filter", f"{FINISHED}trials?q=nothing%3E1", status=400, is_odd=True),
    View("trial", f"{FINISHED}trials/resnet-0"),
    View("trial-failed", f"{FAILING}trials/resnet-failing-2"),
    View("trial-population", f"{POPULATION}trials/resnet-population-3"),
    View("trial-10k", f"{SWEEP}trials/sweep-10k-4", is_odd=True),
    View("compare", f"{FINISHED}compare?trial=resnet-0&trial=resnet-3&trial=resnet-10"),
    View("compare-10k", f"{SWEEP}compare?" + "&".join(f"trial=sweep-10k-{place}" for place in range(0, 200, 10))),
    View("replay", f"{FINISHED}replay?at=7200"),
    View("replay-running", f"{RUNNING}replay"),
    View("replay-population", f"{POPULATION}replay?at=3600"),
    View("replay-10k", f"{SWEEP}replay?at=36000"),
    View("not-there", f"{_find('nothing')}", status=404),
    *_list_odd("hostile", trials=(3, 4)),
    *_list_odd("wide", trials=(3, 4)),
    *_list_odd("new"),
    View("login", "login", site=Site.TEAM),
    View("cards", "", site=Site.TEAM, token=ALICE),
    View("cards-none", "", site=Site.TEAM, token=CAROL),
    View("overview-actions", RUNNING, site=Site.TEAM, token=ALICE),
    View("forbidden", _find("edge-models", ELSEWHERE), status=403, site=Site.TEAM, token=ALICE),
    View("deleted", NEW, ready=".deleted", status=410, site=Site.TEAM, token=ALICE),
    View("action-confirm", f"{RUNNING}actions/stop", site=Site.TEAM, token=ALICE),
    View("action-done", f"{RUNNING}actions/pause/done", site=Site.TEAM, token=ALICE),
    View("action-refused", f"{RUNNING}actions/resume", status=409, site=Site.TEAM, token=ALICE),
    View("log", f"{RUNNING}trials/{LOGGED}/log", site=Site.TEAM, token=ALICE),
    View("log-refused", f"{FAILING}trials/resnet-failing-1/log", site=Site.TEAM, token=ALICE, is_odd=True),
    View("pod-events", f"{RUNNING}trials/{LOGGED}/pod", site=Site.TEAM, token=ALICE),
    View("manifest", f"{RUNNING}trials/{LOGGED}/manifest", site=Site.TEAM, token=ALICE),
    View("results", f"{RUNNING}trials/{LOGGED}/results", site=Site.TEAM, token=ALICE),
    View("results-none", f"{FAILING}trials/resnet-failing-1/results", site=Site.TEAM, token=ALICE, is_odd=True),
    View("stored-logs", f"{RUNNING}trials/{LOGGED}/stored-logs", site=Site.TEAM, token=ALICE, is_odd=True),
    View("checkpoints", f"{RUNNING}trials/{LOGGED}/checkpoints", site=Site.TEAM, token=ALICE),
    View("outage", RUNNING, ready="#outage", site=Site.AWAY),
)


@cache
def open_gallery() -> Gallery:
    """What the views show."""
    makers = [make_finished, make_running, make_failing, make_population, make_hyperband, make_trade_off]
    # Each is simulated once for all processes: every other process begins at the end, and waits for none.
    is_odd = os.environ.get("PYTEST_XDIST_WORKER", "gw0")[-1] in "13579"
    for make in reversed(makers) if is_odd else makers:
        make()
    made = [make() for make in makers]
    made += [make_sweep(), make_hostile(), make_wide(), make_wide(500, "wider"), make_new()]
    return Gallery("namespace vision", [each.open_source() for each in made])
