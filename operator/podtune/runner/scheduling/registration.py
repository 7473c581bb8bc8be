"""Registers trials with the scheduler, and tells one that works again what it has not heard."""

from __future__ import annotations

from collections.abc import Collection

from podtune.api.names import UnheardNews
from podtune.protocol.messages import Result
from podtune.runner.scheduling.paused_trials import was_removed
from podtune.runner.scheduling.result_processor import ResultProcessor
from podtune.runner.search.session import Search
from podtune.runner.steps import BuildSteps
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trial.phase import TrialPhase
from podtune.runner.trial.results import parse_metrics


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
            if trial.status.progress and UnheardNews.RESULT not in trial.status.unheard:
                scheduler.on_progress(trial.index, float(trial.status.progress))
                yield
        for trial in trials:
            if was_removed(trial.status):
                scheduler.on_trial_remove(trial.index)
                yield

    def tell_unheard(self, trial: TrialMachine, now: float) -> None:
        """Tells the scheduler what one before it has not heard of a trial, and has done what it decides.

        The trial's last result is shown when that can be acted on: while the program runs, or once it has ended.
        """
        before = trial.status.unheard
        if not before:
            return
        processor = self._processor
        if was_removed(trial.status):
            trial.set(unheard=[])  # it has heard that the trial will never run again, and nothing else matters
        if UnheardNews.CONFIGURATION in trial.status.unheard:
            processor.update_configuration(trial, now)
        if UnheardNews.SKIPPED_EXPLOIT in trial.status.unheard:
            processor.scheduler.on_exploit_skipped(trial.index)
            processor.barrier.write_record(trial, now)
        if UnheardNews.RESULT in trial.status.unheard:
            self._show_last_result(trial, now)
        if UnheardNews.COMPLETION in trial.status.unheard:
            processor.record_completion(trial, parse_metrics(trial.status.last_result), now)
        if trial.status.unheard != before:
            trial.remark = ""
            trial.touch(now)

    def _show_last_result(self, trial: TrialMachine, now: float) -> None:
        status = trial.status
        result = Result(trial.current.acked_seq, now, parse_metrics(status.last_result), status.iteration)
        if trial.is_finished or trial.is_evaluated or UnheardNews.COMPLETION in status.unheard:
            self._processor.show_result_of_ended(trial, result, now)
        elif trial.phase is TrialPhase.RUNNING:
            self._processor.show_late(trial, result, now)

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
