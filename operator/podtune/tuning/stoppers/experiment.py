"""The stopper of the whole experiment: its rules, asked whenever something happened or time has passed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podtune.api.names import ExperimentReason
from podtune.tuning.plugins import PluginFailure
from podtune.tuning.searchers.base import Observation
from podtune.tuning.stoppers.base import ExperimentProgress, StopCriterion
from podtune.tuning.stoppers.budgets import TargetReached
from podtune.tuning.stoppers.observation_rules import ObservationRule
from podtune.tuning.stoppers.plateau import Leaders


@dataclass(frozen=True, slots=True)
class ExperimentStopRule:
    """A reason to end an experiment.

    Attributes:
        field: Where it stands in the Experiment, such as stop.experiment[0].target.
        criterion: Holds when the experiment is to end.
        reason: The reason in a word.
        good: Whether it is a good end; else the experiment has failed.
    """

    field: str
    criterion: StopCriterion[ExperimentProgress]
    reason: ExperimentReason
    good: bool = True


@dataclass(frozen=True, slots=True)
class ExperimentStopDecision:
    """Why an experiment is to end.

    Attributes:
        message: The reason in a sentence, with its numbers.
        good: Whether it is a good end; else the experiment has failed.
    """

    reason: ExperimentReason
    message: str
    inputs: Mapping[str, float | int | str]
    good: bool


class ExperimentStopper:
    """Ends an experiment when one of its rules holds; without rules, never.

    It remembers nothing that can't be told it again: what it looks at follows from the Trials, and it is told of those
    that have ended in the order that they record.
    """

    def __init__(
        self,
        rules: Sequence[ExperimentStopRule],
        leaders: Sequence[Leaders],
        targets: Sequence[TargetReached],
        plugins: Sequence[ObservationRule] = (),
    ) -> None:
        """Makes a stopper.

        Args:
            rules: Of those that hold the first one is the reason.
            leaders: Those of their parts that have to be told of ended trials.
            targets: Those of their parts that a single result may decide.
            plugins: Those of their parts that other packages provide.
        """
        self._rules = tuple(rules)
        self._leaders = tuple(leaders)
        self._targets = tuple(targets)
        self._plugins = tuple(plugins)

    @property
    def has_rules(self) -> bool:
        """Whether there is anything that could end the experiment."""
        return bool(self._rules)

    @property
    def failure(self) -> PluginFailure | None:
        """Which stopper of another package has failed, and what to do about it; None where none has."""
        return next((plugin.failure for plugin in self._plugins if plugin.failure is not None), None)

    def on_observation(self, observation: Observation) -> None:
        """Hears what the searcher is told, in the same order."""
        for plugin in self._plugins:
            plugin.tell(observation)
        if observation.final:
            self.on_trial_end(observation.value)

    def on_trial_end(self, best: float | None) -> None:
        """A trial has ended, and this is recorded.

        Args:
            best: Its best value of the objective; None where it has none, or ended in ERROR.
        """
        if best is not None:
            for leaders in self._leaders:
                leaders.tell(best)

    def check(self, progress: ExperimentProgress) -> ExperimentStopDecision | None:
        """Looks at the experiment; None where it goes on."""
        for rule in self._rules:
            finding = rule.criterion.check(progress)
            if finding is not None:
                message = f"stopped: {finding.clause}, as {rule.field} asks"
                return ExperimentStopDecision(rule.reason, message, finding.inputs, rule.good)
        return None

    def find_deadline(self, progress: ExperimentProgress) -> float | None:
        """The value of `progress.elapsed` at which it ends if nothing happens until then; None for never."""
        deadlines = [at for rule in self._rules if (at := rule.criterion.find_deadline(progress)) is not None]
        return min(deadlines, default=None)

    def is_decided_by(self, value: float) -> bool:
        """Whether a value of the objective may end the experiment: it is worth recording at once."""
        return any(target.is_reached_by(value) for target in self._targets)
