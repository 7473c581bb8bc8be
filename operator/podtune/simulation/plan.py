"""What an experiment will take, before it runs: trials at each rung, GPU-hours, cost.

Rungs follow from the settings. How many trials get to each depends on who runs beside whom, so it is counted in
simulations of the experiment, with the operator's own code, in which the worth of each trial is drawn by lot.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from typing_extensions import override

from podtune.api.names import DecisionKind
from podtune.api.pods.gpus import count_requested_gpus
from podtune.api.pods.limit_names import select_limits
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.gang_roles import RankedRole
from podtune.api.tuning.objective import Objective
from podtune.api.tuning.search_space import parse_configuration
from podtune.runner import resources
from podtune.simulation.cluster import ClusterModel, set_limits
from podtune.simulation.curves.base import Curves, LearningCurve
from podtune.simulation.horizon import ITERATIONS, compute_time_per_iteration, find_iteration_limit
from podtune.simulation.rung_plan import PlannedBracket, plan_brackets, plan_milestones
from podtune.simulation.simulation import Simulation
from podtune.simulation.trace import SimulationResult
from podtune.tuning.randomness import build_generator
from podtune.tuning.schedulers.factory import make_scheduler
from podtune.tuning.searchers.base import Configuration

_SECONDS_AN_HOUR = 3600.0
RUNS = 3
"""Simulations that the expected numbers are means of, at most."""
_MAX_TRIALS = 600
"""Trials that are simulated altogether; where there are more, their numbers follow from these."""
FINITE = ("grid", "bruteForce")
"""Searchers that may end before `maxTrials`; the others' numbers don't depend on what they propose."""
ERROR = 0.5
"""Error of a trial's first result, as a share of what its worth may be; it shrinks as training goes on."""


