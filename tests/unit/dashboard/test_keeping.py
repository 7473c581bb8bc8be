"""What is kept from one update to the next: it costs what has changed, and shows what a fresh start would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.cli.client.resources import ExperimentView, TrialView, read_experiment, read_trial
from podtune.dashboard import keeping
from podtune.dashboard.charts import spent_resources
from podtune.dashboard.charts.columns import write_columns
from podtune.dashboard.charts.contour import draw_contour
from podtune.dashboard.charts.failures import list_failures
from podtune.dashboard.charts.importance import bars, times
from podtune.dashboard.charts.importance.bars import measure_importance
from podtune.dashboard.charts.learning import curves
from podtune.dashboard.charts.learning.curves import draw_curves, write_curve_points
from podtune.dashboard.charts.learning.frame import CurveAxes
from podtune.dashboard.charts.learning.rungs import draw_rungs
from podtune.dashboard.charts.plots import draw_front, draw_progress, draw_slices, draw_sparkline
from podtune.dashboard.charts.replay.drawing import choose_axes, draw_map, draw_moment
from podtune.dashboard.charts.replay.moment import find_moment
from podtune.dashboard.charts.replay.tape import record_tape
from podtune.dashboard.charts.spending import draw_spending
from podtune.dashboard.charts.timeline.counts import draw_activities, draw_states
from podtune.dashboard.charts.timeline.purposes import draw_purposes
from podtune.dashboard.keeping import (
    LONGEST_IDLE,
    MOST_CHARTS,
    MOST_SUMMARIES,
    Keeper,
    keep_by_block,
    keep_by_choice,
    keep_by_trial,
    keep_by_trial_from,
    keep_chart,
    keep_summary,
)
from podtune.dashboard.pages.experiments import list_newest_decisions
from podtune.dashboard.progress.waiting import describe_waiting
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow, collect_rows
from podtune.tuning import importance as tuning_importance
from tests.unit.dashboard.archives import Manifest, experiment_body, trial_body

NOW = 1_767_268_800.0
FEW: dict[ModuleType, dict[str, int]] = {
    keeping: {"BLOCK": 3},
    spent_resources: {"BLOCK": 3},
    curves: {"BLOCK": 3},
    bars: {"LEAST_TRIALS": 3},
    times: {"LEAST_TIMED": 2},
    tuning_importance: {"LEAST_TRIALS": 3, "LEAST_BEST": 2, "LEAST_ACTIVE": 1},
}
"""Limits at which a handful of trials are as many as thousands."""
STATES = ("RUNNING", "PAUSED", "TERMINATED", "ERROR", "")
TIMES = [f"2026-01-01T{hour:02}:{minute:02}:00Z" for hour in (9, 10, 12) for minute in (0, 20, 40)]
TWO = {"metric": "accuracy", "mode": "max", "others": [{"metric": "loss", "mode": "min"}]}
VALUES = st.sampled_from(["0.1", "0.5", "0.51", "0.9", "0.95", "nan", ""])
LEDGER = st.lists(
    st.fixed_dictionaries(
        {
            "number": st.integers(1, 3),
            "time": st.sampled_from(TIMES),
            "action": st.sampled_from(["STOP", "PAUSE", "RETRY"]),
            "message": st.just("decided"),
            "inputs": st.fixed_dictionaries(
                {"rung": st.sampled_from(["1", "3", "9"]), "value": VALUES},
                optional={"cutoff": VALUES, "user": st.just("1")},
            ),
        }
    ),
    max_size=2,
)
CURVE = st.lists(st.floats(0, 1, width=16), min_size=1, max_size=4).map(
    lambda values: {
        "results": len(values),
        "every": 1,
        "steps": list(range(1, 1 + len(values))),
        "seconds": [60.0 * place for place in range(len(values))],
        "values": [values, [1 - value for value in values]],
    }
)
STATUS = st.fixed_dictionaries(
    {"state": st.sampled_from(STATES)},
    optional={
        "bestValue": VALUES,
        "best": st.fixed_dictionaries({"accuracy": VALUES, "loss": VALUES}),
        "reason": st.sampled_from(["StoppedByScheduler", "Completed"]),
        "startTime": st.sampled_from(TIMES),
        "completionTime": st.sampled_from(TIMES),
        "usage": st.builds(lambda hours: {"gpuSeconds": 3600 * hours, "trainingSeconds": 60}, st.integers(0, 5)),
        "parameters": st.builds(lambda lr: {"lr": lr, "optimizer": "sgd"}, st.sampled_from(["0.01", "0.2", "x"])),
        "curve": CURVE,
        "ledger": LEDGER,
    },
)
TRIALS = st.dictionaries(st.integers(0, 9), STATUS, max_size=7)


@pytest.fixture(scope="module", autouse=True)
def few() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module, limits in FEW.items():
            for name, limit in limits.items():
                patch.setattr(module, name, limit)
        yield


def read(statuses: dict[int, Manifest]) -> dict[int, TrialView]:
    return {index: read_trial(trial_body(index, **status)) for index, status in statuses.items()}


def order(trials: dict[int, TrialView]) -> tuple[TrialView, ...]:
    return tuple(trials[index] for index in sorted(trials))


def draw_all(experiment: ExperimentRows) -> list[Any]:
    """All that an experiment's pages show of its trials."""
    return [
        experiment.rows,
        experiment.axes,
        experiment.ranked,
        experiment.by_name,
        experiment.best,
        experiment.counts,
        experiment.last_moment,
        experiment.gpu_hours,
        experiment.unfinished,
        describe_waiting(experiment),
        draw_states(experiment, NOW),
        draw_activities(experiment),
        draw_purposes(experiment),
        *([measure_importance(experiment), draw_contour(experiment, 0, "lr", "units")] if has_axes(experiment) else ()),
        draw_progress(experiment, by_time=False),
        draw_progress(experiment, by_time=True),
        draw_slices(experiment),
        draw_front(experiment),
        draw_sparkline(experiment),
        draw_spending(experiment),
        draw_rungs(experiment),
        draw_curves(experiment, CurveAxes()),
        draw_curves(experiment, CurveAxes(objective=1, by_time=True)),
        write_curve_points(experiment, CurveAxes()),
        write_columns(experiment),
        list_failures(experiment),
        list_newest_decisions(experiment, 3),
        replay_all(experiment),
    ]


