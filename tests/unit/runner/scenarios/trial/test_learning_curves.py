"""The learning curves that Trials have in the end, whatever happens to operator and pods on the way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podtune.api.names import ConditionType, DesiredState, TrialReason, TrialState
from podtune.api.resources.trial import TrialStatus
from podtune.api.resources.trial_requests import RetryRequest
from podtune.runner.trial import results
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.scenarios.scheduling.test_exploits import cloning
from tests.unit.runner.scenarios.scheduling.test_paused_trials import one_paused, paused_first
from tests.unit.runner.scenarios.trial.test_evaluations import EVALUATION
from tests.unit.runner.world.examples import draw
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import FAIR, STORE, Simulation, Weather, spec
from tests.unit.runner.world.weather import Faults, any_weather, seeds

ONE: dict[str, Any] = {
    "search": {"algorithm": "random", "maxTrials": 1, "seed": 7},
    "checkpoints": {"store": STORE},
    "failures": {"backoff": {"initial": "1s", "max": "1s"}, "maxFailures": 9, "maxDisruptions": 9},
}
WARM: dict[str, Any] = {"reuse": True, "spec": {"containers": [{"name": "trial", "image": "none"}]}}
ASHA = {"asha": {"maxTime": 27, "gracePeriod": 1, "reductionFactor": 3}}
HYPERBAND = {"hyperband": {"maxTime": 9, "reductionFactor": 3}}


def measure(trial: int, step: int) -> float:
    return round(1.0 - 1.0 / (step + 1 + trial), 4)


def make(program: Program | None = None, weather: Weather = FAIR, seed: int = 0, **fields: Any) -> Simulation:
    program = program or Program(steps=6, checkpoint_every=2, metric=measure)
    return Simulation(spec(**{**ONE, **fields}), program, weather, seed=seed)


def list_points(status: TrialStatus) -> list[tuple[int, float]]:
    """Steps and values of a trial's curve."""
    assert status.curve is not None
    return [(int(step), value) for step, _, value in status.curve.list_points()]


def expect(last: int, trial: int = 0, first: int = 1) -> list[tuple[int, float]]:
    return [(step, measure(trial, step)) for step in range(first, last + 1)]


def assert_is_complete(simulation: Simulation, trial: int = 0) -> None:
    """The API server has every result that the trial counts."""
    status = simulation.status(trial)
    assert list_points(status) == expect(status.iteration, trial)


def test_a_trial_that_has_ended_has_its_last_result() -> None:
    simulation = make().run()
    assert simulation.status().state is TrialState.TERMINATED
    assert list_points(simulation.status()) == expect(6)


@pytest.mark.parametrize("scheduler", [ASHA, HYPERBAND])
def test_a_trial_that_was_stopped_or_paused_has_the_result_that_decided(scheduler: dict[str, Any]) -> None:
    search = {"algorithm": "random", "maxTrials": 9, "seed": 7}
    program = Program(steps=27, checkpoint_every=1, metric=measure)
    simulation = make(program, search=search, scheduler=scheduler).run()
    stopped = [status for index in range(9) if (status := simulation.status(index)).decision is not None]
    assert stopped
    for index in range(9):
        assert_is_complete(simulation, index)
    for status in stopped:
        assert list_points(status)[-1][0] == status.decision.step


def test_a_trial_that_its_user_pauses_has_all_results_up_to_then() -> None:
    simulation = make(Program(steps=20, checkpoint_every=1, metric=measure)).run(5.3)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.PAUSED)
    simulation.run(until=lambda: simulation.status().state is TrialState.PAUSED)
    assert_is_complete(simulation)
    paused = simulation.status().iteration
    simulation.api.edit_trial("e-0", desired_state=DesiredState.RUNNING)
    simulation.run()
    assert paused < 20
    assert list_points(simulation.status()) == expect(20)


def test_an_attempt_that_fails_leaves_all_its_results_and_the_next_one_doubles_none() -> None:
    crashed = {0: (ScheduledFault(Fault.CRASH, 5), ScheduledFault(Fault.VANISHED, 5))}
    simulation = make(Program(steps=8, checkpoint_every=3, metric=measure, faults=crashed))
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().failures == 1)
    assert list_points(simulation.status()) == expect(5)
    simulation.run()
    assert list_points(simulation.status()) == expect(8)


