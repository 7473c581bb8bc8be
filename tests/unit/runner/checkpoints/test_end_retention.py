"""What is kept of trials that are stopped."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from typing_extensions import override

from podtune.api.names import DecisionAction, TrialReason
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.trial import Checkpoint, Clone
from podtune.runner.checkpoints.end_retention import EndRetention
from podtune.runner.checkpoints.pins import CheckpointPins
from podtune.runner.scheduling.exploits import Exploits
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trials import Trials
from podtune.tuning.schedulers.fifo import Fifo
from tests.unit.runner.objects import PREFIX, make_machine, make_pod, make_spec, make_trial

STORE = {"bucket": "models"}
STOP, SCHEDULER = DecisionAction.STOP, TrialReason.STOPPED_BY_SCHEDULER
ALL = [1, 2, 3]


class PinningScheduler(Fifo):
    """Keeps trials for others to clone."""

    pinned: Collection[int] = ()

    @override
    def pinned_steps(self, trial: int) -> Collection[int]:
        return self.pinned


class Parts:
    """What is kept, and all that it depends on."""

    def __init__(self, keep: dict[str, Any], **search: Any) -> None:
        self.spec: ExperimentSpec = make_spec(
            checkpoints={"store": STORE, "keep": {"count": 3, **keep}},
            search={"algorithm": "random", "maxTrials": 9, **search},
        )
        self.scheduler, self.pins = PinningScheduler(), CheckpointPins()
        exploits = Exploits(self.scheduler, Trials("e"), self.pins)
        self.end = EndRetention("e", self.spec, self.scheduler, exploits, self.pins)

    def make(self, index: int, value: float = 0.5, state: str = "TERMINATED", reason: str = SCHEDULER) -> TrialMachine:
        kept = [
            {"step": step, "uri": f"{PREFIX}e-{index}/pod/{step}", "digest": "sha256:0", "metric": str(metric)}
            for step, metric in zip(ALL, (value, value, 0.0), strict=True)
        ]
        status: dict[str, Any] = {"state": state, "reason": reason, "checkpoints": kept, "checkpoint": kept[-1]}
        return make_machine(make_trial(index, best={"accuracy": str(value)}, **status), self.spec)

    def make_running(self, index: int, value: float) -> TrialMachine:
        trial = self.make(index, value, "RUNNING", "Training")
        trial.observe_pod(make_pod(trial))
        return trial

    def end_best(self) -> None:
        """The best trial has ended."""
        self.end.update(self.make(8, 0.9))


def steps(trial: TrialMachine) -> list[int]:
    latest = trial.status.checkpoint
    assert (latest.step if latest else 0) == max([0, *(kept.step for kept in trial.status.checkpoints)])
    return [kept.step for kept in trial.status.checkpoints]


@pytest.mark.parametrize(
    ("keep", "reason", "kept"),
    [
        ({}, SCHEDULER, ALL),
        ({"stopped": 0}, SCHEDULER, []),
        ({"stopped": 0}, TrialReason.NOT_PROMOTED, []),
        ({"stopped": 0}, TrialReason.STOPPED_BY_USER, []),
        ({"stopped": 0}, TrialReason.COMPLETED, ALL),
        ({"stopped": 0}, TrialReason.MAX_TIME_REACHED, ALL),
        ({"stopped": 0}, TrialReason.STOPPED_BY_CRITERION, ALL),
        ({"stopped": 0}, TrialReason.STOPPED_BY_EXPERIMENT, ALL),
        ({"stopped": 1}, SCHEDULER, [3]),
        ({"stopped": 1, "by": "best"}, SCHEDULER, [2]),
        ({"stopped": 5}, SCHEDULER, ALL),
        ({"stopped": 0, "ofExperiment": {"best": 2}}, SCHEDULER, [2]),
        ({"stopped": 1, "ofExperiment": {"best": 2}}, SCHEDULER, [2, 3]),
    ],
)
def test_what_stays_of_a_trial_that_is_not_the_best(keep: dict[str, Any], reason: TrialReason, kept: list[int]) -> None:
    parts = Parts(keep)
    parts.end_best()
    trial = parts.make(0, reason=reason)
    assert parts.end.drop_surplus(trial) == (kept != ALL)
    assert steps(trial) == kept


def test_the_best_trial_keeps_its_best_checkpoint_although_it_was_stopped() -> None:
    parts = Parts({"stopped": 0})
    trial = parts.make(0)
    assert parts.end.drop_surplus(trial)
    assert steps(trial) == [2]


def test_one_that_has_failed_keeps_what_it_may_be_retried_from() -> None:
    parts = Parts({"stopped": 0})
    trial = parts.make(0, state="ERROR", reason=TrialReason.STOPPED_BY_USER)
    assert not parts.end.drop_surplus(trial)


def test_one_that_loses_its_place_is_looked_at_and_lets_go() -> None:
    parts = Parts({"stopped": 0})
    trial = parts.make(0)
    parts.end.update(trial)
    assert parts.end.take_due() == []
    parts.end_best()
    assert parts.end.take_due() == ["e-0"]
    assert parts.end.review(trial)
    assert steps(trial) == []


@pytest.mark.parametrize(
    ("keep", "action", "reason", "discards"),
    [
        ({"stopped": 0}, STOP, SCHEDULER, True),
        ({"stopped": 0}, STOP, TrialReason.STOPPED_BY_USER, True),
        ({"stopped": 0}, STOP, TrialReason.STOPPED_BY_EXPERIMENT, False),
        ({"stopped": 0}, STOP, TrialReason.MAX_TIME_REACHED, False),
        ({"stopped": 0}, DecisionAction.PAUSE, SCHEDULER, False),
        ({"stopped": 0, "ofExperiment": {"best": 2}}, STOP, SCHEDULER, False),
        ({"stopped": 1}, STOP, SCHEDULER, False),
        ({}, STOP, SCHEDULER, False),
    ],
)
def test_which_stops_discard(keep: dict[str, Any], action: DecisionAction, reason: TrialReason, discards: bool) -> None:
    parts = Parts(keep)
    parts.end_best()
    assert parts.end.discards(parts.make_running(0, 0.5), action, reason) is discards


def test_one_that_would_be_the_best_stores_its_last_checkpoint() -> None:
    parts = Parts({"stopped": 0})
    parts.end_best()
    assert not parts.end.discards(parts.make_running(0, 0.95), STOP, SCHEDULER)


def test_what_others_need_stays_until_they_need_it_no_more() -> None:
    parts = Parts({"stopped": 0})
    parts.end_best()
    running, ended = parts.make_running(0, 0.1), parts.make(0, 0.1)
    cloning = make_machine(make_trial(1), parts.spec)
    cloning.set(clone=Clone(donor="e-0", checkpoint=Checkpoint(step=2, uri="s3://b/2", digest="sha256:0")))
    parts.pins.update(cloning)
    assert not parts.end.discards(running, STOP, SCHEDULER)
    assert not parts.end.drop_surplus(ended)
    assert parts.end.take_due() == []
    cloning.set(clone=None)
    parts.pins.update(cloning)
    assert parts.end.take_due() == ["e-0"]
    assert parts.end.review(ended)
    assert parts.end.discards(running, STOP, SCHEDULER)


def test_what_the_scheduler_may_have_cloned_stays() -> None:
    parts = Parts({"stopped": 0})
    parts.end_best()
    parts.scheduler.pinned = [2]
    assert not parts.end.discards(parts.make_running(0, 0.1), STOP, SCHEDULER)
    assert not parts.end.drop_surplus(parts.make(0, 0.1))


def test_what_another_trial_is_to_start_from_stays() -> None:
    source = {"parameters": {"learning_rate": 0.01}, "restoreFrom": {"trial": "e-0"}}
    parts = Parts({"stopped": 0}, initial=[{"parameters": {"learning_rate": 0.02}}, source])
    parts.end_best()
    assert not parts.end.discards(parts.make_running(0, 0.1), STOP, SCHEDULER)
    assert parts.end.discards(parts.make_running(1, 0.1), STOP, SCHEDULER)


def test_another_spec_holds_for_trials_that_have_ended_before() -> None:
    parts = Parts({})
    trial = parts.make(0)
    parts.end.drop_surplus(trial)
    assert not parts.end.review(trial)
    parts.end.take_spec(Parts({"stopped": 0}).spec)
    parts.end_best()
    assert parts.end.review(trial)
    assert steps(trial) == []