def has_axes(experiment: ExperimentRows) -> bool:
    return {"lr", "units"} <= {axis.name for axis in experiment.axes}


def replay_all(experiment: ExperimentRows) -> list[Any]:
    """What the replay shows: its record, and some moments of it."""
    tape = record_tape(experiment)
    if tape is None:
        return []
    moments = [find_moment(tape, second) for second in (0, tape.length // 2, tape.length)]
    drawn = [(moment.words, draw_moment(moment), draw_map(moment, *choose_axes(tape))) for moment in moments]
    return [tape.begin, tape.end, tape.made, tape.changes, tape.gains, tape.decisions, tape.tracks, tape.stops, drawn]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(TRIALS, st.sets(st.integers(0, 9), max_size=2)), min_size=2, max_size=4))
def test_after_any_changes_all_is_as_from_scratch(changes: list[tuple[dict[int, Manifest], set[int]]]) -> None:
    view = read_experiment(experiment_body(objective=TWO))
    trials: dict[int, TrialView] = {}
    kept: ExperimentRows | None = None
    for statuses, gone in changes:
        trials = {index: trial for index, trial in (trials | read(statuses)).items() if index not in gone}
        kept = collect_rows(view, order(trials), kept)
        assert draw_all(kept) == draw_all(collect_rows(view, order(trials)))


@settings(max_examples=30, deadline=None)
@given(TRIALS, TRIALS, st.sampled_from(["max", "min"]), st.booleans())
def test_after_a_change_of_the_experiment_all_is_as_from_scratch(
    before: dict[int, Manifest], after: dict[int, Manifest], mode: str, has_two: bool
) -> None:
    trials = read(before)
    kept = collect_rows(read_experiment(experiment_body(objective=TWO)), order(trials))
    draw_all(kept)
    others = TWO["others"] if has_two else []
    parameters = [{"name": "lr", "float": {"min": 0.001, "max": 0.5}}]
    objective = {"metric": "accuracy", "mode": mode, "others": others}
    view = read_experiment(experiment_body(objective=objective, parameters=parameters))
    trials |= read(after)
    if not has_two:
        kept, fresh = collect_rows(view, order(trials), kept), collect_rows(view, order(trials))
        assert (kept.rows, kept.axes, kept.ranked) == (fresh.rows, fresh.axes, fresh.ranked)
    else:
        assert draw_all(collect_rows(view, order(trials), kept)) == draw_all(collect_rows(view, order(trials)))


