"""What a decision rests on is durable before the decision is acted on."""

from __future__ import annotations

import pytest
from typing_extensions import override

from podtune.runner.scheduling.write_barrier import WriteBarrier
from podtune.runner.trial.machine import NEVER, TrialMachine
from podtune.tuning.schedulers.base import Record
from podtune.tuning.schedulers.fifo import Fifo
from tests.unit.runner.objects import NOW, make_machine, make_trial, save


class RememberingScheduler(Fifo):
    """A scheduler with a record of each trial that a test writes."""

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}

    def remember(self, trial: int, value: str) -> None:
        self.records[trial] = {"rungs": {"1": value}}

    @override
    def record(self, trial: int) -> Record:
        return self.records.get(trial, {})


@pytest.fixture
def scheduler() -> RememberingScheduler:
    return RememberingScheduler()


@pytest.fixture
def barrier(scheduler: RememberingScheduler) -> WriteBarrier:
    return WriteBarrier(scheduler)


@pytest.fixture
def trial() -> TrialMachine:
    return make_machine(make_trial(0))


def test_what_rests_on_nothing_may_be_acted_on(barrier: WriteBarrier) -> None:
    assert barrier.is_flushed(barrier.latest)


def test_a_changed_record_is_put_into_the_status_and_written_at_once(
    barrier: WriteBarrier, scheduler: RememberingScheduler, trial: TrialMachine
) -> None:
    scheduler.remember(0, "0.4")
    barrier.write_record(trial, NOW)
    assert trial.status.scheduler == {"rungs": {"1": "0.4"}}
    assert trial.write_due == NOW
    assert barrier.latest == 1
    assert not barrier.is_flushed(1)


def test_it_is_durable_once_the_api_server_has_it(
    barrier: WriteBarrier, scheduler: RememberingScheduler, trial: TrialMachine
) -> None:
    scheduler.remember(0, "0.4")
    barrier.write_record(trial, NOW)
    assert not barrier.on_status_saved(trial), "the API server has told of another status"
    save(trial)
    assert barrier.on_status_saved(trial)
    assert barrier.is_flushed(1)
    assert not barrier.on_status_saved(trial), "nothing has become durable since"


def test_a_change_that_can_wait_is_written_with_the_next_status(
    barrier: WriteBarrier, scheduler: RememberingScheduler, trial: TrialMachine
) -> None:
    scheduler.remember(0, "0.4")
    barrier.mark_changed(trial)
    assert (trial.write_due, trial.status.scheduler) == (NEVER, {})
    assert not barrier.is_flushed(1)
    barrier.refresh_record(trial)
    assert trial.status.scheduler == {"rungs": {"1": "0.4"}}
    assert not barrier.is_flushed(1)


def test_a_decision_waits_for_the_changes_before_it_and_not_for_those_after_it(
    barrier: WriteBarrier, scheduler: RememberingScheduler, trial: TrialMachine
) -> None:
    other = make_machine(make_trial(1))
    scheduler.remember(0, "0.4")
    barrier.write_record(trial, NOW)
    decided_at = barrier.latest
    barrier.mark_changed(other)
    save(trial)
    barrier.on_status_saved(trial)
    assert barrier.is_flushed(decided_at)
    assert not barrier.is_flushed(barrier.latest)


def test_the_first_of_several_changes_is_what_a_decision_waits_for(
    barrier: WriteBarrier, scheduler: RememberingScheduler, trial: TrialMachine
) -> None:
    for value in ("0.4", "0.5"):
        scheduler.remember(0, value)
        barrier.mark_changed(trial)
    assert not barrier.is_flushed(1)
    barrier.refresh_record(trial)
    assert not barrier.is_flushed(1)


def test_a_status_that_is_saved_makes_all_changes_up_to_its_own_durable_and_no_later_one(
    barrier: WriteBarrier, scheduler: RememberingScheduler, trial: TrialMachine
) -> None:
    statuses = []
    for value in ("0.4", "0.5", "0.6"):
        scheduler.remember(0, value)
        barrier.write_record(trial, NOW)
        statuses.append(trial.status)
    save(trial, statuses[1])
    assert barrier.on_status_saved(trial)
    assert [barrier.is_flushed(lsn) for lsn in (1, 2, 3)] == [True, True, False]


def test_a_record_that_is_again_what_the_api_server_has_needs_no_write(
    barrier: WriteBarrier, scheduler: RememberingScheduler, trial: TrialMachine
) -> None:
    scheduler.remember(0, "0.4")
    barrier.write_record(trial, NOW)
    scheduler.records.clear()
    barrier.write_record(trial, NOW)
    assert barrier.is_flushed(barrier.latest)


def test_it_needs_one_where_another_record_is_on_its_way(
    barrier: WriteBarrier, scheduler: RememberingScheduler, trial: TrialMachine
) -> None:
    scheduler.remember(0, "0.4")
    barrier.write_record(trial, NOW)
    trial.expectations.statuses.append(trial.status)
    scheduler.records.clear()
    barrier.write_record(trial, NOW)
    assert not barrier.is_flushed(barrier.latest)


def test_a_record_is_kept_as_it_was_when_the_scheduler_changes_its_own(
    barrier: WriteBarrier, scheduler: RememberingScheduler, trial: TrialMachine
) -> None:
    values = {"1": "0.4"}
    scheduler.records[0] = {"rungs": values}
    barrier.write_record(trial, NOW)
    values["2"] = "0.5"
    assert trial.status.scheduler == {"rungs": {"1": "0.4"}}
