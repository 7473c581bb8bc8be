"""Replay: what was known at a moment, as a page, as the parts of it that a script changes, and as a picture."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from podtune.dashboard.charts.replay.drawing import (
    CurveDrawing,
    MapDrawing,
    choose_axes,
    draw_map,
    draw_moment,
    list_axis_names,
    write_tape,
)
from podtune.dashboard.charts.replay.moment import Moment, find_moment
from podtune.dashboard.charts.replay.record import ProposalOrigin, find_source
from podtune.dashboard.charts.replay.tape import Tape, record_tape
from podtune.dashboard.pages.context import NotThere, find_rows
from podtune.dashboard.query_values import read_choice, read_whole_number
from podtune.dashboard.rendering import render_json, render_page, render_svg
from podtune.dashboard.trial_rows import ExperimentRows, ShownState

JUMP_WORDS = {"stop": "Stop", "exploit": "Exploit", "failure": "Failure", "best": "New best"}
SOURCE_WORDS = {
    ProposalOrigin.SEARCHER: "by the search algorithm",
    ProposalOrigin.INITIAL: "from search.initial",
    ProposalOrigin.PERSON: "by a person",
    ProposalOrigin.UNKNOWN: "source not on record",
}
SPEEDS = {"in 15 seconds": 15, "in 45 seconds": 45, "in 2 minutes": 120}
"""How long playing takes from the start to the end."""


@dataclass(frozen=True, slots=True)
class ReplayPart:
    """What the page shows.

    Attributes:
        curves: Learning curves up to the moment; None where no trial has a value.
        places: Where the search had looked; None without two parameters that differ.
        axes: What the map can have along its axes.
        pair: What it has.
        slots: How many trials run at once at most, as the manifest has it now.
        query: What restores the axes, without the moment.
    """

    moment: Moment
    curves: CurveDrawing | None
    places: MapDrawing | None
    axes: list[str]
    pair: tuple[str, str]
    slots: int | None
    query: str

    @property
    def used(self) -> int:
        """How many slots were used: a trial whose retry is missing in the record waited meanwhile."""
        running = self.moment.counts[ShownState.RUNNING]
        return min(running, self.slots) if self.slots is not None and self.moment.tape.missing else running

    def address(self, second: int | None = None, page: str = "replay") -> str:
        """The address of a moment, within the experiment; None is the latest one, which moves on."""
        query = "&".join(part for part in ("" if second is None else f"at={second}", self.query) if part)
        return f"{page}?{query}" if query else page


async def show_replay(request: web.Request) -> web.Response:
    """The page of a moment, or of the latest one where the address names none."""
    experiment = find_rows(request)
    tape = await asyncio.to_thread(record_tape, experiment)
    part = await asyncio.to_thread(_make_part, request, tape) if tape is not None else None
    return render_page(request, "replay/page.html", experiment=experiment, **_collect_words(part))


async def send_moment(request: web.Request) -> web.Response:
    """The parts of the page that differ from moment to moment, without what the browser draws by itself."""
    experiment, tape = await _find_tape(request)
    part = _make_part(request, tape, is_whole=False)
    return render_page(request, "replay/moment.html", experiment=experiment, **_collect_words(part))


async def send_tape(request: web.Request) -> web.Response:
    """The drawings of the whole record, to be revealed up to a moment."""
    _, tape = await _find_tape(request)
    pair = _read_pair(request, tape)
    text = await asyncio.to_thread(write_tape, tape, *pair)
    return render_json(text)


async def send_picture(request: web.Request) -> web.Response:
    """A moment as a picture: the curves, and where the search had looked."""
    experiment, tape = await _find_tape(request)
    part = await asyncio.to_thread(_make_part, request, tape)
    return render_svg(
        request, "replay/picture.svg", f"replay-{part.moment.second}.svg", experiment=experiment, **_collect_words(part)
    )


async def _find_tape(request: web.Request) -> tuple[ExperimentRows, Tape]:
    experiment = find_rows(request)
    tape = await asyncio.to_thread(record_tape, experiment)
    if tape is None:
        raise NotThere(f"Experiment {experiment.view.name!r} has nothing to replay: no trial has started.")
    return experiment, tape


def _make_part(request: web.Request, tape: Tape, *, is_whole: bool = True) -> ReplayPart:
    """What an address asks for.

    Args:
        request: The request.
        tape: The record.
        is_whole: Whether the drawings are needed, and not only what changes in them.
    """
    second = read_whole_number(request.query, "at", tape.length, least=0, meaning="seconds since the start")
    moment, pair = find_moment(tape, second), _read_pair(request, tape)
    has_map = bool(tape.experiment.axes) and pair[0] != pair[1]
    slots = tape.experiment.view.spec.get("maxConcurrentTrials")
    return ReplayPart(
        moment=moment,
        curves=draw_moment(moment, has_past=is_whole),
        places=draw_map(moment, *pair, has_past=is_whole) if has_map else None,
        axes=list_axis_names(tape),
        pair=pair,
        slots=slots if isinstance(slots, int) else None,
        query=urlencode([(name, request.query[name]) for name in ("x", "y") if name in request.query]),
    )


def _read_pair(request: web.Request, tape: Tape) -> tuple[str, str]:
    names = list_axis_names(tape)
    x, y = choose_axes(tape)
    return read_choice(request.query, "x", names, x), read_choice(request.query, "y", names, y)


def _collect_words(part: ReplayPart | None) -> Mapping[str, Any]:
    return {
        "part": part,
        "jump_words": JUMP_WORDS,
        "source_words": SOURCE_WORDS,
        "find_source": find_source,
        "speeds": SPEEDS,
    }
