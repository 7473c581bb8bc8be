"""What every scheduler has to hold; a test class inherits it and says how one is made.

from podtune.testing.schedulers import SchedulerConformance

class TestStopHalf(SchedulerConformance):
    def make(self, *, seed=7, mode="max"):
        return StopHalf(mode)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podtune.api.resources.trial import TrialStatus
from podtune.testing.scheduler_driver import Answer, SchedulerDriver
from podtune.tuning.schedulers.base import (
    Record,
    Scheduler,
    SchedulerAction,
    SchedulerDecision,
    StartDecision,
    StopPaused,
)
from podtune.tuning.searchers.base import Configuration

_INHERITED = [HealthCheck.differing_executors]
"""Each class that inherits a property checks it for its own scheduler."""
EVENTS = 250
_MAX_MESSAGE = 512
"""Longest sentence that a Trial's status has room for."""


class SchedulerConformance:
    """The promises of `podtune.tuning.schedulers.base.Scheduler`."""

    def make(self, *, seed: int = 7, mode: Literal["max", "min"] = "max") -> Scheduler:
        """Makes a scheduler that has seen nothing.

        Args:
            seed: The experiment's seed.
            mode: Whether more or less of the metric `accuracy` is better.
        """
        raise NotImplementedError

    def configuration(self, trial: int) -> Configuration:  # noqa: ARG002 - most schedulers don't look at it
        """What a trial is made with."""
        return {}

    @given(seed=st.integers(0, 10**6), cut=st.integers(0, 200), mode=st.sampled_from(["max", "min"]))
    @settings(max_examples=100, deadline=None, suppress_health_check=_INHERITED)
    def test_a_restored_scheduler_goes_on_as_the_uncut_one(
        self, seed: int, cut: int, mode: Literal["max", "min"]
    ) -> None:
        """At any cut, from records in any order: between a pause and its end, between a choice and the start."""
        uncut = SchedulerDriver(self.make(seed=seed, mode=mode), seed, self.configuration)
        for _ in range(cut):
            uncut.step()
        rebuilt = uncut.restart(self.make(seed=seed, mode=mode))
        for _ in range(EVENTS - cut):
            assert repr(rebuilt.step()) == repr(uncut.step())  # NaN equals nothing
        assert rebuilt.collect_records() == uncut.collect_records()

    @given(seed=st.integers(0, 10**6))
    @settings(max_examples=50, deadline=None, suppress_health_check=_INHERITED)
    def test_a_record_changes_only_where_it_says_so(self, seed: int) -> None:
        """What isn't announced isn't written, and would be forgotten."""
        driver = SchedulerDriver(self.make(seed=seed), seed, self.configuration)
        for _ in range(EVENTS):
            before = driver.collect_records()
            driver.step()
            found = find_changed_records(before, driver.collect_records())
            assert driver.recorded <= found <= driver.recorded | driver.may_record

    @given(seed=st.integers(0, 10**6))
    @settings(max_examples=30, deadline=None, suppress_health_check=_INHERITED)
    def test_a_record_fits_into_the_status_of_a_trial(self, seed: int) -> None:
        """It is texts of a bounded length, below a few keys."""
        driver = SchedulerDriver(self.make(seed=seed), seed, self.configuration)
        for _ in range(EVENTS):
            driver.step()
        for record in driver.collect_records().values():
            assert TrialStatus.model_validate({"scheduler": record}, strict=True).scheduler == record

    @given(seed=st.integers(0, 10**6))
    @settings(max_examples=30, deadline=None, suppress_health_check=_INHERITED)
    def test_whatever_ends_or_pauses_a_trial_has_a_reason_with_numbers(self, seed: int) -> None:
        """A sentence for people, and the numbers by name."""
        driver = SchedulerDriver(self.make(seed=seed), seed, self.configuration)
        for _ in range(EVENTS):
            for decision in select_decisive(driver.step()):
                assert any(character.isdigit() for character in decision.message)
                assert decision.inputs
                assert len(decision.message) <= _MAX_MESSAGE

    @given(seed=st.integers(0, 10**6))
    @settings(max_examples=20, deadline=None, suppress_health_check=_INHERITED)
    def test_who_pauses_says_so(self, seed: int) -> None:
        """Without a checkpoint a paused trial would start from scratch, so schedulers that pause require a store."""
        driver = SchedulerDriver(self.make(seed=seed), seed, self.configuration)
        for _ in range(EVENTS):
            answer = driver.step()
            paused = isinstance(answer, SchedulerDecision) and answer.action is SchedulerAction.PAUSE
            assert driver.scheduler.pauses or not paused

    @given(seed=st.integers(0, 10**6), cut=st.integers(20, 200), deleted=st.integers(0, 5))
    @settings(max_examples=60, deadline=None, suppress_health_check=_INHERITED)
    def test_after_a_deletion_it_goes_on_as_if_restored_without_the_trial(
        self, seed: int, cut: int, deleted: int
    ) -> None:
        """A restart couldn't know of it."""
        driver = SchedulerDriver(self.make(seed=seed), seed, self.configuration)
        for _ in range(cut):
            driver.step()
        if deleted not in driver.trials:
            return
        driver.delete(deleted)
        rebuilt = driver.restart(self.make(seed=seed))
        for _ in range(EVENTS - cut):
            assert repr(rebuilt.step()) == repr(driver.step())  # NaN equals nothing
        driver.scheduler.forget(deleted)
        assert rebuilt.collect_records() == driver.collect_records()

    @given(seed=st.integers(0, 10**6), cut=st.integers(1, 200))
    @settings(max_examples=30, deadline=None, suppress_health_check=_INHERITED)
    def test_results_that_it_is_never_shown_are_no_trouble(self, seed: int, cut: int) -> None:
        """After an outage (see `SchedulerOutage`) it is restored, and shown the last result of each trial alone."""
        driver = SchedulerDriver(self.make(seed=seed), seed, self.configuration)
        for _ in range(cut):
            driver.step()
        restored = driver.restart(self.make(seed=seed))
        restored.miss_results()
        for _ in range(EVENTS - cut):
            restored.step()

    @given(seed=st.integers(0, 10**6))
    @settings(max_examples=30, deadline=None, suppress_health_check=_INHERITED)
    def test_whoever_asks_twice_hears_the_same(self, seed: int) -> None:
        """A slot may be offered again before the trial that was picked for it has started."""
        driver = SchedulerDriver(self.make(seed=seed), seed, self.configuration)
        for _ in range(EVENTS):
            driver.step()
            if driver.world.queue:
                waiting = tuple(driver.world.queue)
                first, again = driver.scheduler.choose(waiting), driver.scheduler.choose(waiting)
                assert (first and first.trial) == (again and again.trial)
                assert again is None or not again.recorded
            assert repr(driver.scheduler.trials_to_stop()) == repr(driver.scheduler.trials_to_stop())

    @given(seed=st.integers(0, 10**6))
    @settings(max_examples=30, deadline=None, suppress_health_check=_INHERITED)
    def test_a_paused_trial_that_is_stopped_is_never_chosen(self, seed: int) -> None:
        """It is on its way out."""
        driver = SchedulerDriver(self.make(seed=seed), seed, self.configuration)
        trials_to_stop: set[int] = set()
        for _ in range(EVENTS):
            answer = driver.step()
            assert not isinstance(answer, StartDecision) or answer.trial not in trials_to_stop
            trials_to_stop |= {stop.trial for stop in driver.scheduler.trials_to_stop()}

    @pytest.mark.parametrize("waiting", [[4], [4, 2, 9], range(100)])
    def test_the_next_trial_is_one_of_those_that_wait(self, waiting: Sequence[int]) -> None:
        """A new trial is always one that may start."""
        scheduler = self.make()
        for trial in sorted(waiting):
            scheduler.on_trial_add(trial, self.configuration(trial))
        chosen = scheduler.choose(waiting)
        assert chosen is not None
        assert chosen.trial in waiting

    def test_a_trial_that_ends_without_a_result_is_no_trouble(self) -> None:
        """Its program may have reported nothing."""
        scheduler = self.make()
        scheduler.on_trial_add(0, self.configuration(0))
        before = scheduler.record(0)
        assert scheduler.on_trial_complete(0, {}) == (scheduler.record(0) != before)


def select_decisive(answer: Answer) -> Sequence[SchedulerDecision | StopPaused]:
    """What an answer says that ends or pauses a trial."""
    if isinstance(answer, SchedulerDecision):
        return (answer,) if answer.action is not SchedulerAction.CONTINUE else ()
    return answer if isinstance(answer, tuple) else ()


def find_changed_records(before: dict[int, Record], after: dict[int, Record]) -> set[int]:
    """The trials whose records differ."""
    return {trial for trial in after if after[trial] != before.get(trial)}
