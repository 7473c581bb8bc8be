"""The record of an experiment, held to what a simulated operator knew at the time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from podtune.api.resources.trial import TrialStatus
from podtune.cli.client.resources import read_experiment, read_trial
from podtune.dashboard.charts.replay.drawing import choose_axes, draw_map, draw_moment
from podtune.dashboard.charts.replay.moment import Moment, find_moment
from podtune.dashboard.charts.replay.tape import Tape, record_tape
from podtune.dashboard.trial_rows import ExperimentRows, ShownState, TrialRow, collect_rows
from podtune.runner.settings import RunnerSettings
from podtune.simulation.clock import START
from podtune.simulation.cluster import ClusterModel
from podtune.simulation.curves.functions import CURVE_FUNCTIONS
from podtune.simulation.curves.synthetic import SyntheticCurves
from podtune.simulation.simulation import Simulation
from podtune.simulation.trace import SimulationResult
from tests.unit.dashboard.archives import done, experiment_body, make_source, trial_body
from tests.unit.tuning.manifests import experiment

ROUGH = ClusterModel(pod_start=20, pod_stop=5, checkpoint=5, crashes_per_hour=0.8, disruptions_per_hour=0.5)
PROMPT = RunnerSettings(
    result_debounce=0,
    checkpoint_debounce=0,
    pending_debounce=0,
    starting_debounce=0,
    running_debounce=0,
    first_result_debounce=0,
)
SCHEDULERS: Mapping[str, dict[str, Any]] = {
    "fifo": {},
    "asha": {"maxTime": 27, "gracePeriod": 1, "reductionFactor": 3},
    "hyperband": {"maxTime": 27},
    "median": {"gracePeriod": 3},
    "pbt": {"interval": 4},
}
ENDED = (ShownState.DONE, ShownState.STOPPED, ShownState.FAILED)


@dataclass(frozen=True)
class Simulated:
    """How an experiment went, and what the Trials said at moments meanwhile."""

    rows: ExperimentRows
    tape: Tape
    meanwhile: Sequence[tuple[float, Mapping[str, TrialStatus]]]


def simulate(scheduler: str) -> Simulated:
    spec = experiment(
        search={"algorithm": "random", "maxTrials": 12, "seed": 3},
        maxConcurrentTrials=4,
        checkpoints={"store": {"bucket": "bucket"}},
        failures={"maxFailures": 100},
        scheduler={scheduler: SCHEDULERS[scheduler]},
    )
    curves = SyntheticCurves(
        CURVE_FUNCTIONS["sphere"], spec.parameters, spec.objective, iterations=27, seconds=60, seed=3
    )
    simulation = Simulation(spec, curves, ROUGH, name="digits", seed=5, settings=PROMPT)
    meanwhile, steps = [], 0
    while not simulation.is_over:
        simulation.step()
        steps += 1
        if steps % 40 == 0:
            outcome = simulation.outcome
            meanwhile.append((START + outcome.seconds, {trial.name: trial.status for trial in outcome.trials}))
    rows = read(simulation.outcome, spec.model_dump(mode="json", by_alias=True, exclude_defaults=True))
    tape = record_tape(rows)
    assert tape is not None
    return Simulated(rows, tape, meanwhile)


def read(outcome: SimulationResult, spec: dict[str, Any]) -> ExperimentRows:
    def dump(model: Any) -> Any:
        return model.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    trials = [
        {"metadata": {"name": trial.name}, "spec": dump(trial.spec), "status": dump(trial.status)}
        for trial in outcome.trials
    ]
    return collect(trials, experiment_body(status=dump(outcome.status), **spec))


def collect(trials: Sequence[dict[str, Any]], body: dict[str, Any] | None = None) -> ExperimentRows:
    source = make_source(trials, body or experiment_body())
    view = source.list_experiments()[0]
    return collect_rows(view, source.list_trials(view.namespace, view.name))


@pytest.fixture(scope="module", params=list(SCHEDULERS))
def simulated(request: pytest.FixtureRequest) -> Simulated:
    return simulate(request.param)


def find_before(tape: Tape, time: float) -> Moment:
    """What was known a second earlier: statuses have no parts of seconds."""
    return find_moment(tape, int(time - tape.begin) - 1)


def test_nothing_is_shown_before_the_operator_knew_it(simulated: Simulated) -> None:
    tape = simulated.tape
    assert len(simulated.meanwhile) > 10
    for time, statuses in simulated.meanwhile:
        moment = find_before(tape, time)
        values = {name: float(status.best_value) for name, status in statuses.items() if status.best_value}
        assert moment.gain is None or moment.gain.value <= allow_rounding(values[moment.gain.row.name])
        for row in simulated.rows.rows:
            known = [value for at, _, value in find_results(tape, row) if at <= moment.time]
            assert not known or max(known) <= allow_rounding(values[row.name]), (row.name, time)
        for decision in tape.decisions[: moment.taken]:
            assert decision.entry.number <= statuses[decision.row.name].ledger[-1].number
        ended = sum(status.completion_time is not None for status in statuses.values())
        assert sum(moment.counts[state] for state in ENDED) <= ended
        assert moment.made <= len(statuses)


def allow_rounding(value: float) -> float:
    """Curves have five digits."""
    return value + 1e-4 * abs(value)


@pytest.mark.parametrize("simulated", [name for name in SCHEDULERS if name != "pbt"], indirect=True)
def test_iterations_are_shown_soon_after_they_were_known(simulated: Simulated) -> None:
    """A result of a trial that runs on for long would otherwise be shown at its end only."""
    tape = simulated.tape
    late = []
    for time, statuses in simulated.meanwhile:
        for name, status in statuses.items():
            steps = [
                step for at, step, _ in find_results(tape, simulated.rows.by_name[name]) if at <= time - 1 and step
            ]
            late.append(status.iteration - max(steps, default=0))
            assert late[-1] >= 0, (name, time)
    assert sum(late) / len(late) < 2.5


def find_results(tape: Tape, row: TrialRow) -> Sequence[tuple[float, int | None, float]]:
    track = tape.by_name.get(row.name)
    return track.results if track is not None else ()


def test_at_its_end_it_has_the_numbers_of_the_overview(simulated: Simulated) -> None:
    rows, moment = simulated.rows, find_moment(simulated.tape, simulated.tape.length)
    assert moment.is_end
    assert moment.made == len(rows.rows) == 12
    assert {state: count for state, count in moment.counts.items() if count} == dict(rows.counts)
    assert moment.gain is not None
    assert rows.best is not None
    assert (moment.gain.row, moment.gain.value) == (rows.best, rows.best.value)
    assert rows.view.status.best is not None
    assert repr(moment.gain.value) == rows.view.status.best.value
    assert moment.taken == sum(len(row.view.status.ledger) for row in rows.rows)


def cut(tape: Tape, time: float) -> Tape:
    """The record without all that is later."""
    return replace(
        tape,
        made=[pair for pair in tape.made if pair[0] <= time],
        changes=[change for change in tape.changes if change.time <= time],
        gains=[gain for gain in tape.gains if gain.time <= time],
        decisions=[decision for decision in tape.decisions if decision.time <= time],
        tracks=[
            replace(track, results=[each for each in track.results if each[0] <= time])
            for track in tape.tracks
            if track.results[0][0] <= time
        ],
    )


def test_a_moment_depends_on_earlier_facts_alone(simulated: Simulated) -> None:
    tape = simulated.tape
    for second in range(0, tape.length, tape.length // 25):
        moment, alone = find_moment(tape, second), find_moment(cut(tape, tape.begin + second), second)
        assert describe(moment) == describe(alone), second


def describe(moment: Moment) -> tuple[Any, ...]:
    lines = draw_moment(moment)
    places = draw_map(moment, *choose_axes(moment.tape))
    return (
        moment.words,
        dict(moment.counts),
        [(then.row, then.started, then.step, then.value) for then in moment.running],
        list(moment.gains),
        list(moment.decisions),
        list(moment.newest),
        lines is not None and bool(lines.best),
        places,
    )


def ledger(number: int, time: str, action: str, step: int, **inputs: str) -> dict[str, Any]:
    clock = f"2026-01-01T{time}Z"
    return {"number": number, "time": clock, "attempt": 1, "action": action, "step": step, "inputs": inputs}


def curve(*points: tuple[int, float, float]) -> dict[str, Any]:
    steps, seconds, values = zip(*points, strict=True)
    return {"results": len(steps), "every": 1, "steps": steps, "seconds": seconds, "values": [values]}


def list_times(*trials: dict[str, Any]) -> list[tuple[int, int | None]]:
    """When results of the first trial were known, in seconds after ten o'clock."""
    tape = record_tape(collect(trials))
    assert tape is not None
    return [(round(time - 1_767_261_600), step) for time, step, _ in tape.tracks[0].results if step]