@dataclass(frozen=True, slots=True)
class PlannedRung:
    """A rung, or the end of training.

    Attributes:
        time: Where it is, in units of the time attribute.
        trials: How many trials are expected to get there.
        further: How many are expected to train on.
        gpu_hours: GPU time spent on the way there from the rung before, by all of them.
    """

    time: int
    trials: float
    further: float
    gpu_hours: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be expected of an experiment.

    Attributes:
        algorithm: How configurations are proposed.
        scheduler: Which trials go on.
        time_attribute: What rungs are counted in.
        trials: How many trials there will be.
        at_once: How many of them run at the same time.
        iterations: How many iterations a whole training has.
        seconds: How long one takes.
        evaluations: How many trials are expected to be evaluated; None where none is.
        gpus_an_evaluation: How many GPUs an evaluation has.
        gpus_a_trial: How many GPUs a trial has; 1 where its one pod asks for none.
        brackets: The scheduler's brackets.
        rungs: Where it looks at trials, lowest first, and the end of training.
        decisions: How many decisions of each kind are expected, by the ledger's words.
        hours: How long the experiment takes.
        gpu_hours: GPU time of all trials together, starts of pods included.
        whole_gpu_hours: GPU time if every trial ran to its end.
        notes: What was taken for granted, a sentence each.
    """

    algorithm: str
    scheduler: str
    time_attribute: str
    trials: int
    at_once: int
    iterations: int
    seconds: float
    evaluations: float | None
    gpus_an_evaluation: float
    gpus_a_trial: float
    brackets: tuple[PlannedBracket, ...]
    rungs: tuple[PlannedRung, ...]
    decisions: Mapping[str, float]
    hours: float
    gpu_hours: float
    whole_gpu_hours: float
    notes: tuple[str, ...]


def make_plan(spec: ExperimentSpec, model: ClusterModel, *, seconds: float, iterations: int | None = None) -> Plan:
    """Plans an experiment.

    Args:
        spec: What is asked for.
        model: What the cluster is like.
        seconds: How long an iteration takes.
        iterations: How many iterations a whole training has; None for as many as the manifest lets it have.

    Raises:
        SimulationError: The experiment can't run on this cluster.
    """
    length = iterations or find_iteration_limit(spec, seconds) or ITERATIONS
    advance = compute_time_per_iteration(spec, seconds)
    simulated = _make_simulable(spec)
    if spec.scheduler.needs_store is None and spec.evaluation is None:
        model = replace(model, checkpoint_every=0)  # they hold a pod for some seconds at its end, and take our time
    outcomes = [_run(simulated, model, seed, length, seconds) for seed in range(_runs(simulated.search.trial_limit))]
    scale = _compute_scale(spec, simulated, outcomes)
    trials = _mean(len(outcome.trials) for outcome in outcomes) * scale
    gpus = _average_gpus(spec, outcomes)
    of_rungs = any(rung.counts_gpus for rung in spec.scheduler.resources)
    counts = bool(gpus) or of_rungs or spec.trial_template.pod_count == 1
    a_trial = _count_gpus(gpus, spec.trial_template.pod_count) * (length * seconds + model.pod_start)
    of_evaluation = count_requested_gpus(spec.evaluation.template.spec) if spec.evaluation is not None else 0.0
    a_trial += of_evaluation * (model.pod_start + model.restore + model.evaluation)
    return Plan(
        algorithm=spec.search.algorithm,
        scheduler=spec.scheduler.name,
        time_attribute=make_scheduler(spec).time_attribute,
        trials=round(trials),
        at_once=spec.max_concurrent_trials,
        iterations=length,
        seconds=seconds,
        evaluations=_count_evaluations(outcomes) * scale if spec.evaluation is not None else None,
        gpus_an_evaluation=of_evaluation,
        gpus_a_trial=_count_gpus(gpus, spec.trial_template.pod_count),
        brackets=plan_brackets(spec),
        rungs=_plan_rungs(
            spec, plan_milestones(spec, math.ceil(length * advance)), outcomes, scale, seconds=seconds, advance=advance
        ),
        decisions=_count_decisions(outcomes, scale),
        hours=_mean(outcome.seconds for outcome in outcomes) * scale / _SECONDS_AN_HOUR,
        gpu_hours=_mean(outcome.gpu_hours for outcome in outcomes) * scale if counts else 0.0,
        whole_gpu_hours=trials * a_trial / _SECONDS_AN_HOUR,
        notes=tuple(_list_notes(spec, iterations, seconds, scale)),
    )


class LotteryCurves(Curves):
    """Every trial's worth is drawn by lot, whatever its configuration; early results tell it with an error.

    The values are bad ones, far apart, so that no threshold of a stopper is reached and no plateau: when results end a
    trial or the experiment can't be foreseen.
    """

    SCALE = 1e9

    def __init__(self, objective: Objective, *, iterations: int, seconds: float, seed: int) -> None:
        """Makes the curves of an experiment; for the arguments see `SyntheticCurves`."""
        self.objective = objective
        self.iterations = iterations
        self.seconds = seconds
        self._seed = seed

    @property
    @override
    def optimum(self) -> None:
        """There is none."""
        return

    @override
    def build_curve(self, configuration: Configuration, trial: int) -> LearningCurve:
        """Draws the worth of a trial, and the error of its first result."""
        random = build_generator(self._seed, "worth", trial)
        return _LotteryCurve(self, random.random(), random.gauss(0.0, ERROR))


class _LotteryCurve(LearningCurve):
    def __init__(self, curves: LotteryCurves, worth: float, error: float) -> None:
        self._curves = curves
        self._worth = worth
        self._error = error

    @property
    @override
    def length(self) -> int:
        return self._curves.iterations

    @override
    def compute_metrics(self, iteration: int) -> Mapping[str, float]:
        cost = 10.0 - self._worth - self._error / math.sqrt(iteration)
        return {
            criterion.metric: LotteryCurves.SCALE * (cost if criterion.mode == "min" else -cost)
            for criterion in self._curves.objective.criteria
        }

    @override
    def compute_seconds(self, iteration: int) -> float:
        return self._curves.seconds


def _make_simulable(spec: ExperimentSpec) -> ExperimentSpec:
    """The experiment as it is simulated: without what needs a cluster or Optuna, with as many trials as needed."""
    search = spec.search
    changes: dict[str, object] = {"max_trials": min(search.trial_limit, _MAX_TRIALS), "warm_start": None}
    if search.algorithm not in FINITE:
        changes["algorithm"] = "random"
    return spec.model_copy(update={"search": search.model_copy(update=changes)})


def _run(spec: ExperimentSpec, model: ClusterModel, seed: int, iterations: int, seconds: float) -> SimulationResult:
    curves = LotteryCurves(spec.objective, iterations=iterations, seconds=seconds, seed=seed)
    return Simulation(spec, curves, model, seed=seed).run()


def _runs(trials: int) -> int:
    return max(1, min(RUNS, _MAX_TRIALS // trials))


def _compute_scale(spec: ExperimentSpec, simulated: ExperimentSpec, outcomes: Sequence[SimulationResult]) -> float:
    """How many times as many trials there will be as were simulated, where those came to their number's end."""
    limit = simulated.search.trial_limit
    if isinstance(spec.search.max_trials, str) or any(len(outcome.trials) < limit for outcome in outcomes):
        return 1.0
    return spec.search.trial_limit / limit


