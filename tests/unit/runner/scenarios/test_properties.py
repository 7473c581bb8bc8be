"""Whatever the weather, an experiment ends the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, ExperimentState, TrialState
from podtune.api.resources.trial import TrialStatus
from podtune.runner.actions import CreateStoragePod
from podtune.runner.attempts.classification import FailureClass
from podtune.runner.settings import RunnerSettings
from podtune.simulation.curves.functions import compute_rising_value
from podtune.simulation.faults import Fault, ScheduledFault
from podtune.trial.layout import TIME_THIS_ITER, TIME_TOTAL
from tests.unit.runner.world import user_moves
from tests.unit.runner.world.examples import draw
from tests.unit.runner.world.made_anew import MAY_REPEAT, assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import FAIR, STORE, Simulation, Weather, spec
from tests.unit.runner.world.weather import Faults, any_weather, seeds

BACKOFF = {"initial": "1s", "max": "4s"}
ASHA = {"asha": {"maxTime": 9, "gracePeriod": 1, "reductionFactor": 3}}
STEPS = 5
PATIENT = RunnerSettings(log_tries=100)
"""Logs are not given up: what is lost with them is another test's matter."""

COUNTED = {
    Fault.CRASH: FailureClass.USER,
    Fault.OOM: FailureClass.USER,
    Fault.DISK: FailureClass.USER,
    Fault.EVICTED: FailureClass.DISRUPTION,
    Fault.TRAPPED: FailureClass.DISRUPTION,
    Fault.DELETED: FailureClass.DISRUPTION,
    Fault.VANISHED: FailureClass.DISRUPTION,
    Fault.NOT_ADMITTED: FailureClass.INFRASTRUCTURE,
}
"""What each fault counts as. STUCK is left out: it ends by a decision."""

weathers = any_weather(lives=12.0)
any_fault = st.builds(ScheduledFault, st.sampled_from(list(COUNTED)), st.integers(0, STEPS - 1))
faults = st.dictionaries(st.integers(0, 4), st.lists(any_fault, max_size=3).map(tuple), max_size=5)

MOVES = ("Paused", "Running", "Stopped", "delete", "restart", "suspend", "go on")
MENDS = ("override", "template", "limits", "retry", "back", "ask")
moves = st.lists(
    st.tuples(
        st.floats(0.5, 25.0),
        st.sampled_from((*MOVES, *MENDS)),
        st.integers(0, 4),
    ),
    max_size=8,
).map(sorted)

