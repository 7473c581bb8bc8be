"""The views that are opened, photographed and examined. A new one is one line here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from e2e.browser.experiments.odd import make_hostile, make_new, make_wide
from e2e.browser.experiments.simulated import (
    NAMESPACE,
    make_failing,
    make_finished,
    make_population,
    make_running,
    make_trade_off,
)
from e2e.browser.experiments.sweep import make_sweep
from e2e.browser.serving import Gallery


@dataclass(frozen=True, slots=True)
class View:
    """One page.

    Attributes:
        name: What its pictures are called.
        path: Its address, without that of the dashboard.
        ready: A selector of what is there as soon as all is drawn, where scripts draw more than parallel coordinates.
        status: What the server answers.
    """

    name: str
    path: str
    ready: str = "main"
    status: int = 200


def _find(experiment: str) -> str:
    return f"experiments/{NAMESPACE}/{experiment}/"


FINISHED, RUNNING, FAILING = _find("resnet"), _find("resnet-live"), _find("resnet-failing")
POPULATION, TRADE_OFF, SWEEP = _find("resnet-population"), _find("edge-models"), _find("sweep-10k")
HOSTILE, WIDE, WIDER, NEW = _find("hostile"), _find("wide"), _find("wider"), _find("new")

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
    View("search-space-10k", f"{SWEEP}parameters"),
    View("timeline", f"{FINISHED}timeline"),
    View("timeline-by-node", f"{FAILING}timeline?by=node&size=25"),
    View("timeline-population", f"{POPULATION}timeline"),
    View("timeline-10k", f"{SWEEP}timeline"),
    View("timeline-refused-span", f"{FINISHED}timeline?from=yesterday", status=400),
    View("brackets", f"{FINISHED}scheduler"),
    View("brackets-10k", f"{SWEEP}scheduler"),
    View("family-tree", f"{POPULATION}scheduler"),
    View("trials", f"{FINISHED}trials"),
    View("trials-10k", f"{SWEEP}trials?sort=-accuracy"),
    View("trials-no-match", f"{FINISHED}trials?q=accuracy%3E2"),
    View("trials-refused-filter", f"{FINISHED}trials?q=nothing%3E1", status=400),
    View("not-there", f"{_find('nothing')}", status=404),
    View("trial", f"{FINISHED}trials/resnet-0"),
    View("trial-failed", f"{FAILING}trials/resnet-failing-1"),
    View("trial-population", f"{POPULATION}trials/resnet-population-3"),
    View("trial-10k", f"{SWEEP}trials/sweep-10k-4"),
    View("compare", f"{FINISHED}compare?trial=resnet-0&trial=resnet-3&trial=resnet-10"),
    View("compare-10k", f"{SWEEP}compare?" + "&".join(f"trial=sweep-10k-{place}" for place in range(0, 200, 10))),
    View("replay", f"{FINISHED}replay?at=7200"),
    View("replay-running", f"{RUNNING}replay"),
    View("replay-population", f"{POPULATION}replay?at=3600"),
    View("replay-10k", f"{SWEEP}replay?at=36000"),
    View("replay-hostile", f"{HOSTILE}replay"),
    View("replay-wide", f"{WIDE}replay"),
    View("replay-new", f"{NEW}replay"),
    View("timeline-running", f"{RUNNING}timeline"),
    View("overview-hostile", HOSTILE),
    View("search-space-hostile", f"{HOSTILE}parameters"),
    View("timeline-hostile", f"{HOSTILE}timeline"),
    View("trials-hostile", f"{HOSTILE}trials"),
    View("trial-hostile", f"{HOSTILE}trials/hostile-3"),
    View("compare-hostile", f"{HOSTILE}compare?trial=hostile-3&trial=hostile-4"),
    View("overview-wide", WIDE),
    View("search-space-wide", f"{WIDE}parameters"),
    View("trials-wide", f"{WIDE}trials"),
    View("trial-wide", f"{WIDE}trials/wide-3"),
    View("compare-wide", f"{WIDE}compare?trial=wide-3&trial=wide-4"),
    View("timeline-wide", f"{WIDE}timeline"),
    View("timeline-new", f"{NEW}timeline"),
    View("overview-new", NEW),
    View("search-space-new", f"{NEW}parameters"),
    View("trials-new", f"{NEW}trials"),
)


@cache
def open_gallery() -> Gallery:
    """What the views show."""
    made = [make_finished(), make_running(), make_failing(), make_population(), make_trade_off(), make_sweep()]
    made += [make_hostile(), make_wide(), make_wide(500, "wider"), make_new()]
    return Gallery("namespace vision", [each.open_source() for each in made])
