"""From a manifest's rules to stoppers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from podtune.api.base import parse_duration
from podtune.api.expressions.expression import Expression
from podtune.api.names import ExperimentReason
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.tuning import stop
from podtune.api.tuning.objective import Objective
from podtune.trial.layout import ITERATION
from podtune.tuning.stoppers.base import ExperimentProgress, StopCriterion, TrialProgress
from podtune.tuning.stoppers.budgets import CostReached, FailuresReached, GpuHoursUsed, TargetReached
from podtune.tuning.stoppers.combination import AllOf
from podtune.tuning.stoppers.experiment import ExperimentStopper, ExperimentStopRule
from podtune.tuning.stoppers.expression import BestResultHolds, LastResultHolds
from podtune.tuning.stoppers.memory import TrialMemory
from podtune.tuning.stoppers.metrics import IterationsReached, MetricThresholds
from podtune.tuning.stoppers.observation_rules import ObservationRule
from podtune.tuning.stoppers.plateau import ExperimentPlateauReached, Leaders, TrialPlateauReached
from podtune.tuning.stoppers.plugin_stoppers import PluginRule, PluginStoppers
from podtune.tuning.stoppers.time import TotalTimeLimit, TrainingTimeLimit
from podtune.tuning.stoppers.trial import TrialStopper, TrialStopRule

CriterionT = TypeVar("CriterionT", bound=stop.OneOf)
_REASONS = {
    "time": ExperimentReason.TIME_LIMIT,
    "target": ExperimentReason.TARGET_REACHED,
    "plateau": ExperimentReason.PLATEAU_REACHED,
    "failures": ExperimentReason.FAILURE_BUDGET_EXCEEDED,
    "gpu_hours": ExperimentReason.BUDGET_EXHAUSTED,
    "cost": ExperimentReason.BUDGET_EXHAUSTED,
}


def make_trial_stopper(spec: ExperimentSpec) -> TrialStopper:
    """Makes the stopper of single trials that an experiment asks for.

    Raises:
        PluginError: A stopper of another package can't be made.
    """
    return _TrialFactory(spec.training_objective).make(spec.stop)


def make_experiment_stopper(spec: ExperimentSpec) -> ExperimentStopper:
    """Makes the stopper of the whole experiment that it asks for.

    Raises:
        PluginError: A stopper of another package can't be made.
    """
    return _ExperimentFactory(spec.objective).make(spec)


class _TrialFactory:
    """Makes rules, and gathers what they have to remember."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._windows: dict[str, int] = {}
        self._last: set[str] = set()
        self._plugins = PluginStoppers(objective)

    def make(self, asked: stop.Stop) -> TrialStopper:
        rules: list[TrialStopRule] = []
        if asked.metrics:
            rules.append(TrialStopRule("stop.metrics", MetricThresholds(asked.metrics, self._objective)))
        for field, group in _list_groups("stop.trial", [(rule, rule.all_of, rule.any_of) for rule in asked.trial]):
            rules.append(self._build_rule(field, group))
        return TrialStopper(rules, TrialMemory(self._windows, self._last), self._plugins)

    def _build_rule(self, field: str, group: Sequence[tuple[str, stop.TrialCriterion]]) -> TrialStopRule:
        parts = [self._build_criterion(path, given) for path, given in group]
        expressions = tuple((path, Expression(given.expression)) for path, given in group if given.expression)
        is_timed = any(given.time is not None for _, given in group)
        if is_timed and len(group) > 1:  # together they may come to hold between two results
            self._last.update(name for _, given in group for name in _list_metrics(given))
        return TrialStopRule(field, parts[0] if len(parts) == 1 else AllOf(parts), is_timed, expressions)

    def _build_criterion(self, path: str, given: stop.TrialCriterion) -> StopCriterion[TrialProgress]:
        if given.iterations is not None:
            return IterationsReached(given.iterations)
        if given.time is not None:
            return TrainingTimeLimit(parse_duration(given.time))
        if given.metrics is not None:
            return MetricThresholds(given.metrics, self._objective)
        if given.expression is not None:
            return LastResultHolds(Expression(given.expression))
        if given.plugin is not None:
            return PluginRule(self._plugins.add_rule(path, given.plugin))
        assert given.plateau is not None  # the model holds that there is exactly one
        criterion = TrialPlateauReached(given.plateau, self._objective)
        self._windows[criterion.metric] = max(self._windows.get(criterion.metric, 0), given.plateau.window)
        return criterion