def test_a_trial_that_goes_back_to_an_earlier_checkpoint_keeps_what_it_had_shown() -> None:
    program = Program(steps=9, checkpoint_every=1, metric=measure)
    simulation = make(program, checkpoints={"store": STORE, "keep": {"count": 8}}).run(6.4)
    simulation.api.edit_trial("e-0", retry=RetryRequest(attempt=1, step=2))
    simulation.run()
    assert simulation.pods["e-0-2"].restored.step == 2
    assert list_points(simulation.status()) == expect(9)


def test_a_clone_shows_its_own_results_and_then_those_from_its_donors_iteration_on() -> None:
    simulation, scheduler = cloning(step=7)
    simulation.run()
    shown = [step for trial, step in scheduler.results if trial == 1]
    assert [step for step, _ in list_points(simulation.status(1))] == shown == [*range(1, 8), *range(7, 13)]


def test_results_that_a_pause_for_the_scheduler_waits_for_are_shown() -> None:
    """They come before the checkpoint that the trial goes on from, so they won't come again."""
    simulation, scheduler = one_paused(Program(steps=6, metric=measure))
    assert simulation.status().checkpoint.step > 2
    assert_is_complete(simulation)
    scheduler.pick = paused_first
    simulation.run()
    assert list_points(simulation.status()) == expect(6)


def test_training_is_shown_by_its_own_objective_and_the_evaluation_has_no_part_in_it() -> None:
    program = Program(steps=4, checkpoint_every=1, further=lambda trial, step: {"loss": step / 8})
    simulation = make(program, evaluation=EVALUATION).run()
    assert simulation.status().evaluation is not None
    assert [step for step, _ in list_points(simulation.status())] == [1, 2, 3, 4]


def test_without_an_objective_of_training_there_is_nothing_to_show_before_the_evaluation() -> None:
    evaluation = {"template": EVALUATION["template"]}
    simulation = make(Program(steps=4, checkpoint_every=1), evaluation=evaluation).run()
    status = simulation.status()
    assert (status.reason, status.curve) == (TrialReason.COMPLETED, None)
    assert status.best_value


def test_several_objectives_are_shown_in_the_manifests_order() -> None:
    objective = {"metric": "accuracy", "mode": "max", "others": [{"metric": "latency", "mode": "min"}]}
    program = Program(steps=3, metric=measure, further=lambda trial, step: {"latency": step / 4})
    search = {"algorithm": "random", "maxTrials": 1}
    curve = make(program, objective=objective, search=search).run().status().curve
    assert curve is not None
    assert curve.to_arrays()["values"] == [[measure(0, step) for step in (1, 2, 3)], [0.25, 0.5, 0.75]]


def test_trials_that_share_a_warm_pod_have_a_curve_each() -> None:
    search = {"algorithm": "random", "maxTrials": 3, "seed": 7}
    simulation = make(search=search, trialTemplate=WARM, maxConcurrentTrials=1).run()
    for index in range(3):
        assert list_points(simulation.status(index)) == expect(6, index)


# Whatever happens

faults = st.lists(
    st.builds(
        ScheduledFault,
        st.sampled_from([Fault.CRASH, Fault.EVICTED, Fault.DELETED, Fault.OOM, Fault.VANISHED]),
        st.integers(0, 5),
    ),
    max_size=3,
).map(lambda struck: {0: tuple(struck)})
bounded = settings(max_examples=draw(60), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@bounded
@given(any_weather(lives=12.0), faults, seeds)
def test_it_costs_no_write(weather: Weather, faults: Faults, seed: int) -> None:
    program = Program(steps=6, checkpoint_every=2, metric=measure, faults=faults)
    shown = make(program, weather, seed).run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(results, "extend_curve", lambda status, result, metrics: None)
        bare = make(program, weather, seed).run()
    assert bare.status().curve is None
    assert shown.api.writes == bare.api.writes
    assert shown.status().curve is not None
    assert shown.status().model_copy(update={"curve": None}) == bare.status()


@bounded
@given(any_weather(lives=12.0), faults, seeds)
def test_an_operator_that_knows_the_objects_alone_has_the_same_curve(
    weather: Weather, faults: Faults, seed: int
) -> None:
    """Each write shows the beginning of one and the same curve."""
    simulation = make(Program(steps=6, checkpoint_every=2, metric=measure, faults=faults), weather, seed).run()
    if any(condition.type == ConditionType.RESULTS_COMPLETE for condition in simulation.status().conditions):
        return  # a pod took results with it while no operator was there
    curves = [action.status for action in simulation.writes_of("e-0")]
    shown = [list_points(status) if status.curve is not None else [] for status in curves]
    assert all(points == expect(len(points)) for points in shown)
    assert list_points(simulation.status()) == expect(6)
