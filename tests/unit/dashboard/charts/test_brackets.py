"""Brackets of successive halving: what became of their trials at each rung."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.scheduler import HyperbandSettings
from podtune.cli.client.resources import TrialView, read_experiment, read_trial
from podtune.dashboard.charts.brackets.blocks import MOST_BLOCKS, draw_brackets
from podtune.dashboard.charts.brackets.outcomes import BracketOutcome, ShownBracket
from podtune.dashboard.charts.brackets.reading import read_brackets
from podtune.dashboard.charts.brackets.synchronous import plan_hyperband
from podtune.dashboard.trial_rows import ExperimentRows, ShownState, collect_rows
from podtune.simulation.cluster import ClusterModel
from podtune.simulation.curves.functions import CURVE_FUNCTIONS
from podtune.simulation.curves.synthetic import SyntheticCurves
from podtune.simulation.simulation import Simulation
from podtune.tuning.schedulers.hyperband import Hyperband
from tests.unit.dashboard.archives import (
    BASE,
    Manifest,
    done,
    experiment_body,
    make_source,
    read_page,
    serve,
    trial_body,
)
from tests.unit.tuning.manifests import experiment

PAGE = f"{BASE}/scheduler"
HYPERBAND = {"hyperband": {"maxTime": 9, "reductionFactor": 3}}
LINE = "0.8 by trial 2 of 5"


def at(*values: float, band: int = 0, halvings: int = 1, round_: int = 0, line: str = "") -> Manifest:
    """What HyperBand remembers of a trial with values at 3 and 9."""
    bracket = {"band": str(band), "s": str(halvings), "round": str(round_)}
    rungs = {milestone: repr(value) for milestone, value in zip(("3", "9"), values, strict=False)}
    return {"bracket": bracket} | ({"rungs": rungs} if rungs else {}) | ({"lines": {"3": line}} if line else {})


def running(**scheduler: Any) -> Manifest:
    return {"state": "RUNNING", "attempt": 1, "scheduler": scheduler}


def collect(trials: Sequence[Manifest], scheduler: Manifest | None = None) -> ExperimentRows:
    source = make_source(trials, experiment_body(scheduler=scheduler or HYPERBAND))
    (view,) = source.list_experiments()
    return collect_rows(view, source.list_trials(view.namespace, view.name))


def count(bracket: ShownBracket) -> list[dict[str, int]]:
    return [{str(outcome): number for outcome, number in rung.counts.items()} for rung in bracket.rungs]


def make_halved() -> list[Manifest]:
    """ShownBracket 0 is full; in bracket 1 trials 4 and 5 go on, 3 and 7 were stopped, 6 failed; then it goes on."""
    full = [trial_body(index, **done(0.5, scheduler=at(halvings=0, round_=0))) for index in range(3)]
    stopped = {"reason": "StoppedByScheduler", "scheduler": at(0.4, round_=1, line="0.8 by trial 5 of 4")}
    return [
        *full,
        trial_body(3, **done(0.4, **stopped)),
        trial_body(4, **running(**at(0.9, round_=1, line="0.8 by trial 5 of 4"))),
        trial_body(5, state="PAUSED", attempt=1, scheduler=at(0.8, 0.9, round_=1)),
        trial_body(6, state="ERROR", attempt=1, scheduler=at()),
        trial_body(7, **done(0.7, **stopped | {"scheduler": at(0.7)})),
        trial_body(8, state="RUNNING", attempt=1),
    ]


def test_a_bracket_counts_what_became_of_its_trials_at_each_rung() -> None:
    _, bracket, following = read_brackets(collect(make_halved()))
    assert (bracket.number, bracket.band, bracket.trials) == (1, 0, 5)
    assert count(bracket) == [{"promoted": 2, "stopped": 2, "failed": 1}, {"waiting": 1, "awaited": 1}]
    first, last = bracket.rungs
    assert (first.milestone, first.size, first.cutoff) == (3, 5, 0.8)
    assert first.share == 1
    assert (last.milestone, last.size, last.cutoff) == (9, 2, None)
    assert [row.name for row in last.awaited] == ["digits-4"]
    assert bracket.current is last
    assert (following.number, following.is_presumed) == (2, True)


async def test_the_page_says_what_a_rung_waits_for_with_a_table_and_a_file() -> None:
    async with serve(make_source(make_halved(), experiment_body(scheduler=HYPERBAND))) as client:
        page = " ".join((await read_page(client, PAGE)).split())
        picture = await read_page(client, f"{PAGE}/brackets.svg")
        overview = await read_page(client, f"{BASE}/")
    assert "Brackets</a>" in overview
    assert "Rung 9 waits for 1 trial on the way; 1 is paused there. <a href=" in page
    assert 'trials/digits-4">digits-4</a></p>' in page
    assert 'id="bracket-0-1"' in page
    assert "Trials without a decision are put here by their order." in page
    cells = "".join(
        f'<td class="n">{text}</td>' for text in ("3", "5", "5", "100%", "2", "0", "0", "2", "0", "1", "0.8")
    )
    assert cells in page
    assert "cutoff 0.8" in picture
    assert ET.fromstring(picture).tag.endswith("svg")


async def test_brackets_without_trials_and_without_a_record_are_explained() -> None:
    async with serve(make_source([], experiment_body(scheduler=HYPERBAND))) as client:
        assert "brackets fill with the first trials" in await read_page(client, PAGE)
        await read_page(client, f"{PAGE}/brackets.svg", status=404)
    several = {"asha": {"maxTime": 9, "gracePeriod": 1, "reductionFactor": 3, "brackets": 2}}
    trials = [trial_body(0, **running(bracket={"index": "1"})), trial_body(1, state="RUNNING", attempt=1)]
    async with serve(make_source(trials, experiment_body(scheduler=several))) as client:
        assert "1 trial is in no bracket on record" in " ".join((await read_page(client, PAGE)).split())


def test_equal_values_are_told_apart_as_hyperband_does_it() -> None:
    line = "0.8 by trial 1 of 3"
    trials = [
        trial_body(index, state="PAUSED", attempt=1, scheduler=at(value, round_=1, line=line))
        for index, value in enumerate((0.8, 0.8, 0.8, math.nan))
    ]
    (bracket,) = read_brackets(collect(trials))
    assert count(bracket)[0] == {"promoted": 2, "stopped": 2}


def test_low_values_are_promoted_where_they_are_good() -> None:
    body = experiment_body(scheduler=HYPERBAND, objective={"metric": "loss", "mode": "min"})
    line = "0.3 by trial 1 of 3"
    trials = [
        trial_body(index, state="PAUSED", attempt=1, scheduler=at(value, round_=1, line=line))
        for index, value in enumerate((0.1, 0.3, 0.5))
    ]
    source = make_source(trials, body)
    (view,) = source.list_experiments()
    (bracket,) = read_brackets(collect_rows(view, source.list_trials("team", "digits")))
    assert count(bracket)[0] == {"promoted": 2, "stopped": 1}
    assert bracket.rungs[0].cutoff == 0.3


def test_a_bracket_whose_rungs_wait_for_nobody_says_who_is_on_the_way_and_who_is_paused() -> None:
    scheduler = {"ashaPromotion": {"maxTime": 9, "gracePeriod": 1, "reductionFactor": 3}}
    at_first = {"rungs": {"1": "0.5"}, "arrivals": {"1": "0"}}
    trials = [
        trial_body(0, state="PAUSED", attempt=1, scheduler=at_first),
        trial_body(1, **running(**at_first, promoted={"from": "1"})),
        trial_body(2, state="RUNNING", attempt=1),
    ]
    plot = draw_brackets(collect(trials, scheduler))
    assert plot is not None
    (block,) = plot.blocks
    assert block.sentence == "2 on the way to a rung, 1 paused until promoted."
    assert [row.name for row in block.awaited] == ["digits-2", "digits-1"]
    over = draw_brackets(collect([trial_body(0, **done(0.5, scheduler=at_first, progress="9.0"))], scheduler))
    assert over is not None
    assert over.blocks[0].sentence == "All its trials are through."


def test_many_brackets_are_drawn_in_part_those_at_work_first() -> None:
    trials = [trial_body(0, **running(**at(halvings=1)))]
    trials += [trial_body(index, **done(0.5, scheduler=at(0.5, 0.6, band=index, round_=2))) for index in range(1, 40)]
    plot = draw_brackets(collect(trials))
    assert plot is not None
    assert (len(plot.blocks), plot.total) == (MOST_BLOCKS, 40)
    assert plot.blocks[0].bracket.band == 0
    assert plot.blocks[-1].title == "Bracket 1, band 40"


def test_settings_that_only_a_newer_operator_knows_leave_the_rungs_on_record() -> None:
    strange = {"hyperband": {"maxTime": 9, "fancy": True}}
    source = make_source([trial_body(0, **running(**at(0.5, round_=0)))], experiment_body(scheduler=HYPERBAND))
    (view,) = source.list_experiments()
    view.spec["scheduler"] = strange  # type: ignore[index]
    (bracket,) = read_brackets(collect_rows(view, source.list_trials("team", "digits")))
    assert [(rung.milestone, rung.size) for rung in bracket.rungs] == [(3, None)]


@pytest.mark.parametrize(("limit", "factor"), [(9, 3), (81, 3), (100, 3), (16, 2), (50, 4)])
def test_the_plan_of_a_bracket_is_the_schedulers(limit: int, factor: int) -> None:
    settings = HyperbandSettings(max_time=limit, reduction_factor=factor)
    scheduler = Hyperband(settings, Objective(metric="accuracy", mode="max"))
    for position in range(settings.sizes):
        if settings.compute_first_milestone(position):
            rounds = scheduler._make_bracket(position).rounds
            plan = plan_hyperband(settings, position)
            assert plan.milestones == tuple(float(round_.milestone) for round_ in rounds)
            assert plan.sizes == tuple(round_.size for round_ in rounds)


STATES: tuple[Manifest, ...] = (
    {"state": "RUNNING"},
    {"state": "PAUSED"},
    {"state": "ERROR"},
    {"state": "TERMINATED"},
    {},
)
REMEMBERED = st.fixed_dictionaries(
    {},
    optional={
        "bracket": st.fixed_dictionaries(
            {},
            optional={
                "band": st.sampled_from(["0", "1", "x"]),
                "s": st.sampled_from(["0", "1", "2"]),
                "round": st.sampled_from(["0", "1", "2", "3", "nan"]),
                "index": st.sampled_from(["0", "1", "7"]),
            },
        ),
        "rungs": st.dictionaries(st.sampled_from(["1", "3", "9", "?"]), st.sampled_from(["0.5", "0.7", "nan", "x"])),
        "lines": st.dictionaries(st.sampled_from(["1", "3"]), st.sampled_from([LINE, "nan by trial 1 of 2", "x"])),
        "promoted": st.fixed_dictionaries({"from": st.sampled_from(["1", "3"])}),
        "arrivals": st.just({"1": "0"}),
    },
)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.sampled_from(STATES), REMEMBERED, st.booleans()), max_size=12),
    st.sampled_from(
        [
            HYPERBAND,
            {"bohb": {"maxTime": 9}},
            {"asha": {"maxTime": 9, "reductionFactor": 3, "brackets": 2}},
            {"ashaPromotion": {"maxTime": 9, "reductionFactor": 3}},
        ]
    ),
)
def test_counts_of_a_bracket_add_up(drawn: list[tuple[Manifest, Manifest, bool]], scheduler: Manifest) -> None:
    trials = []
    for index, (state, remembered, is_early) in enumerate(drawn):
        reason = "StoppedByScheduler" if is_early else "Completed"
        trials.append(trial_body(index, **state, attempt=1, reason=reason, scheduler=remembered, progress="9.0"))
    experiment = collect(trials, scheduler)
    brackets = read_brackets(experiment)
    assert sum(bracket.trials for bracket in brackets) <= len(trials)
    for bracket in brackets:
        for rung in bracket.rungs:
            assert rung.counts.get(BracketOutcome.AWAITED, 0) == len(rung.awaited)
        entered = [rung.entered for rung in bracket.rungs]
        promoted = [rung.counts.get(BracketOutcome.PROMOTED, 0) for rung in bracket.rungs]
        assert entered[:1] == [bracket.trials][: len(entered)]
        assert entered[1:] == promoted[:-1]
    draw_brackets(experiment)


@settings(max_examples=30)
@given(st.lists(st.lists(REMEMBERED, min_size=1, max_size=6), min_size=2, max_size=3), st.booleans())
def test_after_changes_of_trials_brackets_are_as_from_scratch(changes: list[list[Manifest]], is_halving: bool) -> None:
    scheduler = HYPERBAND if is_halving else {"asha": {"maxTime": 9, "reductionFactor": 3, "brackets": 2}}
    view = read_experiment(experiment_body(scheduler=scheduler))
    trials: dict[int, TrialView] = {}
    kept: ExperimentRows | None = None
    for remembered in changes:
        trials |= {index: read_trial(trial_body(index, **running(**each))) for index, each in enumerate(remembered)}
        kept = collect_rows(view, list(trials.values()), kept)
        assert draw_brackets(kept) == draw_brackets(collect_rows(view, list(trials.values())))


SCHEDULERS = {
    "hyperband": {"maxTime": 27, "reductionFactor": 3},
    "bohb": {"maxTime": 27, "reductionFactor": 3},
    "asha": {"maxTime": 27, "reductionFactor": 3, "brackets": 2},
    "ashaPromotion": {"maxTime": 27, "reductionFactor": 3, "brackets": 2},
}


def simulate(name: str, steps: int) -> ExperimentRows:
    """An experiment as the operator's own code runs it, for some time or to its end."""
    spec = experiment(
        scheduler={name: SCHEDULERS[name]},
        search={"algorithm": "bohb" if name == "bohb" else "random", "maxTrials": 40, "seed": 3},
        maxConcurrentTrials=5,
        checkpoints={"store": {"bucket": "models"}},
    )
    curves = SyntheticCurves(
        CURVE_FUNCTIONS["sphere"], spec.parameters, spec.objective, iterations=30, seconds=60, seed=1
    )
    simulation = Simulation(spec, curves, ClusterModel(), name="digits", seed=3)
    for _ in range(steps):
        if simulation.is_over:
            break
        simulation.step()
    outcome = simulation.outcome
    body = experiment_body(**spec.model_dump(mode="json", by_alias=True, exclude_defaults=True))
    trials = [
        {
            "metadata": {"name": trial.name},
            "spec": trial.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True),
            "status": trial.status.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        }
        for trial in outcome.trials
    ]
    source = make_source(trials, body)
    (view,) = source.list_experiments()
    return collect_rows(view, source.list_trials("team", "digits"))


@pytest.mark.parametrize("steps", [400, 10**6])
@pytest.mark.parametrize("name", list(SCHEDULERS))
def test_brackets_hold_what_the_schedulers_have_decided(name: str, steps: int) -> None:
    rows = simulate(name, steps)
    brackets = read_brackets(rows)
    totals = {
        outcome: sum(rung.counts.get(outcome, 0) for bracket in brackets for rung in bracket.rungs)
        for outcome in BracketOutcome
    }
    assert sum(bracket.trials for bracket in brackets) == len(rows.rows) if steps > 400 else brackets
    assert totals[BracketOutcome.STOPPED] >= rows.counts[ShownState.STOPPED]
    assert totals[BracketOutcome.FINISHED] == rows.counts[ShownState.DONE]
    if steps > 400:
        assert totals[BracketOutcome.STOPPED] == rows.counts[ShownState.STOPPED] > 0
        assert totals[BracketOutcome.AWAITED] == totals[BracketOutcome.WAITING] == 0
        assert all(bracket.current is None for bracket in brackets)
    else:
        assert any(bracket.current is not None for bracket in brackets)