def test_of_very_many_curves_the_same_are_drawn_as_results_come_in(monkeypatch: Any) -> None:
    monkeypatch.setattr(curves, "FIRST", 5)
    monkeypatch.setattr(curves, "MOST_POINTS", 400)
    view, trials = make_many(600)
    before = collect_rows(view, trials)
    changed = (*trials[:300], replace(trials[300], status=replace_best(trials[300], "0.7")), *trials[301:])
    after = collect_rows(view, changed, before)
    drawn = [{curve.row.name for curve in draw(each)} for each in (before, after)]
    assert len(drawn[0] ^ drawn[1]) <= 2
    assert 380 <= 2 * len(drawn[0]) <= 400


def draw(experiment: ExperimentRows) -> Sequence[curves.DrawnCurve]:
    plot = draw_curves(experiment, CurveAxes())
    assert plot is not None
    return plot.curves


def make_many(count: int) -> tuple[ExperimentView, tuple[TrialView, ...]]:
    """Trials of two results each, the later the better."""
    columns = {"results": 2, "every": 1, "steps": [1, 2], "seconds": [1, 2], "values": [[0.1, 0.2]]}
    status: Manifest = {"state": "TERMINATED", "curve": columns}
    bodies = (trial_body(index, **status, bestValue=f"0.{index + 1000}") for index in range(count))
    return read_experiment(experiment_body()), tuple(map(read_trial, bodies))


def replace_best(trial: TrialView, value: str) -> Any:
    return trial.status.model_copy(update={"best_value": value})


def test_only_what_has_changed_is_read() -> None:
    read_names: list[str] = []

    @keep_by_trial
    def find_length(row: TrialRow, factor: int) -> int:
        read_names.append(row.name)
        return factor * len(row.name)

    view, trials = make_many(20)
    before = collect_rows(view, trials)
    assert find_length.read_some(before, [3, 4], 2) == [16, 16]
    assert read_names == ["digits-3", "digits-4"]
    assert list(find_length.read_all(before, 2)) == [16] * 10 + [18] * 10
    assert len(read_names) == 20
    later = collect_rows(view, (*trials[:7], replace(trials[7]), *trials[8:], read_trial(trial_body(20))), before)
    find_length.read_all(later, 2)
    assert sorted(read_names[20:]) == ["digits-20", "digits-7"]
    find_length.read_all(later, 3)
    assert len(read_names) == 22 + 21


def test_what_is_read_from_what_was_read_changes_with_it() -> None:
    @keep_by_trial
    def find_state(row: TrialRow) -> str:
        return row.view.state

    @keep_by_trial_from(find_state)
    def shout(state: str) -> str:
        return f"{state}!"

    view, trials = make_many(2)
    before = collect_rows(view, trials)
    assert list(shout.read_all(before)) == ["TERMINATED!", "TERMINATED!"]
    later = collect_rows(view, (trials[0], replace(trials[1], state="ERROR")), before)
    assert list(shout.read_all(later)) == ["TERMINATED!", "ERROR!"]
    assert list(shout.read_all(before)) == ["TERMINATED!", "TERMINATED!"]
    assert shout(later.rows[1]) == "ERROR!"


def test_of_blocks_only_those_with_changes_are_made_anew() -> None:
    made: list[Sequence[int]] = []

    @keep_by_trial
    def find_index(row: TrialRow, factor: int) -> int:
        return factor * row.view.index

    @keep_by_block(find_index)
    def add_up(indexes: Sequence[int]) -> int:
        made.append(indexes)
        return sum(indexes)

    @keep_by_block(find_index)
    def count(indexes: Sequence[int]) -> int:
        return len(indexes)

    view, trials = make_many(8)
    before = collect_rows(view, trials)
    assert [list(add_up.read_all(before, 1)), list(count.read_all(before, 1))] == [[3, 12, 13], [3, 3, 2]]
    made.clear()
    later = collect_rows(view, (*trials[:4], replace(trials[4]), *trials[5:], read_trial(trial_body(8))), before)
    assert list(add_up.read_all(later, 1)) == [3, 12, 21]
    assert made == [[3, 4, 5], [6, 7, 8]]
    assert list(add_up.read_all(before, 1)) == [3, 12, 13]
    assert list(add_up.read_all(later, 2)) == [6, 24, 42]


