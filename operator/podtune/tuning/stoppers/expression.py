"""Expressions over a result."""

from __future__ import annotations

from typing_extensions import override

from podtune.api.expressions.expression import Expression, ExpressionError
from podtune.tuning.numbers import shorten
from podtune.tuning.schedulers.base import Metrics
from podtune.tuning.stoppers.base import ExperimentProgress, Finding, StopCriterion, TrialProgress


class LastResultHolds(StopCriterion[TrialProgress]):
    """Holds while an expression is true for a trial's last result.

    Example:
        stop: {trial: [{expression: "loss > 10 and epoch > 3"}]}
    """

    def __init__(self, expression: Expression) -> None:
        self._expression = expression

    @override
    def check(self, progress: TrialProgress) -> Finding | None:
        """Evaluates the expression; one without a value, for example because a metric is missing, does not hold."""
        return _find(self._expression, progress.metrics)


class BestResultHolds(StopCriterion[ExperimentProgress]):
    """Holds while an expression is true for an experiment's best result.

    Example:
        stop: {experiment: [{expression: "accuracy > 0.9 and latency < 20"}]}
    """

    def __init__(self, expression: Expression) -> None:
        self._expression = expression

    @override
    def check(self, progress: ExperimentProgress) -> Finding | None:
        """Evaluates the expression; while there is no result it does not hold."""
        finding = _find(self._expression, progress.best_result) if progress.best_result else None
        if finding is None:
            return None
        return Finding(f"of the best result, {progress.best_trial}'s, {finding.clause}", finding.inputs)


def find_expression_problem(expression: Expression, metrics: Metrics) -> str:
    """Why an expression has no value for a result; empty where it has one."""
    try:
        expression.holds(metrics)
    except ExpressionError as error:
        return str(error)
    return ""


def _find(expression: Expression, metrics: Metrics) -> Finding | None:
    if find_expression_problem(expression, metrics) or not expression.holds(metrics):
        return None
    used = {name: metrics[name] for name in expression.names if name in metrics}
    shown = ", ".join(f"{name} {_show(value)}" for name, value in used.items())
    clause = f"{expression.text} holds" + (f" ({shown})" if shown else "")
    return Finding(clause, {"expression": expression.text, **used})


def _show(value: float | int | str | bool) -> str:
    return shorten(value) if isinstance(value, float) else str(value)