bounded = settings(
    max_examples=draw(120), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


def run(weather: Weather, program: Program, seed: int, **fields: Any) -> Simulation:
    return start(weather, program, seed, **fields).run()


def start(
    weather: Weather, program: Program, seed: int, settings: RunnerSettings = PATIENT, **fields: Any
) -> Simulation:
    fields = {
        "checkpoints": {"store": STORE},
        "snapshot": {"period": "5s"},
        "failures": {"backoff": BACKOFF, "maxFailures": 3, "maxDisruptions": 8},
        "search": {"algorithm": "random", "maxTrials": 5, "seed": 7},
        **fields,
    }
    return Simulation(spec(**fields), program, weather, seed=seed, settings=settings)


def outcome(status: TrialStatus) -> tuple[object, ...]:
    """What must not depend on the weather."""
    return (
        status.state,
        status.reason,
        status.iteration,
        status.progress,
        _but_times(status.last_result),
        _but_times(status.best),
        status.scheduler,
        [(step, *values) for step, _, *values in status.curve.list_points()] if status.curve is not None else None,
    )


def _but_times(result: Mapping[str, str]) -> dict[str, str]:
    """A result without how long the program has trained, over all attempts."""
    return {name: value for name, value in result.items() if name not in (TIME_TOTAL, TIME_THIS_ITER)}


def confesses_loss(status: TrialStatus) -> bool:
    """Whether results were lost: a pod took them with it while no operator was there, and the status says so."""
    condition = find_condition(status.conditions, ConditionType.RESULTS_COMPLETE)
    return condition is not None and condition.status == "False"


def assert_trials_end_as_in(undisturbed: Simulation, simulation: Simulation) -> bool:
    """Each of five trials has ended as without a fault; returns False where one says that results were lost."""
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE
    for index in range(5):
        status = simulation.status(index)
        if confesses_loss(status):
            return False
        assert outcome(status) == outcome(undisturbed.status(index))
        assert status.last_result["accuracy"] == repr(compute_rising_value(index, STEPS))
    return True


@bounded
@given(weathers, faults, seeds)
def test_every_trial_ends_as_if_nothing_had_happened(weather: Weather, faults: Faults, seed: int) -> None:
    program = Program(steps=STEPS, checkpoint_every=1, faults=faults)
    simulation = run(weather, program, seed)
    undisturbed = run(FAIR, Program(steps=STEPS), 0)
    if not assert_trials_end_as_in(undisturbed, simulation):
        return
    best, expected = simulation.api.experiment.status.best, undisturbed.api.experiment.status.best
    assert (best.trial, best.value) == (expected.trial, expected.value)


@bounded
@given(weathers, faults, seeds)
def test_every_attempt_is_counted_once(weather: Weather, faults: Faults, seed: int) -> None:
    """While an operator looks: a pod that came and went while none did is not known of."""
    weather = replace(weather, restarts=())
    simulation = run(weather, Program(steps=STEPS, checkpoint_every=1, faults=faults), seed)
    for index in range(5):
        expected = [COUNTED[fault.kind] for fault in faults.get(index, ())]
        assert simulation.api.attempts[f"e-{index}"] == [*expected, FailureClass.COMPLETE]
        status = simulation.status(index)
        assert status.failures == expected.count(FailureClass.USER)
        assert status.disruptions == expected.count(FailureClass.DISRUPTION)
        assert status.infrastructure_failures == expected.count(FailureClass.INFRASTRUCTURE)


@bounded
@given(weathers, seeds, st.lists(st.floats(0.5, 8.0), max_size=4))
def test_asha_decides_the_same_from_the_same_order_of_results(
    weather: Weather, seed: int, restarts: list[float]
) -> None:
    """With one trial at a time there is one order, unless the operator dies before it has noted a trial's end."""
    weather = replace(weather, restarts=())
    fields: dict[str, Any] = {"scheduler": ASHA, "maxConcurrentTrials": 1}
    keeps_places = replace(PATIENT, creation_timeout=1e6)  # also while a pod can't be made
    simulation = start(weather, Program(steps=STEPS), seed, keeps_places, **fields)
    for moment in restarts:
        simulation.run(moment)
        simulation.run(until=lambda: simulation.ends_are_noted)
        simulation.restart()
    simulation.run()
    undisturbed = run(FAIR, Program(steps=STEPS), 0, **fields)
    for index in range(5):
        assert outcome(simulation.status(index)) == outcome(undisturbed.status(index))
        assert simulation.status(index).message == undisturbed.status(index).message


@bounded
@given(weathers, faults, seeds, st.integers(1, 4))
def test_asha_records_what_the_trials_reported(weather: Weather, faults: Faults, seed: int, concurrent: int) -> None:
    program = Program(steps=STEPS, checkpoint_every=2, faults=faults)
    simulation = run(weather, program, seed, scheduler=ASHA, maxConcurrentTrials=concurrent)
    for index in range(5):
        status = simulation.status(index)
        assert status.state is TrialState.TERMINATED
        if confesses_loss(status):
            continue
        for rung, value in status.scheduler["rungs"].items():
            assert value == repr(compute_rising_value(index, int(rung)))
        reached = [rung for rung in ("1", "3") if int(rung) <= status.iteration]
        assert sorted(status.scheduler["rungs"]) == reached


@bounded
@given(weathers, faults, seeds, st.floats(0.0, 20.0), st.sampled_from([{}, ASHA]))
def test_a_machine_made_anew_agrees(
    weather: Weather, faults: Faults, seed: int, moment: float, scheduler: dict[str, Any]
) -> None:
    """Wherever the operator has come to rest, a machine of the same objects plans the same."""
    program = Program(steps=STEPS, checkpoint_every=1, faults=faults)
    simulation = start(weather, program, seed, scheduler=scheduler).run(moment)
    # Of a storage pod it makes sure that nothing of it is missing.
    assert_made_anew_agrees(simulation, may_repeat=(*MAY_REPEAT, CreateStoragePod))


@bounded
@given(weathers, faults, seeds, moves, st.sampled_from([{}, ASHA]))
@example(  # a Trial is deleted while the end of another one's pod, which has vanished, is on its way to the status
    Weather(latency=0.1, watch_delay=4.0, fails=0.3, loses_reply=0.3, repeats=0.1, loses_report=0.1, restarts=(0.9,)),
    {0: (ScheduledFault(Fault.VANISHED, 2),)},
    392,
    [(20.625, "delete", 3)],
    ASHA,
)
def test_every_trial_ends_whatever_users_do(
    weather: Weather, faults: Faults, seed: int, moves: list[tuple[float, str, int]], scheduler: dict[str, Any]
) -> None:
    program = Program(steps=STEPS, checkpoint_every=1, faults=faults)
    simulation = start(weather, program, seed, scheduler=scheduler)
    user_moves.assert_all_end(simulation, moves, trials=5)
