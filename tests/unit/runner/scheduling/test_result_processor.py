"""What stopper and scheduler say to a result, and what the Trial then records."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.names import DecisionAction, TrialReason, TrialState
from podtune.api.resources.trial import AwaitedExploit, Checkpoint
from podtune.protocol.messages import Result
from podtune.runner.scheduling.result_processor import Begin
from podtune.runner.settings import RunnerSettings
from podtune.runner.timestamps import format_rfc3339
from podtune.runner.trial.machine import NEVER, TrialMachine
from podtune.tuning.schedulers.base import (
    Exploit,
    MetricMissing,
    SchedulerAction,
    SchedulerDecision,
    StartDecision,
)
from tests.unit.runner.objects import NOW, PREFIX, make_machine, make_pod, make_spec, make_trial, save
from tests.unit.runner.scheduling.parts import EndingRules, Parts, SearchState

STOP = SchedulerDecision(SchedulerAction.STOP, "0.4 is below 0.5", {"cutoff": 0.5})
PAUSE = SchedulerDecision(SchedulerAction.PAUSE, "paused at rung 2", {"rung": 2})
SETTINGS = RunnerSettings()
PAUSED = {"state": TrialState.PAUSED, "reason": TrialReason.PAUSED_BY_SCHEDULER}
DONOR_CHECKPOINT = Checkpoint(step=2, uri=f"{PREFIX}e-1/1-pod/2", digest="d")
EXPLOIT = Exploit(donor=1, configuration={"learning_rate": 0.02}, step=2)


def result(step: int = 3, value: float | str = 0.4, *, checkpoint: bool = False) -> Result:
    return Result(step, NOW, {"accuracy": value, "training_iteration": step}, step, checkpoint)


def running(parts: Parts, index: int = 0, since: float = NOW, **status: Any) -> TrialMachine:
    """A trial whose program has run since then."""
    trial = make_machine(make_trial(index, **({"state": TrialState.RUNNING} | status)), parts.spec)
    trial.observe_pod(make_pod(trial, training_since=since))
    return parts.add(trial)


def paused(parts: Parts, index: int = 0, **status: Any) -> TrialMachine:
    """A trial that waits for the scheduler to start it again."""
    return parts.add(make_machine(make_trial(index, **(PAUSED | status)), parts.spec))


def ledger(trial: TrialMachine) -> list[tuple[str, str]]:
    return [(entry.action, entry.message) for entry in trial.status.ledger]


# Results


def test_a_result_that_nothing_is_decided_on_leaves_the_trial_as_it_is() -> None:
    parts = Parts()
    trial = running(parts)
    before = trial.status
    parts.processor.process(trial, result(), NOW)
    assert parts.scheduler.shown == [{"accuracy": 0.4, "training_iteration": 3}]
    assert (trial.status, trial.write_due) == (before, NEVER)


def test_the_scheduler_hears_how_many_trials_could_run() -> None:
    parts = Parts(search=SearchState(to_come=4))
    parts.queue.add(paused(parts, 1), 0.0)
    parts.processor.process(running(parts), result(), NOW)
    assert parts.scheduler.waiting == [1 + 4]


@pytest.mark.parametrize(
    ("answer", "action", "reason"),
    [
        (STOP, DecisionAction.STOP, TrialReason.STOPPED_BY_SCHEDULER),
        (
            SchedulerDecision(SchedulerAction.STOP, "all 9", full=True),
            DecisionAction.STOP,
            TrialReason.MAX_TIME_REACHED,
        ),
        (PAUSE, DecisionAction.PAUSE, TrialReason.PAUSED_BY_SCHEDULER),
    ],
)
def test_what_the_scheduler_decides_is_what_the_trial_records(
    answer: SchedulerDecision, action: DecisionAction, reason: TrialReason
) -> None:
    parts = Parts()
    parts.scheduler.answer = answer
    trial = running(parts)
    parts.processor.process(trial, result(3), NOW)
    decision = trial.status.decision
    assert decision is not None
    assert (decision.action, decision.reason, decision.message, decision.step) == (action, reason, answer.message, 3)
    assert ledger(trial) == [(answer.action, answer.message)]
    assert trial.write_due == NOW
    completed = [f"complete 0 {result(3).metrics}"] if action is DecisionAction.STOP else []
    assert parts.scheduler.told == completed, "a stop is the trial's good end"


def test_a_decision_to_go_on_is_in_the_ledger_alone() -> None:
    parts = Parts()
    parts.scheduler.answer = SchedulerDecision(SchedulerAction.CONTINUE, "0.4 is the best", {"rung": 2})
    trial = running(parts)
    parts.processor.process(trial, result(), NOW)
    assert ledger(trial) == [("CONTINUE", "0.4 is the best")]
    assert (trial.status.decision, trial.status.ledger[0].inputs) == (None, {"rung": "2"})


def test_a_checkpoint_that_the_scheduler_wants_is_asked_for_unless_the_result_has_one() -> None:
    parts = Parts()
    parts.scheduler.answer = SchedulerDecision(SchedulerAction.CONTINUE, wants_checkpoint=True)
    trial = running(parts)
    parts.processor.process(trial, result(3, checkpoint=True), NOW)
    assert trial.current.wanted_step is None
    parts.processor.process(trial, result(4), NOW)
    assert trial.current.wanted_step == 4


def test_a_decision_rests_on_the_records_of_its_time() -> None:
    parts = Parts()
    trial = running(parts)
    other = running(parts, 1)
    parts.scheduler.records[1] = {"rungs": {"1": "0.5"}}
    parts.processor.barrier.write_record(other, NOW)
    parts.scheduler.answer = STOP
    parts.processor.process(trial, result(), NOW)
    assert not parts.processor.is_flushed(trial)
    save(other)
    assert parts.processor.on_status_saved(other)
    assert parts.processor.is_flushed(trial)


@pytest.mark.parametrize(("every_result", "write_due"), [(False, NOW), (True, NEVER)])
def test_a_changed_record_is_written_at_once_unless_every_result_changes_it(
    every_result: bool, write_due: float
) -> None:
    parts = Parts()
    parts.scheduler.every_result = every_result
    parts.scheduler.records[0] = {"rungs": {"1": "0.4"}}
    parts.scheduler.answer = SchedulerDecision(SchedulerAction.CONTINUE, recorded=True)
    trial = running(parts)
    parts.processor.process(trial, result(), NOW)
    assert trial.write_due == write_due
    assert not parts.processor.barrier.is_flushed(parts.processor.barrier.latest)


def test_a_result_is_written_the_later_the_more_trials_run_unless_decisions_wait_for_it() -> None:
    parts = Parts()
    trial = running(parts)
    assert parts.processor.write_delay(trial) == SETTINGS.result_debounce
    parts.throttle.update("e-uid", 2 * SETTINGS.throttle_above_trials)
    assert parts.processor.write_delay(trial) == 2 * SETTINGS.result_debounce
    parts.scheduler.every_result = True
    assert parts.processor.write_delay(trial) == SETTINGS.result_debounce


def test_a_value_that_may_end_the_experiment_is_written_at_once() -> None:
    parts = Parts(rules=EndingRules(target=0.9))
    trial = running(parts)
    parts.processor.process(trial, result(3, 0.8), NOW)
    assert trial.write_due == NEVER
    parts.processor.process(trial, result(4, 0.9), NOW)
    assert trial.write_due == NOW


@pytest.mark.parametrize(("learns", "expected"), [(True, [(0, 2, "0.4")]), (False, [])])
def test_a_value_at_a_rung_gets_a_place_of_its_own_where_the_searcher_learns_from_it(
    learns: bool, expected: list[tuple[int, int, str]]
) -> None:
    parts = Parts(search=SearchState(learns_from_rungs=learns))
    parts.scheduler.answer = SchedulerDecision(SchedulerAction.CONTINUE, milestone=2)
    trial = running(parts)
    parts.processor.process(trial, result(), NOW)
    observed = [(entry.seq, entry.step, entry.value) for entry in trial.status.rung_observations]
    assert observed == expected
    assert parts.search.reserved == len(expected)


# Results without the metric


def test_a_result_without_the_metric_ends_the_trial() -> None:
    parts = Parts()
    parts.scheduler.answer = missing = MetricMissing("accuracy", ["loss"])
    trial = running(parts)
    parts.processor.process(trial, result(3, "none"), NOW)
    decision = trial.status.decision
    assert decision is not None
    assert (decision.action, decision.reason) == (DecisionAction.FAIL, TrialReason.METRIC_MISSING)
    assert (decision.message, ledger(trial)) == (str(missing), [("FAIL", str(missing))])


def test_it_is_only_counted_where_the_experiment_is_lenient() -> None:
    parts = Parts(make_spec(objective={"metric": "accuracy", "mode": "max", "missing": "lenient"}))
    parts.scheduler.answer = MetricMissing("accuracy", ["loss"])
    trial = running(parts)
    parts.processor.process(trial, result(3, "none"), NOW)
    assert (trial.status.decision, trial.status.missing_metrics) == (None, 1)


# The stopper


def test_a_rule_that_holds_stops_the_trial_and_the_scheduler_hears_of_its_end_alone() -> None:
    parts = Parts(make_spec(stop={"metrics": {"training_iteration": 3}}))
    trial = running(parts)
    parts.processor.process(trial, result(2), NOW)
    parts.processor.process(trial, result(3), NOW)
    assert len(parts.scheduler.shown) == 1
    assert parts.scheduler.told == [f"complete 0 {result(3).metrics}"]
    assert trial.status.decision is not None
    assert trial.status.decision.reason == TrialReason.STOPPED_BY_CRITERION


def test_a_trial_is_stopped_when_its_time_is_up_also_without_a_result() -> None:
    parts = Parts(make_spec(stop={"trial": [{"time": "60s"}]}))
    trial = running(parts, last_result={"accuracy": "0.4"})
    assert parts.processor.check_time(trial, NOW + 20) == NOW + 60
    assert trial.status.decision is None
    assert parts.processor.check_time(trial, NOW + 60) == NEVER
    assert trial.status.decision is not None
    assert trial.status.decision.reason == TrialReason.STOPPED_BY_CRITERION
    assert parts.scheduler.told == ["complete 0 {'accuracy': 0.4}"]
    assert ledger(trial)[0][0] == "STOP"


def test_a_trial_whose_end_is_decided_is_not_stopped_once_more() -> None:
    parts = Parts(make_spec(stop={"trial": [{"time": "60s"}]}))
    trial = running(parts)
    trial.decide(DecisionAction.PAUSE, TrialReason.PAUSED_BY_USER, "why", now=NOW)
    assert parts.processor.check_time(trial, NOW + 600) == NEVER
    assert trial.status.decision is not None
    assert trial.status.decision.action is DecisionAction.PAUSE


# Exploits


def test_a_trial_that_clones_another_one_gives_up_what_it_has_learnt_in_one_write() -> None:
    parts = Parts()
    running(parts, 1, checkpoints=[DONOR_CHECKPOINT])
    parts.scheduler.answer = SchedulerDecision(SchedulerAction.PAUSE, "clones 1", exploit=EXPLOIT)
    trial = running(parts)
    parts.processor.process(trial, result(), NOW)
    assert trial.status.clone is not None
    assert (trial.status.clone.donor, trial.status.clone.checkpoint) == ("e-1", DONOR_CHECKPOINT)
    assert trial.status.decision is not None
    assert (trial.status.decision.action, trial.status.decision.message) == (DecisionAction.PAUSE, "clones 1")
    assert parts.scheduler.told == ["configuration 0 {'learning_rate': 0.02}"]


def test_a_trial_whose_donor_has_nothing_to_clone_goes_on() -> None:
    parts = Parts()
    running(parts, 1, checkpoints=[DONOR_CHECKPOINT.model_copy(update={"step": 3})])
    parts.scheduler.answer = SchedulerDecision(SchedulerAction.PAUSE, "clones 1", exploit=EXPLOIT)
    trial = running(parts)
    parts.processor.process(trial, result(), NOW)
    assert (trial.status.clone, trial.status.exploit, trial.status.decision) == (None, None, None)
    assert ledger(trial)[0][0] == "CONTINUE"
    assert trial.write_due == NOW


def test_a_trial_whose_donor_has_yet_to_store_its_checkpoint_is_paused_meanwhile() -> None:
    parts = Parts()
    donor = running(parts, 1)
    parts.scheduler.answer = SchedulerDecision(SchedulerAction.PAUSE, "clones 1", exploit=EXPLOIT)
    trial = running(parts)
    parts.processor.process(trial, result(), NOW)
    assert (trial.status.clone, parts.processor.list_waiting_for(donor)) == (None, ("e-0",))
    assert trial.status.decision is not None
    assert trial.status.decision.message.startswith("waiting to clone e-1")
    assert NOW < parts.processor.continue_exploit(trial, NOW) < NEVER
    donor.set(checkpoints=[DONOR_CHECKPOINT])
    assert parts.processor.continue_exploit(trial, NOW) == NEVER
    assert trial.status.clone is not None
    assert trial.decision_lsn == parts.processor.barrier.latest


# Starts


def test_a_trial_that_is_next_in_the_queue_begins_at_once_after_the_starts_before_it() -> None:
    parts = Parts()
    fresh, later = parts.add(make_machine(make_trial(0))), parts.add(make_machine(make_trial(1)))
    parts.scheduler.records[0] = {"bracket": {"0": ""}}
    assert parts.processor.start(fresh, StartDecision(0, recorded=True), NOW) is Begin.ONCE_WRITTEN
    assert parts.processor.start(later, StartDecision(1), NOW) is Begin.AT_ONCE
    assert not parts.processor.is_flushed(later), "it was chosen after a start that is not on record"
    assert (later.status.state, ledger(later)) == (None, [])


def test_a_paused_trial_begins_once_its_promotion_is_on_record() -> None:
    parts = Parts()
    trial = paused(parts, decision={"action": "PAUSE", "reason": "r", "message": "m", "attempt": 1})
    start = StartDecision(0, "goes on: among the best 1/2", {"best": "1/2"})
    assert parts.processor.start(trial, start, NOW) is Begin.ONCE_WRITTEN
    status = trial.status
    assert (status.state, status.reason, status.message) == (TrialState.PENDING, TrialReason.QUEUED, start.message)
    assert (status.decision, ledger(trial)) == (None, [("PROMOTE", start.message)])
    assert trial.write_due == NOW


def test_why_a_new_trial_is_picked_is_told_once() -> None:
    """An operator that has died after writing it down picks the same trial again."""
    parts = Parts()
    trial = parts.add(make_machine(make_trial(0)))
    start = StartDecision(0, "the first of its bracket")
    assert parts.processor.start(trial, start, NOW) is Begin.ONCE_WRITTEN
    assert parts.processor.start(trial, start, NOW) is Begin.AT_ONCE
    assert ledger(trial) == [("START", start.message)]


def test_a_paused_trial_that_is_to_clone_what_is_not_stored_yet_begins_not_yet() -> None:
    parts = Parts()
    running(parts, 1)
    trial = paused(parts)
    assert parts.processor.start(trial, StartDecision(0, exploit=EXPLOIT), NOW) is Begin.NOT_YET
    assert (trial.status.state, trial.status.reason) == (TrialState.PAUSED, TrialReason.PAUSED_BY_SCHEDULER)
    assert trial.status.message.startswith("waiting to clone e-1")


def test_one_that_waits_for_a_checkpoint_has_a_deadline() -> None:
    parts = Parts(make_spec(checkpoints={"store": {"bucket": "models"}, "sync": {"timeout": "60s"}}))
    running(parts, 1)
    awaited = AwaitedExploit(donor="e-1", step=2, parameters={}, since=format_rfc3339(NOW), message="clones e-1")
    trial = paused(parts, exploit=awaited)
    assert parts.processor.continue_exploit(trial, NOW + 59) == NOW + 60
    assert parts.processor.continue_exploit(trial, NOW + 60) == NEVER
    assert (trial.status.exploit, ledger(trial)[0][0]) == (None, "CONTINUE")
    assert trial.decision_lsn == parts.processor.barrier.latest == 1


# What the scheduler is told


def test_the_scheduler_takes_a_trial_up_from_its_record_or_as_a_new_one() -> None:
    parts = Parts()
    parts.processor.add(make_machine(make_trial(0, scheduler={"rungs": {"1": "0.4"}})), NOW)
    fresh = make_machine(make_trial(1))
    parts.processor.add(fresh, NOW)
    assert (parts.scheduler.told, fresh.write_due) == (["restore 0", "add 1"], NEVER)


def test_what_it_remembers_of_a_new_trial_is_written_before_long() -> None:
    parts = Parts()
    trial = make_machine(make_trial(0))
    parts.scheduler.records[0] = {"bracket": {"0": ""}}
    parts.processor.add(trial, NOW)
    assert trial.write_due == NOW + SETTINGS.starting_debounce
    assert not parts.processor.barrier.is_flushed(1)


def test_a_users_pause_is_told_once_and_so_is_its_end() -> None:
    parts = Parts()
    trial = running(parts)
    for held in (False, True, True, False, False):
        parts.processor.hold(trial, held=held)
    assert parts.scheduler.told == ["hold 0", "release 0"]


def test_another_configuration_of_a_trial_is_recorded_at_once() -> None:
    parts = Parts()
    trial = running(parts)
    parts.processor.update_configuration(trial, NOW)
    assert parts.scheduler.told == ["configuration 0 {'learning_rate': 0.01}"]
    assert trial.write_due == NOW


def test_a_good_end_is_written_at_once_where_the_scheduler_remembers_it() -> None:
    parts = Parts()
    trial = running(parts)
    parts.processor.record_completion(trial, {"accuracy": 0.4}, NOW)
    assert trial.write_due == NEVER
    parts.scheduler.completion_changes_record = True
    parts.processor.record_completion(trial, {"accuracy": 0.4}, NOW)
    assert trial.write_due == NOW


@pytest.mark.parametrize(("mode", "infinity"), [("max", float("inf")), ("min", float("-inf"))])
def test_an_infinity_that_nothing_could_beat_is_shown_as_nan(mode: str, infinity: float) -> None:
    parts = Parts(make_spec(objective={"metric": "accuracy", "mode": mode}))
    trial = running(parts)
    parts.processor.process(trial, result(3, infinity), NOW)
    assert repr(parts.scheduler.shown[0]["accuracy"]) == "nan"
    parts.processor.record_completion(trial, {"accuracy": infinity}, NOW)
    assert parts.scheduler.told == ["complete 0 {'accuracy': nan}"]


def test_a_trial_gets_the_resources_of_the_rungs_that_it_has_passed() -> None:
    resources = [
        {"atRung": 1, "limits": {"nvidia.com/gpu": "2", "memory": "8Gi"}},
        {"atRung": 2, "limits": {"nvidia.com/gpu": "4"}},
    ]
    asha = {"maxTime": 27, "gracePeriod": 1, "reductionFactor": 3}
    store = {"store": {"bucket": "models"}}
    parts = Parts(make_spec(scheduler={"ashaPromotion": asha, "resources": resources}, checkpoints=store))
    trial = running(parts)
    limits = []
    for passed in range(3):
        parts.scheduler.rungs[0] = passed
        limits.append(parts.processor.compute_limits(trial).limits)
    assert limits == [
        {},
        {"nvidia.com/gpu": "2", "memory": "8Gi"},
        {"nvidia.com/gpu": "4", "memory": "8Gi"},
    ]
