"""Whatever the weather, an experiment with warm pods ends as one with a pod for each attempt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podtune.runner.actions import CreateStoragePod, EmitEvent, Propose
from podtune.runner.attempts.classification import FailureClass
from podtune.simulation.faults import Fault
from tests.unit.runner.scenarios.test_properties import (
    ASHA,
    COUNTED,
    STEPS,
    assert_trials_end_as_in,
    bounded,
    faults,
    moves,
    run,
    start,
    weathers,
)
from tests.unit.runner.world import user_moves
from tests.unit.runner.world.made_anew import assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import FAIR, Simulation, Weather
from tests.unit.runner.world.weather import Faults, seeds

REUSE = {"reuse": True, "spec": {"containers": [{"name": "trial", "image": "none"}]}}


def warm(weather: Weather, program: Program, seed: int, **fields: Any) -> Simulation:
    failures = {"backoff": {"initial": "1s", "max": "4s"}, "maxFailures": 3, "maxDisruptions": 20}
    return start(weather, program, seed, **{"trialTemplate": REUSE, "failures": failures, **fields})


@bounded
@given(weathers, faults, seeds)
def test_every_trial_of_a_warm_pod_ends_as_if_it_had_its_own(weather: Weather, faults: Faults, seed: int) -> None:
    simulation = warm(weather, Program(steps=STEPS, checkpoint_every=1, faults=faults), seed).run()
    assert_trials_end_as_in(run(FAIR, Program(steps=STEPS), 0), simulation)


once_admitted = faults.map(
    lambda faults: {n: tuple(f for f in each if f.kind is not Fault.NOT_ADMITTED) for n, each in faults.items()}
)
"""A pod that is there already is not refused, and then the trial's other faults, which come after, don't strike."""


@bounded
@given(once_admitted, seeds)
def test_the_crash_of_a_warm_pod_is_that_of_one_trial(faults: Faults, seed: int) -> None:
    simulation = warm(FAIR, Program(steps=STEPS, checkpoint_every=1, faults=faults), seed).run()
    for index in range(5):
        expected = [COUNTED[fault.kind] for fault in faults.get(index, ())]
        seen = simulation.api.attempts[f"e-{index}"]
        assert seen.count(FailureClass.USER) == expected.count(FailureClass.USER)
        assert seen[-1] == FailureClass.COMPLETE


@bounded
@given(weathers, faults, seeds, st.floats(0.0, 20.0), st.sampled_from([{}, ASHA]))
def test_a_machine_of_warm_pods_made_anew_agrees(
    weather: Weather, faults: Faults, seed: int, moment: float, scheduler: dict[str, Any]
) -> None:
    program = Program(steps=STEPS, checkpoint_every=1, faults=faults)
    simulation = warm(weather, program, seed, scheduler=scheduler).run(moment)
    assert_made_anew_agrees(simulation, (EmitEvent, Propose, CreateStoragePod))


@bounded
@given(weathers, faults, seeds, moves, st.sampled_from([{}, ASHA]))
def test_trials_of_warm_pods_end_whatever_users_do(
    weather: Weather, faults: Faults, seed: int, moves: list[tuple[float, str, int]], scheduler: dict[str, Any]
) -> None:
    program = Program(steps=STEPS, checkpoint_every=1, faults=faults)
    simulation = warm(weather, program, seed, scheduler=scheduler)
    user_moves.assert_all_end(simulation, moves, trials=5)


@bounded
@given(weathers, seeds)
def test_warm_pods_are_few(weather: Weather, seed: int) -> None:
    """In weather in which no operator dies, as many pods as places are made, and each trial runs once."""
    weather = replace(weather, restarts=(), loses_reply=0.0)
    simulation = warm(weather, Program(steps=2, seconds=0.1), seed).run()
    assert sum(len(pod.served) for pod in simulation.pods.values()) == 5
    assert simulation.api.writes["create-pod"] <= 3
