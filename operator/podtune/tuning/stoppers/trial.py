"""The stopper of single trials: its rules, asked after each result and when time has passed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from podtune.api.expressions.expression import Expression
from podtune.tuning.plugins import PluginFailure
from podtune.tuning.schedulers.base import CONTINUE, Metrics, Record, SchedulerAction, SchedulerDecision
from podtune.tuning.stoppers.base import StopCriterion, TrialProgress
from podtune.tuning.stoppers.expression import find_expression_problem
from podtune.tuning.stoppers.memory import TrialMemory
from podtune.tuning.stoppers.plugin_stoppers import PluginStoppers

PLUGINS = "plugins"
"""What a trial's record holds of stoppers of other packages, by key."""


@dataclass(frozen=True, slots=True)
class TrialStopRule:
    """A reason to stop a trial.

    Attributes:
        field: Where it stands in the Experiment, such as stop.trial[0].time.
        criterion: Holds when the trial is to be stopped.
        is_timed: Whether the criterion may come to hold by time alone.
        expressions: Expressions that it evaluates, by where they stand.
    """

    field: str
    criterion: StopCriterion[TrialProgress]
    is_timed: bool = False
    expressions: tuple[tuple[str, Expression], ...] = ()


class TrialStopper:
    """Stops a trial when one of its rules holds; without rules, never.

    A trial's time is that which its program has run, over all attempts, in seconds; the caller knows it. What must not
    be forgotten is in a record a trial, like a scheduler's: `restore` of all of them, in any order, makes a stopper
    that decides as the one that they came from.
    """

    def __init__(self, rules: Sequence[TrialStopRule], memory: TrialMemory, plugins: PluginStoppers) -> None:
        self._rules = tuple(rules)
        self._memory = memory
        self._plugins = plugins
        self.is_timed = any(rule.is_timed for rule in rules)
        """Whether the trial's time matters: else it need not be known."""

    def on_result(self, trial: int, metrics: Metrics, elapsed: float) -> SchedulerDecision:
        """A running trial reported a result beyond its earlier ones.

        Returns:
            STOP with the reason, or CONTINUE. A result that lacks what a rule looks at goes on.
        """
        if not self._rules:
            return CONTINUE
        self._memory.add(trial, metrics)
        self._plugins.on_result(trial, metrics)
        windows, findings = self._memory.get_windows(trial), self._plugins.get_findings(trial)
        return self._decide(TrialProgress(elapsed, metrics, windows, findings))

    def on_time(self, trial: int, elapsed: float) -> SchedulerDecision:
        """A trial keeps running without a result."""
        return self._decide(self._build_progress(trial, elapsed)) if self._rules else CONTINUE

    def find_deadline(self, trial: int, elapsed: float) -> float | None:
        """The trial's time at which it will be stopped if it reports nothing until then; None for never."""
        progress = self._build_progress(trial, elapsed)
        deadlines = [at for rule in self._rules if (at := rule.criterion.find_deadline(progress)) is not None]
        return min(deadlines, default=None)

    @property
    def failure(self) -> PluginFailure | None:
        """Which stopper of another package fails, and what to do about it; None where all work."""
        return self._plugins.failure

    def find_problem(self, trial: int, metrics: Metrics) -> str:
        """Which rule has skipped a trial's last result, and why: an expression without a value, say; empty if none."""
        for rule in self._rules:
            for field, expression in rule.expressions:
                if trouble := find_expression_problem(expression, metrics):
                    return f"{field} is passed over: {trouble}"
        return self._plugins.get_remark(trial)

    def forget(self, trial: int) -> None:
        """A trial has come to its end."""
        self._memory.forget(trial)
        self._plugins.forget(trial)

    def record(self, trial: int) -> Record:
        """What has to be remembered of a trial; empty where nothing has."""
        of_plugins = self._plugins.record(trial)
        return {**self._memory.record(trial), **({PLUGINS: of_plugins} if of_plugins else {})}

    def restore(self, trial: int, record: Record) -> None:
        """Takes in a trial's record after a restart, or after the rules were changed.

        Raises:
            RecordError: The record is not one that a stopper could have written.
        """
        self._memory.restore(trial, record)
        self._plugins.restore(trial, record.get(PLUGINS, {}))

    def _build_progress(self, trial: int, elapsed: float) -> TrialProgress:
        windows, findings = self._memory.get_windows(trial), self._plugins.get_findings(trial)
        return TrialProgress(elapsed, self._memory.get_last(trial), windows, findings)

    def _decide(self, progress: TrialProgress) -> SchedulerDecision:
        for rule in self._rules:
            finding = rule.criterion.check(progress)
            if finding is not None:
                message = f"stopped: {finding.clause}, as {rule.field} asks"
                return SchedulerDecision(SchedulerAction.STOP, message=message, inputs=finding.inputs)
        return CONTINUE
