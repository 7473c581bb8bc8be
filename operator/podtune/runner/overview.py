"""The experiment as a whole, kept up to date a trial at a time: counts, best result, and when to write it down."""

from __future__ import annotations

from collections import Counter

from podtune.api.experiment import BestTrial, ExperimentSpec, ExperimentStatus
from podtune.api.names import ConditionType, ExperimentReason, TrialReason, TrialState
from podtune.runner import checkpoints, experiment_status, results
from podtune.runner.experiment_status import Ended
from podtune.runner.records import Experiment
from podtune.runner.timestamps import parse_rfc3339, rfc3339
from podtune.runner.trial_machine import NEVER, TrialMachine


class Overview:
    """Counts trials by state and remembers the best; decides when the Experiment's status is written."""

    def __init__(self, experiment: Experiment, spec: ExperimentSpec) -> None:
        self._experiment = experiment
        self._objective = spec.objective
        self._status: ExperimentStatus = experiment.status
        self._counted: dict[str, tuple[TrialState, bool]] = {}
        self._stopped_early = 0
        self._best: tuple[float, TrialMachine] | None = None
        self._last_write = -NEVER
        self._stale = True
        self._start = parse_rfc3339(experiment.status.start_time)
        self.by_state: Counter[TrialState] = Counter()
        self.unfinished: dict[str, TrialMachine] = {}
        self.undurable: set[str] = set()
        self.wake = NEVER
        self.ended = _recorded_end(experiment.status)

    def experiment_seen(self, experiment: Experiment) -> None:
        """Takes in a version of the Experiment."""
        self._experiment = experiment
        self._status = experiment.status
        self._stale = True

    def start(self, now: float) -> float:
        """When the experiment started: now, if it had not before."""
        if self._start is None:
            self._start = now
        return self._start

    def count(self, trial: TrialMachine) -> None:
        """Takes in what became of a trial."""
        state = trial.status.state or TrialState.PENDING
        early = state is TrialState.TERMINATED and trial.status.reason == TrialReason.STOPPED_BY_SCHEDULER
        before = self._counted.get(trial.name)
        if before != (state, early):
            self._uncount(trial.name)
            self._counted[trial.name] = (state, early)
            self.by_state[state] += 1
            self._stopped_early += early
            self._stale = True
        if state.is_finished:
            self.unfinished.pop(trial.name, None)
        else:
            self.unfinished[trial.name] = trial
        if trial.is_durable:
            self.undurable.discard(trial.name)
        else:
            self.undurable.add(trial.name)
        value = results.best_value(trial.status, self._objective.metric)
        if value is not None and (self._best is None or self._objective.is_better(value, self._best[0])):
            self._best = (value, trial)
            self._stale = True

    def forget(self, trial: TrialMachine) -> None:
        """A trial was deleted. What it had reached is not forgotten while the machine lives."""
        self._uncount(trial.name)
        self._counted.pop(trial.name, None)
        self.unfinished.pop(trial.name, None)
        self.undurable.discard(trial.name)
        self._stale = True

    def due(self, now: float, *, idle: bool, hindrance: str, debounce: float) -> ExperimentStatus | None:
        """The status to write now; None where nothing changed, or it was written a moment ago.

        Args:
            now: The present time.
            idle: Whether all trials are finished and durable.
            hindrance: What keeps trials from being made at present.
            debounce: Seconds between two writes; the end is written without waiting.
        """
        self.wake = NEVER
        over = self.ended is not None and idle
        status = experiment_status.project(
            self._status,
            trials=experiment_status.counts(self.by_state, self._stopped_early),
            best=self._best_trial(),
            ended=self.ended,
            over=over,
            problem=self._experiment.problem,
            hindrance=hindrance,
            generation=self._experiment.generation,
            now=rfc3339(now),
        ).model_copy(update={"start_time": rfc3339(self.start(now))})
        if status == self._status:
            return None
        if not over and now < self._last_write + debounce:
            self.wake = self._last_write + debounce
            return None
        self._last_write = now
        return status

    def _best_trial(self) -> BestTrial | None:
        if self._best is None:
            return None
        trial = self._best[1]
        checkpoint = checkpoints.best(trial.status.checkpoints, self._objective)
        return BestTrial(
            trial=trial.name,
            value=trial.status.best[self._objective.metric],
            parameters=trial.spec.parameters,
            checkpoint=checkpoint.uri if checkpoint else "",
        )

    def _uncount(self, name: str) -> None:
        if name in self._counted:
            state, early = self._counted[name]
            self.by_state[state] -= 1
            self._stopped_early -= early


def _recorded_end(status: ExperimentStatus) -> Ended | None:
    """The end that an experiment has come to before."""
    for condition in status.conditions:
        if condition.status == "True" and condition.type in (ConditionType.COMPLETE, ConditionType.FAILED):
            good = condition.type == ConditionType.COMPLETE
            return Ended(ExperimentReason(condition.reason), condition.message, good)
    return None
