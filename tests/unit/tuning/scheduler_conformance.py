"""What every scheduler has to hold; a test class inherits it and says how one is made."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podtune.tuning.schedulers.base import Action, Metrics, Record, Scheduler, Verdict

INHERITED = [HealthCheck.differing_executors]
"""Each class that inherits a property checks it for its own scheduler."""


@dataclass(frozen=True)
class Step:
    """A result of a trial; the trial is added before its first one, and completed after a STOP or at its end."""

    trial: int
    metrics: Metrics
    ends: bool


class SchedulerConformance:
    """The promises of `podtune.tuning.schedulers.base.Scheduler`."""

    def make(self, *, seed: int = 7, mode: Literal["max", "min"] = "max") -> Scheduler:
        raise NotImplementedError

    @given(seed=st.integers(0, 10**6), cut=st.integers(0, 80), mode=st.sampled_from(["max", "min"]))
    @settings(max_examples=60, deadline=None, suppress_health_check=INHERITED)
    def test_a_restored_scheduler_goes_on_as_the_uncut_one(
        self, seed: int, cut: int, mode: Literal["max", "min"]
    ) -> None:
        """At any cut, from records in any order."""
        uncut = Run(self.make(seed=seed, mode=mode))
        history = random_history(seed, uncut.scheduler.time_attribute)
        for step in history[:cut]:
            uncut.take(step)
        rebuilt = Run(restored(self.make(seed=seed, mode=mode), uncut, random.Random(seed)), uncut)
        for step in history[cut:]:
            assert rebuilt.take(step) == uncut.take(step)
        for trial in uncut.added:
            assert rebuilt.scheduler.record(trial) == uncut.scheduler.record(trial)

    @given(seed=st.integers(0, 10**6))
    @settings(max_examples=30, deadline=None, suppress_health_check=INHERITED)
    def test_a_record_changes_only_where_it_says_so(self, seed: int) -> None:
        """What isn't announced isn't written, and would be forgotten."""
        run = Run(self.make(seed=seed))
        for step in random_history(seed, run.scheduler.time_attribute):
            if step.trial in run.ended:
                continue
            run.add(step.trial)
            before = run.records()
            verdict = run.scheduler.on_result(step.trial, step.metrics)
            assert changed(before, run.records()) == ({step.trial} if verdict.recorded else set())
            before = run.records()
            if verdict.action is Action.STOP or step.ends:
                run.ended.add(step.trial)
                announced = run.scheduler.on_trial_complete(step.trial, step.metrics)
                assert changed(before, run.records()) == ({step.trial} if announced else set())

    @given(seed=st.integers(0, 10**6))
    @settings(max_examples=20, deadline=None, suppress_health_check=INHERITED)
    def test_whatever_ends_a_trial_has_a_reason_with_numbers(self, seed: int) -> None:
        run = Run(self.make(seed=seed))
        for step in random_history(seed, run.scheduler.time_attribute):
            verdict = run.take(step)
            if verdict is not None and verdict.action is not Action.CONTINUE:
                assert any(character.isdigit() for character in verdict.message)
                assert verdict.because
                assert len(verdict.message) <= 512  # what a Trial's status has room for

    def test_failures_and_removals_change_no_record(self) -> None:
        run = Run(self.make())
        for step in random_history(1, run.scheduler.time_attribute)[:40]:
            run.take(step)
        before = run.records()
        for trial in run.added - run.ended:
            run.scheduler.on_trial_error(trial)
            run.scheduler.on_trial_remove(trial)
        assert run.records() == before

    @given(seed=st.integers(0, 10**6), cut=st.integers(1, 80), deleted=st.integers(0, 5))
    @settings(max_examples=30, deadline=None, suppress_health_check=INHERITED)
    def test_after_a_deletion_it_goes_on_as_if_restored_without_the_trial(
        self, seed: int, cut: int, deleted: int
    ) -> None:
        run = Run(self.make(seed=seed))
        history = random_history(seed, run.scheduler.time_attribute)
        for step in history[:cut]:
            run.take(step)
        run.scheduler.forget(deleted)
        run.added.discard(deleted)
        rebuilt = Run(restored(self.make(seed=seed), run, random.Random(seed)), run)
        for step in history[cut:]:
            if step.trial != deleted:
                assert rebuilt.take(step) == run.take(step)
        run.scheduler.forget(deleted)

    @pytest.mark.parametrize("waiting", [[4], [4, 2, 9], range(100)])
    def test_the_next_trial_is_one_of_those_that_wait(self, waiting: Sequence[int]) -> None:
        scheduler = self.make()
        for trial in waiting:
            scheduler.on_trial_add(trial, {})
        chosen = scheduler.choose(waiting)
        assert chosen is None or chosen.trial in waiting

    def test_a_trial_that_ends_without_a_result_is_no_trouble(self) -> None:
        scheduler = self.make()
        scheduler.on_trial_add(0, {})
        assert scheduler.on_trial_complete(0, {}) is False


class Run:
    """A scheduler, and the trials that it knows."""

    def __init__(self, scheduler: Scheduler, like: Run | None = None) -> None:
        self.scheduler = scheduler
        self.added: set[int] = set(like.added) if like else set()
        self.ended: set[int] = set(like.ended) if like else set()

    def add(self, trial: int) -> None:
        if trial not in self.added:
            self.added.add(trial)
            self.scheduler.on_trial_add(trial, {})

    def take(self, step: Step) -> Verdict | None:
        """Has a trial report; None where it had ended before."""
        if step.trial in self.ended:
            return None
        self.add(step.trial)
        verdict = self.scheduler.on_result(step.trial, step.metrics)
        if verdict.action is Action.STOP or step.ends:
            self.ended.add(step.trial)
            self.scheduler.on_trial_complete(step.trial, step.metrics)
        return verdict

    def records(self) -> dict[int, Record]:
        return {trial: self.scheduler.record(trial) for trial in self.added}


def restored(scheduler: Scheduler, run: Run, order: random.Random) -> Scheduler:
    """A scheduler made from the records of another one's trials, in any order."""
    for trial in order.sample(sorted(run.added), len(run.added)):
        record = {key: dict(values) for key, values in run.scheduler.record(trial).items()}
        assert all(type(text) is str for values in record.values() for text in values.values())
        scheduler.restore(trial, record, {})
    return scheduler


def random_history(seed: int, time_attribute: str) -> list[Step]:
    """Results of trials that start one after the other, go on at their own pace, and now and then skip."""
    draw = random.Random(seed)
    time: dict[int, int] = {}
    history = []
    for _ in range(120):
        trial = draw.randrange(len(time) + 1) if len(time) < 15 else draw.randrange(15)
        time[trial] = time.get(trial, 0) + draw.choice([1, 1, 1, 1, 2, 7])
        value = math.nan if draw.random() < 0.05 else round(draw.random(), 2)
        metrics: Metrics = {time_attribute: time[trial], "accuracy": value, "note": "of no interest"}
        history.append(Step(trial, metrics, ends=draw.random() < 0.05))
    return history


def changed(before: dict[int, Record], after: dict[int, Record]) -> set[int]:
    return {trial for trial in after if after[trial] != before.get(trial)}