def test_a_result_counts_from_when_it_must_have_arrived() -> None:
    points = curve((1, 60, 0.5), (2, 120, 0.6), (3, 180, 0.7), (4, 240, 0.8))
    paused = [ledger(1, "10:10:00", "PAUSE", 2), ledger(2, "10:20:00", "PROMOTE", 2)]
    trial = trial_body(0, **done(0.8, curve=points, ledger=paused, completionTime="2026-01-01T10:30:00Z"))
    # Paused from 600 to 1200: what came before the pause is reckoned from it, what came after it from the end.
    assert list_times(trial) == [(540, 1), (600, 2), (1740, 3), (1800, 4)]


def test_training_time_is_not_trusted_across_a_clone() -> None:
    points = curve((1, 60, 0.5), (2, 120, 0.6), (9, 900, 0.7), (10, 960, 0.8))
    exploit = [ledger(1, "10:10:00", "EXPLOIT", 2)]
    trial = trial_body(0, **done(0.8, curve=points, ledger=exploit, completionTime="2026-01-01T10:20:00Z"))
    assert list_times(trial) == [(540, 1), (600, 2), (1140, 9), (1200, 10)]
    # Nor where one may have been that is in the bucket alone: but from one iteration to the next there is none.
    hidden = trial_body(
        0, **done(0.8, curve=points, ledger=[ledger(9, "10:20:00", "CONTINUE", 10)], completionTime=None)
    )
    cloned = trial_body(1, **done(0.4, ledger=exploit))
    assert list_times(hidden, cloned) == [(1080, 1), (1140, 2), (1140, 9), (1200, 10)]


