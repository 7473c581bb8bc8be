"""Where thousands of trials are due at once, one decision takes some of them, and the next ones the others."""

from __future__ import annotations

import pytest

from podtune.cluster.decoders import decode_trial
from podtune.runner.actions import CreatePod, WriteTrialStatus
from podtune.runner.experiment.planner import TIMERS_AT_A_TIME
from podtune.runner.experiment_machine import ExperimentMachine
from podtune.runner.scheduling.slots import STARTS_AT_A_TIME
from podtune.runner.settings import RunnerSettings
from tests.unit.cluster.objects import experiment_record, trial_body

START = 1_700_000_000.0
MANY = 350


def machine(*, at_once: int) -> ExperimentMachine:
    """The machine of many trials that wait for a place."""
    search = {"algorithm": "random", "maxTrials": MANY, "seed": 7}
    experiment = experiment_record(search=search, maxConcurrentTrials=at_once)
    trials = [decode_trial(trial_body(index, uid=f"t-{index}")) for index in range(MANY)]
    return ExperimentMachine(experiment, trials, (), RunnerSettings())


def amounts(machine: ExperimentMachine, action: type, now: float) -> list[int]:
    """How many of these actions each decision asks for, as often as it wants to be asked again soon."""
    counts = []
    while True:
        plan = machine.decide(now)
        counts.append(sum(isinstance(asked, action) for asked in plan.actions))
        assert plan.wake > now
        if plan.wake > now + 0.1:
            return counts
        now = plan.wake


def test_trials_that_may_all_start_are_started_some_at_a_time() -> None:
    assert amounts(machine(at_once=MANY), CreatePod, START) == [100, 100, 100, 50]
    assert STARTS_AT_A_TIME == 100


def test_trials_that_have_waited_equally_long_say_so_some_at_a_time() -> None:
    waiting = machine(at_once=1)
    assert sum(amounts(waiting, WriteTrialStatus, START)) == 0
    written = amounts(waiting, WriteTrialStatus, START + RunnerSettings().starting_debounce)
    assert max(written) <= TIMERS_AT_A_TIME
    assert sum(written) == pytest.approx(MANY, abs=1)
