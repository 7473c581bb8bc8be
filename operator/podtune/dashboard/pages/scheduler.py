"""What the scheduler did: the family tree of a population, or the brackets of successive halving."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from aiohttp import web

from podtune.dashboard.charts.brackets.blocks import BracketPlot, draw_brackets
from podtune.dashboard.charts.brackets.outcomes import BRACKET_WORDS
from podtune.dashboard.charts.lineage.exploits import POPULATION_SCHEDULERS, RecordedExploit
from podtune.dashboard.charts.lineage.schedule import Schedule, draw_schedule
from podtune.dashboard.charts.lineage.tree import (
    FamilyTree,
    describe_changes,
    describe_scores,
    draw_family_tree,
    write_arc_points,
)
from podtune.dashboard.pages.context import NotThere, find_rows, pick_row
from podtune.dashboard.pages.sharing import share_answer
from podtune.dashboard.rendering import render_json, render_page, render_svg
from podtune.dashboard.trial_rows import ExperimentRows

MOST_EXPLOITS = 200
"""So many exploits are in the table, the newest."""


@dataclass(frozen=True, slots=True)
class ListedExploit:
    """An exploit in the table."""

    exploit: RecordedExploit
    scores: str
    changes: str
    is_ancestral: bool


@share_answer
async def show_scheduler(request: web.Request) -> web.Response:
    """The page."""
    experiment = find_rows(request)
    chosen = find_chosen(request, experiment)
    tree = await asyncio.to_thread(draw_family_tree, experiment, chosen) if has_population(experiment) else None
    return render_page(
        request,
        "scheduler/page.html",
        experiment=experiment,
        has_population=has_population(experiment),
        chosen=chosen,
        tree=tree,
        schedule=find_schedule(tree),
        exploits=list_exploits(tree) if tree else (),
        brackets=await asyncio.to_thread(draw_brackets, experiment),
        outcomes=BRACKET_WORDS,
        query=f"trial={quote(chosen, safe='')}" if "trial" in request.query else "",
    )


async def send_scheduler_chart(request: web.Request) -> web.Response:
    """A chart of the page as a file.

    Raises:
        NotThere: The experiment has no such chart.
    """
    experiment, key = find_rows(request), request.match_info["chart"]
    plot: FamilyTree | Schedule | BracketPlot | None = None
    if key == "brackets":
        plot = draw_brackets(experiment)
    elif key in ("family", "schedule") and has_population(experiment):
        tree = await asyncio.to_thread(draw_family_tree, experiment, find_chosen(request, experiment))
        plot = tree if key == "family" else find_schedule(tree)
    if plot is None:
        raise NotThere(f"Experiment {experiment.view.name!r} has no chart {key!r} of its scheduler.")
    name = f"{experiment.view.name}-{key}.svg"
    return render_svg(request, f"scheduler/{key}.svg", name, plot=plot, experiment=experiment, outcomes=BRACKET_WORDS)


async def send_exploits(request: web.Request) -> web.Response:
    """The exploits that a pointer can find in the family tree."""
    experiment = find_rows(request)
    text = await asyncio.to_thread(write_arc_points, experiment, find_chosen(request, experiment))
    return render_json(text)


def has_population(experiment: ExperimentRows) -> bool:
    """Whether trials continue from each other's checkpoints."""
    return experiment.scheduler in POPULATION_SCHEDULERS


def find_chosen(request: web.Request, experiment: ExperimentRows) -> str:
    """The trial whose ancestry is marked: the one that the address names, or else the best.

    Raises:
        NotThere: The experiment has no such trial.
    """
    name = request.query.get("trial")
    if name is None:
        return experiment.best.name if experiment.best is not None else ""
    return pick_row(experiment, name).name


def find_schedule(tree: FamilyTree | None) -> Schedule | None:
    """The parameters along the lineage that a tree marks."""
    if tree is None or tree.lineage is None:
        return None
    return draw_schedule(tree.experiment, tree.lineage)


def list_exploits(tree: FamilyTree) -> Sequence[ListedExploit]:
    """The newest exploits, the newest first."""
    ancestral = {id(exploit) for exploit in tree.lineage.exploits} if tree.lineage else set()
    return [
        ListedExploit(exploit, describe_scores(exploit), describe_changes(exploit), id(exploit) in ancestral)
        for exploit in reversed(tree.exploits[-MOST_EXPLOITS:])
    ]