def test_a_retried_trial_runs_again_from_its_next_sign_of_life() -> None:
    points = curve((1, 60, 0.5), (2, 120, 0.6), (3, 180, 0.7))
    retry = [ledger(1, "10:05:00", "RETRY", 1, user="1"), ledger(2, "10:20:00", "STOP", 3)]
    tape = record_tape(collect([trial_body(0, **done(0.7, curve=points, ledger=retry))]))
    assert tape is not None
    states = [(round(change.time - tape.begin), change.progress) for change in tape.changes]
    assert states == [
        (0, ShownState.RUNNING),
        (300, ShownState.PENDING),
        (1140, ShownState.RUNNING),
        (5400, ShownState.DONE),
    ]
    assert tape.stops["failure"] == [300]
    assert tape.stops["stop"] == [1200]


def test_a_pod_that_was_taken_away_is_no_failure_to_go_to() -> None:
    entries = [
        ledger(1, "10:05:00", "RETRY", 1, disruption="1"),
        ledger(2, "10:10:00", "RETRY", 1),  # as somebody asked for it
        ledger(3, "10:15:00", "RETRY", 2, infrastructure="1"),
        ledger(4, "10:20:00", "FAIL", 3, disruption="9"),
    ]
    tape = record_tape(collect([trial_body(0, **done(0.7, ledger=entries))]))
    assert tape is not None
    assert tape.stops["failure"] == [900, 1200]


def test_a_trial_that_never_started_is_there_at_the_end_alone() -> None:
    tape = record_tape(collect([trial_body(0, **done(0.5)), trial_body(1)]))
    assert tape is not None
    assert find_moment(tape, tape.length - 1).made == 1
    assert find_moment(tape, tape.length).counts[ShownState.PENDING] == 1


def test_in_a_cluster_a_trial_is_there_from_its_creation_on() -> None:
    view = read_experiment(experiment_body())
    bodies = [trial_body(0, **done(0.5)), trial_body(1, **done(0.6, startTime="2026-01-01T10:30:00Z")), trial_body(2)]
    times = ["2026-01-01T12:00:00Z", "2026-01-01T10:10:00Z", "2026-01-01T11:40:00Z"]
    for body, time in zip(bodies, times, strict=True):
        body["metadata"]["creationTimestamp"] = time
    tape = record_tape(collect_rows(view, [read_trial(body) for body in bodies]))
    assert tape is not None
    # The first was imported after it had ended: that says nothing of its beginning.
    assert [round(time - tape.begin) for time, _ in tape.made] == [0, 600, 6000]
    assert find_moment(tape, 1200).counts[ShownState.PENDING] == 1
    assert find_moment(tape, 1800).counts[ShownState.PENDING] == 0
    assert tape.length == 6000


def test_without_any_start_there_is_no_record() -> None:
    assert record_tape(collect([trial_body(0)])) is None
    assert record_tape(collect([])) is None


def test_with_an_evaluation_a_value_counts_from_the_end_on() -> None:
    body = experiment_body(evaluation={"trainingObjective": {"metric": "loss", "mode": "min"}})
    points = curve((1, 60, 2.5), (2, 120, 1.5))
    tape = record_tape(collect([trial_body(0, **done(0.7, curve=points))], body))
    assert tape is not None
    assert [(gain.value, round(gain.time - tape.begin)) for gain in tape.gains] == [(0.7, 5400)]
