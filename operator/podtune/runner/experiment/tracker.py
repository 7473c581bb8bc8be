"""The experiment as a whole, updated one trial at a time: counts, best result, and when to write its status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from typing_extensions import override

from podtune.api.names import ConditionType, ExperimentReason, TrialReason, TrialState
from podtune.api.resources.experiment import (
    AvoidedNode,
    BestTrial,
    ExperimentSpec,
    ExperimentStatus,
    ExperimentUsage,
    TrialCounts,
)
from podtune.api.resources.resume import Resumption
from podtune.api.resources.trial_numbers import is_added
from podtune.runner.action_queue import EXPERIMENT, ActionQueue
from podtune.runner.actions import WRITE_EXPERIMENT_STATUS, EmitEvent, WriteExperimentStatus
from podtune.runner.checkpoints.storage_work import set_storage
from podtune.runner.experiment import resumption, status_text
from podtune.runner.experiment.best import BestIndex
from podtune.runner.experiment.status_text import ExperimentOutcome, StatusInputs
from podtune.runner.experiment.suspension import Suspension
from podtune.runner.records import Experiment
from podtune.runner.scheduling import evaluations
from podtune.runner.timestamps import format_rfc3339, parse_rfc3339
from podtune.runner.trial import parameters, results
from podtune.runner.trial.machine import NEVER, TrialMachine
from podtune.runner.trial.usage import Totals
from podtune.runner.trials import TrialIndex
from podtune.tuning.schedulers.base import Metrics

STOPPED_EARLY = (TrialReason.STOPPED_BY_SCHEDULER, TrialReason.NOT_PROMOTED)


@dataclass(frozen=True, slots=True)
class Leader:
    """The best result that is recorded."""

    value: float
    trial: str
    result: Metrics


class ExperimentTracker(TrialIndex):
    """Counts trials by state and remembers the best; decides when the Experiment's status is written.

    An end of the experiment is decided, then written, then acted on, as any decision is.
    """

    def __init__(self, experiment: Experiment, spec: ExperimentSpec, actions: ActionQueue) -> None:
        self._experiment = experiment
        self._spec = spec
        self._objective = spec.objective
        self._limit = _read_limit(spec)
        self._actions = actions
        self._counted: dict[str, tuple[TrialState, bool, bool]] = {}
        self._stopped_early = 0
        self._added = 0
        self.without_result = 0
        """How many trials are in ERROR since they have no usable result."""
        self.has_result = False
        """Whether any trial has a finite value of the objective."""
        self._best = BestIndex(spec.objective, spec.search.repeats)
        self._next_look = -NEVER
        self._undurable: set[str] = set()
        self._start = parse_rfc3339(experiment.status.start_time)
        self._missing: dict[str, int] = {}
        self._missing_metrics = 0
        self._lost: dict[str, int] = {}
        self._lost_checkpoints = 0
        self._loser: TrialMachine | None = None
        """The first trial that has lost a checkpoint."""
        self._recorded_end = _read_recorded_end(experiment.status)
        self._end_to_act_on = _find_decided_end(experiment)
        self._ended_by = resumption.compute_end_key(spec)
        self._resumption: Resumption | None = None
        self.suspension = Suspension(experiment.status)
        self.is_held = False
        """Whether work is left before the end is marked as one."""
        self.by_state: Counter[TrialState] = Counter()
        self.unfinished: dict[str, TrialMachine] = {}
        self.usage = Totals()
        self.outcome = self._end_to_act_on

    def observe_experiment(self, experiment: Experiment, *, changed: bool) -> None:
        """Takes in a version of the Experiment; if the spec has changed, an unrecorded end is determined again."""
        self._experiment = experiment
        self._recorded_end = _read_recorded_end(experiment.status)
        self._end_to_act_on = _find_decided_end(experiment)
        if changed and experiment.spec is not None:
            self._ended_by = resumption.compute_end_key(experiment.spec)
            self._limit = _read_limit(experiment.spec)
        if changed:
            self.outcome = self._end_to_act_on
            if self.is_going_on:  # whether it is to is asked again
                self._resumption, self.suspension = None, Suspension(experiment.status)

    def start(self, now: float) -> float:
        """When the experiment started: now, if it had not before."""
        if self._start is None:
            self._start = now
        return self._start

    def go_on(self, following: Resumption, now: float) -> None:
        """Resumes the experiment after its end, as soon as its status says so."""
        if self._resumption is None:
            self.suspension.leave_out(parse_rfc3339(self._experiment.status.completion_time) or now, now)
        self._resumption = following
        self.outcome = None

    @property
    def is_going_on(self) -> bool:
        """Whether it was decided to resume it, but that is not on record yet."""
        return self._resumption is not None

    def follow_suspension(self, now: float, *, asked: bool, taken: int) -> None:
        """Takes in whether the experiment should be suspended, and how many trials have a pod."""
        asked = asked and self.outcome is None
        self.suspension.follow(asked=asked, taken=taken, started=self._start is not None, now=now)

    @override
    def update(self, trial: TrialMachine, now: float) -> None:
        self._count(trial)
        self._count_missing(trial)
        self.has_result = self.has_result or results.find_best_value(trial.status, self._objective.metric) is not None
        self._count_lost(trial)
        self.usage.update(trial.name, trial.status, trial.current.pods.members, now)
        if trial.is_finished:
            self.unfinished.pop(trial.name, None)
        else:
            self.unfinished[trial.name] = trial
        if trial.is_durable:
            self._undurable.discard(trial.name)
        else:
            self._undurable.add(trial.name)
        self._best.update(trial)

    @property
    def is_settled(self) -> bool:
        """Whether all existing trials have ended, durably."""
        return not self.unfinished and not self._undurable

    @property
    def is_durable(self) -> bool:
        """Whether all decisions and ends are recorded in the Trials."""
        return not self._undurable

    @property
    def is_over(self) -> bool:
        """Whether the experiment has ended and nothing of it is still running."""
        return self.outcome is not None and self.is_settled

    def find_end_time(self, now: float) -> float | None:
        """When the experiment ended; None while something of it is still running."""
        if not self.is_over:
            return None
        return parse_rfc3339(self._experiment.status.completion_time) or now

    @property
    def end_to_act_on(self) -> ExperimentOutcome | None:
        """Why the experiment ends, once its status says so."""
        return self._end_to_act_on if self.outcome is not None else None

    @property
    def leader(self) -> Leader | None:
        """The best result that the Trials have recorded, so that a restarted operator knows of it too."""
        best = self._best.result
        if best is None:
            return None
        result = results.parse_metrics(best.trial.saved.best) | {self._objective.metric: best.value}
        return Leader(best.value, best.trial.name, result)

    @property
    def best(self) -> TrialMachine | None:
        """The trial with the best result."""
        return self._best.result.trial if self._best.result is not None else None

    @property
    def is_recorded(self) -> bool:
        """Whether the end is in the status: it then stays, even if Trials are deleted later."""
        return self._recorded_end is not None

    def write(self, inputs: StatusInputs, debounce: float, now: float) -> None:
        """Requests a write of the status if it has changed; it is compared every `debounce` seconds.

        An end, and a request to the searcher, are written immediately.
        """
        decided = self.outcome is not None and self.end_to_act_on is None
        before = self._experiment.status
        refusal = inputs.refusal if self.outcome is None else None
        urgent = self.is_over or self.is_going_on or decided or inputs.asked is not None
        urgent = urgent or inputs.storage != before.storage or refusal != before.pod_refusal
        if now < self._next_look and not urgent:
            self._actions.timers.set(EXPERIMENT, self._next_look)
            return
        if not self._actions.is_ready(WRITE_EXPERIMENT_STATUS, now):
            return
        recorded = self.is_recorded and not self.is_going_on
        status = status_text.compute_status(
            self._experiment,
            inputs,
            format_rfc3339(now),
            trials=before.trials if recorded else self._build_counts(),
            best=before.best if recorded else self._find_best_trial(),
            outcome=self.outcome,
            over=self.is_over and not self.is_held,
            limit=self._limit,
            suspended=self.suspension.view,
            losses="" if recorded else self._losses,
        ).model_copy(
            update={
                "start_time": None if self._start is None else format_rfc3339(self._start),
                **self.suspension.to_fields(),
                "ended_by": before.ended_by if recorded else self._ended_by if self.is_over else "",
                "resumption": self._resumption or before.resumption,
                "proposal_request": inputs.asked or before.proposal_request,
                "pod_refusal": refusal,
                "pareto_front": before.pareto_front if recorded else list(inputs.front),
                "template": before.template if recorded else inputs.template,
                "agent_image": before.agent_image if recorded else inputs.agent_image,
                "avoided_nodes": before.avoided_nodes if recorded else list(inputs.avoided),
                "missing_metrics": before.missing_metrics if recorded else self._missing_metrics,
                "lost_checkpoints": before.lost_checkpoints if recorded else self._lost_checkpoints,
            }
        )
        status = set_storage(status, inputs.storage, now=format_rfc3339(now))
        if status != before and not recorded:
            status = status.model_copy(update={"usage": self._measure_usage(now)})  # alone it is no reason for a write
        if status == before:
            self._next_look = now + debounce
        elif self._actions.enqueue(WriteExperimentStatus(self._experiment.version, status), now):
            self._next_look = now + debounce
            self._tell_of_nodes(before.avoided_nodes, status.avoided_nodes, now)

    def _build_counts(self) -> TrialCounts:
        return status_text.build_counts(self.by_state, self._stopped_early, self._added)

    def _tell_of_nodes(self, before: Sequence[AvoidedNode], avoided: Sequence[AvoidedNode], now: float) -> None:
        known = {node.name for node in before}
        for node in avoided:
            if node.name not in known:
                message = f"node {node.name} failed {node.trials} trials and is avoided until {node.until}"
                self._actions.enqueue(EmitEvent("", ExperimentReason.NODE_AVOIDED, message, warning=True), now)

    def _count(self, trial: TrialMachine) -> None:
        state = trial.status.state or TrialState.PENDING
        early = state is TrialState.TERMINATED and trial.status.reason in STOPPED_EARLY
        without = state is TrialState.ERROR and trial.status.reason == TrialReason.NO_USABLE_RESULT
        before = self._counted.get(trial.name)
        if before == (state, early, without):
            return
        if before is None:
            self._added += is_added(trial.index)
        else:
            self.by_state[before[0]] -= 1
            self._stopped_early -= before[1]
            self.without_result -= before[2]
        self._counted[trial.name] = (state, early, without)
        self.by_state[state] += 1
        self._stopped_early += early
        self.without_result += without

    def _count_missing(self, trial: TrialMachine) -> None:
        missing = trial.status.missing_metrics
        if missing:
            self._missing_metrics += missing - self._missing.get(trial.name, 0)
            self._missing[trial.name] = missing

    def _count_lost(self, trial: TrialMachine) -> None:
        lost = trial.status.lost_checkpoint
        if lost is not None:
            self._lost_checkpoints += lost.attempts - self._lost.get(trial.name, 0)
            self._lost[trial.name] = lost.attempts
            if self._loser is None or trial.index < self._loser.index:
                self._loser = trial

    @property
    def _losses(self) -> str:
        """How many checkpoints were lost, with an example; empty where none was."""
        example = self._loser.status.lost_checkpoint if self._loser is not None else None
        if self._loser is None or example is None:
            return ""
        count = self._lost_checkpoints
        attempts = "1 attempt" if count == 1 else f"{count} attempts"
        return f"{attempts} ended before the newest checkpoint was stored; {self._loser.name}: {example.message}"

    def _measure_usage(self, now: float) -> ExperimentUsage | None:
        used = self.usage.compute_total(now)
        if not used.pod_seconds:
            return None
        return ExperimentUsage(pod_hours=_to_hours(used.pod_seconds), gpu_hours=_to_hours(used.gpu_seconds))

    def _find_best_trial(self) -> BestTrial | None:
        best = self._best.result
        if best is None:
            return None
        trial = best.trial
        repeated = len(best.values) > 1
        checkpoint = evaluations.find_representative(trial.status, self._spec)
        value = results.show(best.value) if repeated else trial.saved.best[self._objective.metric]
        spread = results.show(best.spread) if repeated else ""
        return BestTrial(
            trial=trial.name,
            value=value,
            text=f"{results.show_briefly(value)}{f' ± {results.show_briefly(spread)}' if repeated else ''}",
            spread=spread,
            repeats=len(best.values) if repeated else 0,
            parameters=parameters.find_best(trial.spec, trial.saved),
            checkpoint=checkpoint.uri if checkpoint else "",
        )


def _read_limit(spec: ExperimentSpec) -> int | None:
    """How many trials there will be; None where that is open."""
    limit = spec.search.max_trials
    return limit if isinstance(limit, int) else None


def _to_hours(seconds: float) -> float:
    return round(max(0.0, seconds) / 3600, 4)


def _read_recorded_end(status: ExperimentStatus) -> ExperimentOutcome | None:
    """The recorded end of an experiment."""
    return next((end for end, _ in _list_ends(status, ConditionType.COMPLETE, ConditionType.FAILED)), None)


def _find_decided_end(experiment: Experiment) -> ExperimentOutcome | None:
    """The recorded end of an experiment, or the one that its current spec leads to."""
    decided = _list_ends(experiment.status, ConditionType.SUCCESS_CRITERIA_MET, ConditionType.FAILURE_TARGET)
    present = (end for end, generation in decided if generation == experiment.generation)
    return _read_recorded_end(experiment.status) or next(present, None)


def _list_ends(
    status: ExperimentStatus, good: ConditionType, bad: ConditionType
) -> Iterator[tuple[ExperimentOutcome, int]]:
    """The ends that the conditions of two types tell of, each with the generation that it was told of."""
    for condition in status.conditions:
        if condition.status == "True" and condition.type in (good, bad):
            end = ExperimentOutcome(ExperimentReason(condition.reason), condition.message, good=condition.type == good)
            yield end, condition.observed_generation
