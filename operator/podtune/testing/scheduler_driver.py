"""An experiment that consists of a scheduler alone: everything else happens to it at random, as a seed has it."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from podtune.tuning.schedulers.base import (
    Exploit,
    Metrics,
    Record,
    Scheduler,
    SchedulerAction,
    SchedulerDecision,
    StartDecision,
    StopPaused,
)
from podtune.tuning.searchers.base import Configuration

_TRIALS = 15
SLOTS = 4
LONGEST = 60
"""The time at which a trial comes to its own end."""

Answer = SchedulerDecision | StartDecision | tuple[StopPaused, ...] | bool | None
"""What a scheduler says to an event."""


@dataclass
class World:
    """What an operator knows, whatever its scheduler does: all that a restart leaves as it was.

    Attributes:
        draw: Where all that happens is drawn from.
        queue: The trials that could start now, first in the queue first.
        running: The trials that run.
        pausing: Trials whose pause was decided and is not carried out yet.
        time: How far trials have come.
        configurations: What trials run with.
        completed: Trials that came to a good end.
        removed: Trials that were stopped while they waited, or failed for good.
    """

    draw: random.Random
    queue: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    pausing: list[int] = field(default_factory=list)
    time: dict[int, int] = field(default_factory=dict)
    configurations: dict[int, Configuration] = field(default_factory=dict)
    completed: set[int] = field(default_factory=set)
    removed: set[int] = field(default_factory=set)

    @property
    def made(self) -> int:
        """How many trials there are."""
        return len(self.configurations)

    @property
    def is_over(self) -> bool:
        """Whether no more trials are made."""
        return self.made == _TRIALS


class SchedulerDriver:
    """Does with a scheduler what an operator does, one event at a time."""

    def __init__(
        self,
        scheduler: Scheduler,
        seed: int,
        configuration: Callable[[int], Configuration] = lambda trial: {},  # noqa: ARG005 - none matters by default
    ) -> None:
        """Begins an experiment.

        Args:
            scheduler: The scheduler; it has seen nothing.
            seed: Decides all that happens.
            configuration: What a trial is made with.
        """
        self.scheduler = scheduler
        self.world = World(random.Random(seed))
        self.may_record: set[int] = set()
        """Trials whose record the last event may have changed without saying so."""
        self.recorded: set[int] = set()
        """Trials whose record the last event has changed, as it says itself."""
        self._configuration = configuration
        self._forgotten: set[int] = set()

    @property
    def trials(self) -> list[int]:
        """All trials, but for those that were deleted."""
        return [trial for trial in self.world.configurations if trial not in self._forgotten]

    def collect_records(self) -> dict[int, Record]:
        """What is remembered of all trials."""
        return {trial: self.scheduler.record(trial) for trial in self.trials}

    def step(self) -> Answer:
        """Has something happen; returns what the scheduler says to it."""
        self.may_record, self.recorded = set(), set()
        world = self.world
        if not world.is_over and (world.draw.random() < 0.15 or not (world.running or world.queue)):
            self._make_trial()
            return None
        if world.pausing and world.draw.random() < 0.2:
            world.queue.append(world.pausing.pop(0))
            return None
        if world.draw.random() < 0.1:
            return self._dismiss()
        if world.queue and len(world.running) + len(world.pausing) < SLOTS and world.draw.random() < 0.4:
            if world.draw.random() >= 0.02:
                return self._start()
            self._remove(world.draw.choice(world.queue))
        elif world.running:
            trial = world.draw.choice(world.running)
            if world.draw.random() >= 0.03:
                return self._report(trial)
            self._fail(trial)
        return None

    def delete(self, trial: int) -> None:
        """Has a trial deleted, with its record."""
        self._leave(trial)
        self._forgotten.add(trial)
        self.scheduler.forget(trial)

    def miss_results(self) -> None:
        """Has running trials come further without a word to the scheduler, some to their ends."""
        for trial in list(self.world.running):
            self.world.time[trial] = self.world.time.get(trial, 0) + self.world.draw.randint(0, LONGEST)
            self._report(trial)

    def restart(self, scheduler: Scheduler) -> SchedulerDriver:
        """The same experiment after a restart, which forgets all that isn't recorded.

        Args:
            scheduler: A scheduler that has seen nothing.
        """
        other = SchedulerDriver(scheduler, 0, self._configuration)
        other.world, other._forgotten = copy.deepcopy(self.world), set(self._forgotten)
        records = {trial: as_status(record) for trial, record in self.collect_records().items()}
        shuffled = random.Random(self.world.made).sample(sorted(records), len(records))
        for trial in shuffled:
            if records[trial]:
                scheduler.restore(trial, records[trial], self.world.configurations[trial])
        for trial in sorted(records):
            if not records[trial]:
                scheduler.on_trial_add(trial, self.world.configurations[trial])
            if trial in self.world.time:
                scheduler.on_progress(trial, self.world.time[trial])
        for trial in sorted(self.world.removed & records.keys()):
            scheduler.on_trial_remove(trial)
        if self.world.is_over:
            scheduler.on_search_over()
        return other

    def _make_trial(self) -> None:
        trial = self.world.made
        self.world.configurations[trial] = self._configuration(trial)
        self.world.queue.append(trial)
        self.scheduler.on_trial_add(trial, self.world.configurations[trial])
        self.may_record = {trial}
        if self.world.is_over:
            self.scheduler.on_search_over()

    def _start(self) -> StartDecision | None:
        start = self.scheduler.choose(tuple(self.world.queue))
        if start is None:
            return None
        assert start.trial in self.world.queue
        self.recorded = {start.trial} if start.recorded else set()
        if start.exploit is not None:
            self._exploit(start.trial, start.exploit)
        if self.world.draw.random() < 0.9:  # else something comes between: it is chosen once more
            self.world.queue.remove(start.trial)
            self.world.running.append(start.trial)
        return start

    def _report(self, trial: int) -> SchedulerDecision:
        draw = self.world.draw
        self.world.time[trial] = self.world.time.get(trial, 0) + draw.choice([1, 1, 1, 1, 2, 7])
        value = math.nan if draw.random() < 0.05 else round(draw.random(), 2)
        metrics: Metrics = {self.scheduler.time_attribute: self.world.time[trial], "accuracy": value, "note": "none"}
        waiting = len(self.world.queue) + _TRIALS - self.world.made
        decision = self.scheduler.on_result(trial, metrics, waiting=waiting)
        self.recorded = {trial} if decision.recorded else set()
        match decision.action:
            case SchedulerAction.PAUSE if decision.exploit is None or self._exploit(trial, decision.exploit):
                self.world.running.remove(trial)
                self.world.pausing.append(trial)
            case SchedulerAction.PAUSE:
                pass  # its donor has no checkpoint: it goes on as if nothing had been said
            case SchedulerAction.STOP:
                self._complete(trial, metrics)
            case _ if self.world.time[trial] >= LONGEST or draw.random() < 0.01:
                self._complete(trial, metrics)
        return decision

    def _complete(self, trial: int, metrics: Metrics) -> None:
        before = self.scheduler.record(trial)
        announced = self.scheduler.on_trial_complete(trial, metrics)
        assert announced == (self.scheduler.record(trial) != before)
        if announced:
            self.may_record = {trial}
        self._leave(trial)
        self.world.completed.add(trial)

    def _exploit(self, trial: int, exploit: Exploit) -> bool:
        """Carries out an exploit, unless the donor has no checkpoint."""
        self.may_record = {trial}
        if self.world.draw.random() < 0.1:
            self.scheduler.on_exploit_skipped(trial)
            return False
        self.world.configurations[trial] = exploit.configuration
        self.world.time[trial] = self.world.time[exploit.donor]
        self.scheduler.on_configuration(trial, exploit.configuration)
        return True

    def _fail(self, trial: int) -> None:
        self.scheduler.on_trial_error(trial)
        self.world.running.remove(trial)
        if self.world.draw.random() < 0.5:
            self.world.queue.append(trial)
        else:
            self._remove(trial)

    def _dismiss(self) -> tuple[StopPaused, ...]:
        """Ends the paused trials that the scheduler gives up; those that are on their way to a pause a little later."""
        trials_to_stop = tuple(self.scheduler.trials_to_stop())
        for stop in trials_to_stop:
            if stop.trial not in self.world.pausing:
                assert stop.trial in self.world.queue
                self._remove(stop.trial)
        return trials_to_stop

    def _remove(self, trial: int) -> None:
        self._leave(trial)
        self.world.removed.add(trial)
        self.scheduler.on_trial_remove(trial)
        self.may_record.add(trial)

    def _leave(self, trial: int) -> None:
        for trials in (self.world.queue, self.world.running, self.world.pausing):
            if trial in trials:
                trials.remove(trial)


def as_status(record: Record) -> Mapping[str, Mapping[str, str]]:
    """A record as a Trial's status has it."""
    return {section: dict(values) for section, values in record.items()}
