"""Finds out when an experiment has ended."""

from __future__ import annotations

from podtune.api.names import ExperimentReason, TrialState
from podtune.api.resources.experiment import ExperimentSpec
from podtune.runner.action_queue import SOON
from podtune.runner.experiment.status_text import ExperimentOutcome
from podtune.runner.experiment.tracker import ExperimentTracker
from podtune.runner.search.session import Search
from podtune.tuning.plugins import PluginFailure
from podtune.tuning.stoppers.base import ExperimentProgress
from podtune.tuning.stoppers.factory import make_experiment_stopper


class ExperimentEnd:
    """Finds the end of an experiment: one of its rules holds, or nothing is left to try.

    An end is written into the Experiment's status first, and acted on once it is recorded there (see
    `ExperimentTracker`). A restarted operator might not find the same end again, because the stopped trials count, too.
    """

    def __init__(self, spec: ExperimentSpec, tracker: ExperimentTracker, search: Search) -> None:
        self._tracker = tracker
        self._search = search
        self.take_spec(spec)

    def take_spec(self, spec: ExperimentSpec) -> None:
        """Goes by the rules of another spec, which hear of all that was observed."""
        self._is_stopped = bool(spec.stop.now)
        self._stopper = make_experiment_stopper(spec)
        self._metric = spec.objective.metric
        self._heard = 0

    def find(self, now: float) -> tuple[ExperimentOutcome | None, float | None]:
        """Why the experiment ends now, and if it continues, when to check again even if nothing happens.

        Either may be None.
        """
        self._hear()
        if self._is_stopped:
            return ExperimentOutcome(ExperimentReason.STOPPED_BY_USER, "stopped: spec.stop.now is true"), None
        self._tracker.start(now)
        deadline = None
        if self._stopper.has_rules:
            progress = self._measure_progress(now)
            ending = self._stopper.check(progress)
            if ending is not None:
                return self._check(ExperimentOutcome(ending.reason, ending.message, ending.good)), None
            deadline = self._find_deadline(progress, now)
        if self._search.is_over and self._tracker.is_settled:
            return self._find_natural_end(), None
        return None, deadline

    def still_holds(self, now: float, *, reopens: bool) -> bool:
        """Whether an experiment that ended at `now` would also end by its current spec; `reopens`: trials continue."""
        self._hear()
        if self._is_stopped or self._stopper.check(self._measure_progress(now)) is not None:
            return True
        return self._search.is_over and not reopens

    @property
    def plugin_failure(self) -> PluginFailure | None:
        """What a stopper of another package has failed at; None where none has."""
        return self._stopper.failure

    def is_decided_by(self, value: float) -> bool:
        """Whether a value of the objective may end the experiment: it is written down at once."""
        return self._stopper.is_decided_by(value)

    def _find_deadline(self, progress: ExperimentProgress, now: float) -> float | None:
        deadline = self._stopper.find_deadline(progress)
        if deadline is None or self._tracker.suspension.is_asked:
            return None
        return max(now + deadline - progress.elapsed, now + SOON)

    def _hear(self) -> None:
        """Passes what was observed to the stopper, in its recorded order."""
        for observation in self._search.list_own_observations(self._heard):
            self._heard += 1
            self._stopper.on_observation(observation)

    def _measure_progress(self, now: float) -> ExperimentProgress:
        tracker = self._tracker
        used = tracker.usage.compute_total(now)
        leader = tracker.leader
        errors = tracker.by_state[TrialState.ERROR]
        return ExperimentProgress(
            elapsed=tracker.suspension.compute_active_time(now) - tracker.start(now),
            best=leader.value if leader else None,
            best_trial=leader.trial if leader else "",
            best_result=leader.result if leader else {},
            ended=errors + tracker.by_state[TrialState.TERMINATED],
            errors=errors,
            pod_seconds=used.pod_seconds,
            gpu_seconds=used.gpu_seconds,
            pods=used.pods,
            gpus=used.gpus,
        )

    def _find_natural_end(self) -> ExperimentOutcome:
        total = sum(self._tracker.by_state.values())
        if total and self._tracker.by_state[TrialState.ERROR] == total != self._tracker.without_result:
            return ExperimentOutcome(
                ExperimentReason.ALL_TRIALS_FAILED, f"{_name_all(total)} ended in ERROR", good=False
            )
        if self._search.is_exhausted:
            outcome = ExperimentOutcome(ExperimentReason.SPACE_EXHAUSTED, self._search.exhaustion)
        else:
            untried = f"; {self._search.untried}" if self._search.untried else ""
            outcome = ExperimentOutcome(
                ExperimentReason.TRIALS_COMPLETE, f"{_name_all(total)} {'is' if total == 1 else 'are'} done{untried}"
            )
        return self._check(outcome) if total else outcome

    def _check(self, outcome: ExperimentOutcome) -> ExperimentOutcome:
        """The end; a good one without any result becomes a failure.

        Users who wait for `Complete` continue with the best result. If there is none, a metric may be misspelt, for
        example.
        """
        if self._tracker.has_result or not outcome.good:
            return outcome
        message = f"{outcome.message}, but no trial has reported a finite number for {self._metric}"
        hint = "; see each trial's message for what it reported" if self._tracker.without_result else ""
        return ExperimentOutcome(ExperimentReason.NO_USABLE_RESULT, message + hint, good=False)


def _name_all(trials: int) -> str:
    return "the only trial" if trials == 1 else f"all {trials} trials"