def test_of_chosen_trials_only_blocks_with_changes_or_another_choice_are_made_anew() -> None:
    made: list[Sequence[int]] = []

    @keep_by_trial
    def find_index(row: TrialRow) -> int:
        return row.view.index

    @keep_by_choice(find_index)
    def add_up(indexes: Sequence[int]) -> int:
        made.append(indexes)
        return sum(indexes)

    view, trials = make_many(8)
    before = collect_rows(view, trials)
    assert add_up.read_all(before, [(0, 1), (1,), ()]) == [1, 4, 0]
    made.clear()
    later = collect_rows(view, (*trials[:4], replace(trials[4]), *trials[5:]), before)
    assert add_up.read_all(later, [(0, 1), (1,), (0,)]) == [1, 4, 6]
    assert made == [[4], [6]]
    assert add_up.read_all(before, [(0, 1), (1,), ()]) == [1, 4, 0]


def test_a_summary_is_made_anew_only_when_what_it_is_made_of_has_changed() -> None:
    made: list[str] = []

    @keep_by_trial
    def find_state(row: TrialRow) -> str:
        return row.view.state

    @keep_by_block(find_state)
    def join(states: Sequence[str]) -> str:
        return " ".join(states)

    @keep_summary
    def shout(blocks: Sequence[str], mark: str) -> str:
        made.append(mark)
        return "".join(f"{block}{mark}" for block in blocks)

    view, trials = make_many(4)
    experiment = collect_rows(view, trials)
    first = shout(experiment, join.read_all(experiment), "!")
    assert first == "TERMINATED TERMINATED TERMINATED!TERMINATED!"
    same = collect_rows(view, (replace(trials[0]), *trials[1:]), experiment)
    assert shout(same, join.read_all(same), "!") is first
    assert made == ["!"]
    other = collect_rows(view, (replace(trials[0], state="ERROR"), *trials[1:]), same)
    assert shout(other, join.read_all(other), "!") == "ERROR TERMINATED TERMINATED!TERMINATED!"
    assert shout(same, join.read_all(same), "!") is first
    assert shout(other, join.read_all(other), "?") == "ERROR TERMINATED TERMINATED?TERMINATED?"
    assert made == ["!", "!", "?"]


def test_a_summary_that_nobody_needs_any_more_is_dropped() -> None:
    keeper, blocks = Keeper(), ["block"]
    kept = keeper.find_summary("scale", blocks, object)
    for _ in range(LONGEST_IDLE):
        keeper = keeper.pass_on([], 3)
    assert keeper.find_summary("scale", blocks, object) is kept
    for _ in range(LONGEST_IDLE + 1):
        keeper = keeper.pass_on([], 3)
    assert keeper.find_summary("scale", blocks, object) is not kept
    for number in range(MOST_SUMMARIES):
        keeper.find_summary(number, blocks, object)
    again = keeper.find_summary("scale", blocks, object)
    assert keeper.find_summary("scale", blocks, object) is again is not kept


def test_a_column_that_nobody_needs_any_more_is_dropped() -> None:
    keeper = Keeper()
    keeper.find_column("scale", 3).gaps.clear()
    for _ in range(LONGEST_IDLE):
        keeper = keeper.pass_on([], 3)
    assert not keeper.find_column("scale", 3).gaps
    for _ in range(LONGEST_IDLE + 1):
        keeper = keeper.pass_on([], 3)
    assert keeper.find_column("scale", 3).gaps == {0, 1, 2}


def test_a_chart_is_drawn_once_and_of_very_many_the_first_are_forgotten() -> None:
    drawn: list[int] = []

    @keep_chart
    def draw_number(experiment: ExperimentRows, number: int) -> int:
        drawn.append(number)
        return number

    view, trials = make_many(1)
    experiment = collect_rows(view, trials)
    assert [draw_number(experiment, 1), draw_number(experiment, 1)] == [1, 1]
    assert drawn == [1]
    for number in range(2, 3 + MOST_CHARTS):
        draw_number(experiment, number)
    draw_number(experiment, 2 + MOST_CHARTS)
    draw_number(experiment, 1)
    assert drawn == [*range(1, 3 + MOST_CHARTS), 1]
