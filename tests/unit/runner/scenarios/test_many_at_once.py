"""Where thousands of trials are due at once, one decision takes some of them, and the next ones the others."""

from __future__ import annotations

import pytest

from podtune.cluster.decoders import decode_trial
from podtune.runner.actions import Action, CreatePod, WriteTrialStatus
from podtune.runner.experiment import planner
from podtune.runner.experiment.planner import TIMERS_AT_A_TIME
from podtune.runner.experiment_machine import ExperimentMachine
from podtune.runner.scheduling.slots import STARTS_AT_A_TIME
from podtune.runner.settings import RunnerSettings
from podtune.runner.steps import do_all
from tests.unit.cluster.objects import experiment_record, trial_body

START = 1_700_000_000.0
MANY = 350


def machine(*, at_once: int) -> ExperimentMachine:
    """The machine of many trials that wait for a place."""
    search = {"algorithm": "random", "maxTrials": MANY, "seed": 7}
    experiment = experiment_record(search=search, maxConcurrentTrials=at_once)
    trials = [decode_trial(trial_body(index, uid=f"t-{index}")) for index in range(MANY)]
    machine = ExperimentMachine(experiment, RunnerSettings())
    do_all(machine.restore(trials, []))
    return machine


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


def actions_of(machine: ExperimentMachine, now: float) -> list[Action]:
    """All that is asked for, as often as the machine wants to be asked again soon."""
    asked: list[Action] = []
    while True:
        plan = machine.decide(now)
        asked += plan.actions
        if plan.wake > now + 0.1:
            return asked
        now = plan.wake


def test_trials_that_were_just_read_are_planned_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = machine(at_once=5)
    expected = [(type(action), action.key) for action in actions_of(at_once, START)]
    monkeypatch.setattr(planner, "CHANGED_AT_A_TIME", 100)
    waiting = machine(at_once=5)
    assert waiting.decide(START).actions == ()
    assert len(waiting._planner._dirty) == MANY - 100
    assert [(type(action), action.key) for action in actions_of(waiting, START)] == expected