def _plan_rungs(
    spec: ExperimentSpec,
    milestones: Sequence[int],
    outcomes: Sequence[SimulationResult],
    scale: float,
    *,
    seconds: float,
    advance: float,
) -> tuple[PlannedRung, ...]:
    """Counts how far trials got.

    Args:
        spec: The experiment.
        milestones: Where the scheduler looks at trials, in units of the time attribute.
        outcomes: How the simulations went.
        scale: How many times as many trials there will be as were simulated.
        seconds: How long an iteration takes.
        advance: By how much it advances the time attribute.
    """
    reached = [[trial.status.iteration * advance for trial in outcome.trials] for outcome in outcomes]
    hours = seconds / advance / _SECONDS_AN_HOUR
    planned = []
    for passed, (before, milestone) in enumerate(pairwise([0, *milestones])):
        times = _mean(sum(min(i, milestone) - before for i in run if i > before) for run in reached)
        gpus = _count_gpus(_average_gpus(spec, outcomes, passed), spec.trial_template.pod_count)
        planned.append(
            PlannedRung(
                time=milestone,
                trials=scale * _mean(sum(i >= milestone for i in run) for run in reached),
                further=scale * _mean(sum(i > milestone for i in run) for run in reached),
                gpu_hours=scale * times * gpus * hours,
            )
        )
    return tuple(planned)


def _count_evaluations(outcomes: Sequence[SimulationResult]) -> float:
    return _mean(sum(trial.status.evaluation is not None for trial in outcome.trials) for outcome in outcomes)


def _count_decisions(outcomes: Sequence[SimulationResult], scale: float) -> dict[str, float]:
    """Counts what the ledgers of the trials hold, by kind; decisions to let a trial be are left out."""
    counts = Counter(decided.entry.action for outcome in outcomes for decided in outcome.decisions)
    told = sorted(action for action in counts if action != DecisionKind.CONTINUE)
    return {action: scale * counts[action] / len(outcomes) for action in told}


def _list_notes(spec: ExperimentSpec, iterations: int | None, seconds: float, scale: float) -> Iterator[str]:
    if iterations is None and find_iteration_limit(spec, seconds) is None:
        yield f"nothing in the manifest ends a training: {ITERATIONS} iterations are taken for granted"
    if spec.trial_template.has_computed_limits:
        yield "resources follow from parameters: GPUs per trial are the mean of the simulated trials"
    if not spec.trial_template.may_use_gpus and spec.trial_template.pod_count > 1:
        yield "the template asks for no GPU, and none is counted for the pods of a gang"
    elif not spec.trial_template.may_use_gpus:
        yield "the template asks for no GPU: each pod is counted as if it had one"
    if getattr(spec.search, "warm_start", None) is not None:
        yield "what the earlier experiment knows is left out: it is in the cluster"
    if scale > 1:
        yield f"numbers follow from those of {_MAX_TRIALS} trials"


def _average_gpus(spec: ExperimentSpec, outcomes: Sequence[SimulationResult], passed: int = 0) -> float:
    """How many GPUs a trial asks for that has passed so many rungs; the mean where that follows from parameters."""
    template = spec.trial_template
    trials = [trial for outcome in outcomes for trial in outcome.trials] if template.has_computed_limits else []
    configurations = [parse_configuration(spec.parameters, trial.spec.parameters) for trial in trials] or [{}]
    given = [resources.compose_limits(spec, values, passed) for values in configurations]
    return math.fsum(
        role.replicas * _mean(_count_gpus_of_pod(role, limits.limits) for limits in given)
        for role in template.ranked_roles
    )


def _count_gpus_of_pod(role: RankedRole, limits: Mapping[str, str]) -> float:
    """How many GPUs a pod of a role asks for with these limits."""
    return count_requested_gpus(set_limits(role.template.spec, select_limits(limits, role.name)))


def _count_gpus(gpus: float, replicas: int) -> float:
    """How many GPUs a trial is counted with: a single pod that asks for none, with one; a gang, with none."""
    return gpus or (1.0 if replicas == 1 else 0.0)


def _mean(numbers: Iterable[float]) -> float:
    listed = list(numbers)
    return math.fsum(listed) / len(listed)