class _ExperimentFactory:
    """Makes rules, and gathers those of their parts that someone has to know."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._leaders: list[Leaders] = []
        self._targets: list[TargetReached] = []
        self._plugins: list[ObservationRule] = []

    def make(self, spec: ExperimentSpec) -> ExperimentStopper:
        rules: list[ExperimentStopRule] = []
        if spec.failures.fail_fast:
            first = FailuresReached(stop.FailureBudget(count=1))
            rules.append(ExperimentStopRule("failures.failFast", first, ExperimentReason.FAIL_FAST, good=False))
        if spec.stop.total_time is not None:
            limit = TotalTimeLimit(parse_duration(spec.stop.total_time))
            rules.append(ExperimentStopRule("stop.totalTime", limit, ExperimentReason.TIME_LIMIT))
        for field, group in _list_groups(
            "stop.experiment", [(rule, rule.all_of, rule.any_of) for rule in spec.stop.experiment]
        ):
            rules.append(self._build_rule(field, group))
        return ExperimentStopper(rules, self._leaders, self._targets, self._plugins)

    def _build_rule(self, field: str, group: Sequence[tuple[str, stop.ExperimentCriterion]]) -> ExperimentStopRule:
        parts = [self._build_criterion(path, given) for path, given in group]
        reasons = {_find_reason(given) for _, given in group}
        return ExperimentStopRule(
            field,
            parts[0] if len(parts) == 1 else AllOf(parts),
            reasons.pop() if len(reasons) == 1 else ExperimentReason.CRITERIA_MET,
            good=all(given.failures is None for _, given in group),
        )

    def _build_criterion(self, path: str, given: stop.ExperimentCriterion) -> StopCriterion[ExperimentProgress]:
        if given.time is not None:
            return TotalTimeLimit(parse_duration(given.time))
        if given.failures is not None:
            return FailuresReached(given.failures)
        if given.gpu_hours is not None:
            return GpuHoursUsed(given.gpu_hours)
        if given.cost is not None:
            return CostReached(given.cost)
        if given.expression is not None:
            return BestResultHolds(Expression(given.expression))
        if given.target is not None:
            self._targets.append(TargetReached(given.target, self._objective))
            return self._targets[-1]
        if given.plugin is not None:
            self._plugins.append(ObservationRule(path, given.plugin, self._objective))
            return self._plugins[-1]
        assert given.plateau is not None  # the model holds that there is exactly one
        self._leaders.append(Leaders(given.plateau, self._objective))
        return ExperimentPlateauReached(self._leaders[-1])


def _list_groups(
    path: str, rules: Iterable[tuple[CriterionT, Sequence[CriterionT] | None, Sequence[CriterionT] | None]]
) -> Iterator[tuple[str, list[tuple[str, CriterionT]]]]:
    """Rules as groups of criteria, each with its path, that have to hold together.

    Args:
        path: Where the rules stand.
        rules: Each with what it has under `all` and under `any`; the parts of the latter are groups of their own.
    """
    for index, (rule, all_of, any_of) in enumerate(rules):
        here = f"{path}[{index}]"
        if all_of is not None:
            yield f"{here}.all", [(f"{here}.all[{part}].{given.field}", given) for part, given in enumerate(all_of)]
            continue
        alternatives = [(here, rule)]
        if any_of is not None:
            alternatives = [(f"{here}.any[{part}]", given) for part, given in enumerate(any_of)]
        for where, given in alternatives:
            yield f"{where}.{given.field}", [(f"{where}.{given.field}", given)]


def _list_metrics(given: stop.TrialCriterion) -> Sequence[str]:
    """The metrics of the last result that a criterion looks at."""
    if given.expression is not None:
        return Expression(given.expression).names
    if given.iterations is not None:
        return (ITERATION,)
    return tuple(given.metrics or ())


def _find_reason(given: stop.ExperimentCriterion) -> ExperimentReason:
    return _REASONS.get(given.given, ExperimentReason.CRITERIA_MET)
