"""Registers trials with the scheduler."""

from __future__ import annotations

from collections.abc import Collection

from podtune.runner.scheduling.paused_trials import was_removed
from podtune.runner.scheduling.result_processor import ResultProcessor
from podtune.runner.search.session import Search
from podtune.runner.steps import BuildSteps
from podtune.runner.trial.machine import TrialMachine


class SchedulerRegistration:
    """Registers trials in the order of their indexes, in whatever order they are seen.

    Several are made at a time, and the last may be seen first: so one waits while an earlier one is being made. It is
    not started before.
    """

    def __init__(self, processor: ResultProcessor, search: Search) -> None:
        self._processor = processor
        self._search = search
        self._waiting: dict[int, TrialMachine] = {}

    def __contains__(self, trial: TrialMachine) -> bool:
        """Whether the scheduler does not know the trial yet."""
        return trial.index in self._waiting

    def restore(self, trials: Collection[TrialMachine]) -> BuildSteps:
        """Makes a scheduler that has seen nothing know what all trials record, in steps.

        Args:
            trials: All Trials, in the order of their indexes; those without a record come last.
        """
        scheduler = self._processor.scheduler
        for trial in trials:
            if trial.status.scheduler:
                scheduler.restore(trial.index, trial.status.scheduler, trial.configuration)
                yield
        for trial in trials:
            if not trial.status.scheduler:
                scheduler.on_trial_add(trial.index, trial.configuration)
                yield
        for trial in trials:
            if trial.status.progress:
                scheduler.on_progress(trial.index, float(trial.status.progress))
                yield
        for trial in trials:
            if was_removed(trial.status):
                scheduler.on_trial_remove(trial.index)
                yield

    def add(self, trial: TrialMachine) -> None:
        """A Trial was made: it is registered once no earlier one is being made."""
        self._waiting[trial.index] = trial

    def register_ready(self, now: float) -> list[TrialMachine]:
        """Registers the trials that no longer wait for an earlier one, and returns them."""
        registered: list[TrialMachine] = []
        for index in sorted(self._waiting):
            if self._search.is_making_one_before(index):
                break
            trial = self._waiting.pop(index)
            self._processor.add(trial, now)
            registered.append(trial)
        return registered
