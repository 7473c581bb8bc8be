"""A scheduler hears of each trial's end, whoever ends it: a bracket that waits for the trial would wait for ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from typing_extensions import override

from podtune.api.names import DesiredState, TrialReason, TrialState
from podtune.api.resources.experiment import ExperimentSpec
from podtune.simulation.faults import Fault, ScheduledFault
from podtune.tuning.schedulers.base import Metrics, StartDecision
from podtune.tuning.schedulers.fifo import Fifo
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, spec

ONE: dict[str, Any] = {"search": {"algorithm": "random", "maxTrials": 1, "seed": 7}, "maxConcurrentTrials": 1}
STEPS = 20


class Recorder(Fifo):
    """Lets all trials go on, and remembers which have ended."""

    def __init__(self, *, starts: bool = True) -> None:
        self.starts = starts
        self.completed: list[int] = []
        self.removed: list[int] = []

    @override
    def on_trial_complete(self, trial: int, metrics: Metrics) -> bool:
        self.completed.append(trial)
        return False

    @override
    def on_trial_remove(self, trial: int) -> None:
        self.removed.append(trial)

    @override
    def choose(self, waiting: Sequence[int]) -> StartDecision | None:
        return super().choose(waiting) if self.starts else None


def simulate(recorder: Recorder, program: Program, **fields: Any) -> Simulation:
    def make_scheduler(_: ExperimentSpec) -> Recorder:
        return recorder

    return Simulation(spec(**(ONE | fields)), program, make_scheduler=make_scheduler)


@pytest.mark.parametrize("paused", [False, True], ids=["pending", "paused"])
def test_a_trial_that_is_stopped_without_a_pod_is_removed(paused: bool) -> None:
    recorder = Recorder(starts=paused)
    simulation = simulate(recorder, Program(steps=10**6, checkpoint_every=1), checkpoints={"store": STORE})
    if paused:
        simulation.run(5.0)
        simulation.api.edit_trial("e-0", desired_state=DesiredState.PAUSED)
        simulation.run(until=lambda: simulation.status().state is TrialState.PAUSED)
    else:
        simulation.run(until=lambda: "e-0" in simulation.api.trials)
        simulation.run(5.0)
        assert not simulation.api.pods
    assert recorder.removed == []

    simulation.api.edit_trial("e-0", desired_state=DesiredState.STOPPED)
    simulation.run()

    assert simulation.status().reason == TrialReason.STOPPED_BY_USER
    assert recorder.removed == [0]
    assert recorder.completed == []


def test_a_trial_that_its_user_stops_while_it_backs_off_is_removed() -> None:
    recorder = Recorder()
    backoff = {"backoff": {"initial": "10m", "max": "10m"}}
    program = Program(steps=STEPS, faults={0: (ScheduledFault(Fault.CRASH, 2),)})
    simulation = simulate(recorder, program, failures=backoff)
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().failures == 1)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.STOPPED)
    simulation.run()
    assert recorder.removed == [0]
