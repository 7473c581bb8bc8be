"""When to stop a trial or the whole experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar

from pydantic import Field, model_validator

from podtune.api.base import ApiModel, Duration, FieldError, parse_duration
from podtune.api.expressions.expression import ExpressionText
from podtune.api.tuning.objective import MetricName
from podtune.api.tuning.plugin import Plugin

MAX_RULES = 16
"""Longest list of rules."""
MAX_PLUGINS = 16
"""Most rules that are plugins: a trial's status holds what they remember."""
MAX_WINDOW = 50
"""Most results that a plateau is looked for in: a trial's status holds their values."""

Thresholds = dict[MetricName, float]
CriterionT = TypeVar("CriterionT", bound="OneOf")


class OneOf(ApiModel):
    """One reason to stop: an object with exactly one field set."""

    time: Duration | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_groups(cls, given: Any) -> Any:
        """A schema of the API server's can't refer to itself, so groups don't hold groups."""
        if isinstance(given, Mapping) and "all_of" not in cls.model_fields:
            for name in ("all", "any"):
                if name in given:
                    problem = f"{name} can't be used inside a group; give it its own entry in the list above"
                    raise FieldError(name, problem)
        return given

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [name for name, value in self if value is not None]
        if len(given) != 1:
            names = ", ".join(field.alias or name for name, field in type(self).model_fields.items())
            found = ", ".join(type(self).model_fields[name].alias or name for name in given)
            remedy = "start a new entry, with a dash, for each" if given else "name one"
            raise ValueError(f"needs exactly one of {names}; found {found or 'none'}; {remedy}")
        _check_time("time", self.time)
        return self

    @property
    def given(self) -> str:
        """The one field that is given, as in Python."""
        return next(name for name, value in self if value is not None)

    @property
    def field(self) -> str:
        """The same, as in a manifest."""
        return type(self).model_fields[self.given].alias or self.given


class TrialPlateau(ApiModel):
    """A trial whose metric no longer changes."""

    metric: MetricName | None = Field(default=None, description="The metric to watch. Defaults to the objective's.")
    window: int = Field(default=10, ge=2, le=MAX_WINDOW, description="How many of the last results to look at.")
    tolerance: float = Field(
        default=0.001, ge=0, description="The plateau is reached when their standard deviation is at most this."
    )
    grace: int = Field(default=0, ge=0, description="How many results to wait for before looking for a plateau.")
    threshold: float | None = Field(
        default=None,
        description=(
            "A plateau counts only if the last value has reached this: at least this, or at most this for an "
            "objective's metric with mode min."
        ),
    )


class TrialCriterion(OneOf):
    """One reason to stop a trial: exactly one field."""

    iterations: int | None = Field(
        default=None, ge=1, description="The trial has reached this training_iteration, over all its attempts."
    )
    time: Duration | None = Field(
        default=None,
        description=(
            "Its program has run for this long, over all attempts. Waiting for a node, starting a pod, pauses and "
            "backoffs don't count."
        ),
    )
    metrics: Thresholds | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_RULES,
        description=(
            "One of these metrics has reached its value: at least the value, or at most the value for an objective's "
            "metric with mode min."
        ),
    )
    plateau: TrialPlateau | None = Field(default=None, description="A metric no longer changes.")
    expression: ExpressionText | None = Field(
        default=None,
        description=(
            "This expression is true for the last result, such as: loss > 10 or isnan(loss). Results that lack a "
            'metric it needs are skipped. Write names that are not identifiers as value("val/loss").'
        ),
    )
    plugin: Plugin | None = Field(
        default=None, description="A custom stopper that is installed in the operator's image stops the trial."
    )


class TrialRule(TrialCriterion):
    """One reason to stop a trial, or several together: exactly one field."""

    all_of: list[TrialCriterion] | None = Field(
        default=None,
        alias="all",
        min_length=2,
        max_length=MAX_RULES,
        description=(
            "All of these hold at the same time. Criteria on results keep their last outcome until the next result."
        ),
    )
    any_of: list[TrialCriterion] | None = Field(
        default=None, alias="any", min_length=2, max_length=MAX_RULES, description="One of these holds."
    )


class ExperimentPlateau(ApiModel):
    """An experiment whose best trials no longer improve."""

    top: int = Field(default=10, ge=2, le=1000, description="How many of the best ended trials to look at.")
    tolerance: float = Field(
        default=0.001,
        ge=0,
        description="They are on a plateau when the standard deviation of their best values is at most this.",
    )
    patience: int = Field(
        default=0, ge=0, le=100_000, description="The plateau must last for this many ended trials in a row."
    )


class FailureBudget(ApiModel):
    """How many trials may end in ERROR: exactly one of count and share."""

    count: int | None = Field(
        default=None, ge=1, description="The experiment fails when this many trials are in ERROR."
    )
    share: float | None = Field(
        default=None, gt=0, le=1, description="It fails when this share of the ended trials is in ERROR."
    )
    after: int | None = Field(
        default=None, ge=1, description="The share counts only once this many trials have ended. Defaults to 10."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.count is None) == (self.share is None):
            found = "neither" if self.count is None else "both"
            raise ValueError(f"needs exactly one of count, share; found {found}; give one")
        if self.after is not None and self.share is None:
            raise FieldError("after", "after applies to share, not to count; remove it")
        return self


class CostBudget(ApiModel):
    """What the experiment may cost."""

    budget: float = Field(gt=0, description="The experiment ends when this amount is spent, in any currency.")
    per_gpu_hour: float | None = Field(
        default=None, gt=0, description="Price of a GPU per hour. A MIG device costs its share, in sevenths."
    )
    per_pod_hour: float | None = Field(
        default=None, gt=0, description="Price of a pod per hour without its GPUs, from when it is scheduled."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.per_gpu_hour is None and self.per_pod_hour is None:
            raise ValueError("needs perGpuHour, perPodHour or both; without a price nothing is ever spent")
        return self


class ExperimentCriterion(OneOf):
    """One reason to end an experiment: exactly one field."""

    time: Duration | None = Field(
        default=None,
        description="This much time has passed since the first trial was created, no matter what ran.",
    )
    target: float | None = Field(
        default=None,
        description="The best value of the objective is at least this, or at most this with mode min.",
    )
    plateau: ExperimentPlateau | None = Field(default=None, description="The best trials no longer improve.")
    failures: FailureBudget | None = Field(
        default=None, description="Too many trials ended in ERROR. The experiment then fails."
    )
    gpu_hours: float | None = Field(
        default=None,
        gt=0,
        description=(
            "This many GPU-hours are used. Each pod counts from when it is scheduled to its end, for each GPU that it "
            "requests; a MIG device counts as its share, in sevenths."
        ),
    )
    cost: CostBudget | None = Field(default=None, description="This much money is spent.")
    expression: ExpressionText | None = Field(
        default=None,
        description="This expression is true for the best result so far, such as: accuracy > 0.9 and latency < 20.",
    )
    plugin: Plugin | None = Field(
        default=None, description="A custom stopper that is installed in the operator's image ends the experiment."
    )

    @property
    def bounds(self) -> bool:
        """Whether this alone may end a search without maxTrials."""
        return self.failures is None and self.expression is None and self.plugin is None


class ExperimentRule(ExperimentCriterion):
    """One reason to end an experiment, or several together: exactly one field."""

    all_of: list[ExperimentCriterion] | None = Field(
        default=None,
        alias="all",
        min_length=2,
        max_length=MAX_RULES,
        description="All of these hold at the same time. If one of them is failures, the experiment fails.",
    )
    any_of: list[ExperimentCriterion] | None = Field(
        default=None, alias="any", min_length=2, max_length=MAX_RULES, description="One of these holds."
    )

    @property
    def bounds(self) -> bool:
        """Whether this may end a search without maxTrials: of `all` each one has to, of `any` one."""
        if self.all_of is not None:
            return all(criterion.bounds for criterion in self.all_of)
        if self.any_of is not None:
            return any(criterion.bounds for criterion in self.any_of)
        return super().bounds


class Stop(ApiModel):
    """When to stop a trial or the whole experiment."""

    now: bool | None = Field(
        default=None,
        description=(
            "If true, the experiment ends now: its trials are stopped after their last checkpoints are stored, and no "
            "more are created. Remove it to resume the experiment."
        ),
    )
    metrics: Thresholds = Field(
        default_factory=dict,
        max_length=MAX_RULES,
        description=(
            "A trial is stopped when one of these metrics reaches its value: at least the value, or at most the value "
            "for an objective's metric with mode min."
        ),
    )
    total_time: Duration | None = Field(
        default=None,
        description=(
            "The experiment ends after this time, such as 2h: running trials are stopped, and no more are created."
        ),
    )
    trial: list[TrialRule] = Field(
        default_factory=list, max_length=MAX_RULES, description="A trial is stopped when one of these rules holds."
    )
    experiment: list[ExperimentRule] = Field(
        default_factory=list, max_length=MAX_RULES, description="The experiment ends when one of these rules holds."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_time("totalTime", self.total_time)
        plugins = len(self.trial_plugins)
        if plugins > MAX_PLUGINS:
            raise FieldError("trial", f"{plugins} entries have a plugin; use at most {MAX_PLUGINS}")
        return self

    @property
    def trial_plugins(self) -> Sequence[tuple[str, Plugin]]:
        """The stoppers of other packages that stop trials, each with where it stands below stop."""
        return [
            (f"trial[{index}]{path}.plugin", criterion.plugin)
            for index, rule in enumerate(self.trial)
            for path, criterion in _list_criteria(rule, rule.all_of, rule.any_of)
            if criterion.plugin is not None
        ]

    @property
    def experiment_plugins(self) -> Sequence[tuple[str, Plugin]]:
        """The same of those that end the experiment."""
        return [
            (f"experiment[{index}]{path}.plugin", criterion.plugin)
            for index, rule in enumerate(self.experiment)
            for path, criterion in _list_criteria(rule, rule.all_of, rule.any_of)
            if criterion.plugin is not None
        ]

    @property
    def has_budget(self) -> bool:
        """Whether the experiment comes to an end without maxTrials: by time, GPU-hours, cost, a target or a plateau."""
        return self.total_time is not None or any(rule.bounds for rule in self.experiment)

    @property
    def counts_gpus(self) -> str:
        """Where GPUs are all that is counted, so that pods without any never end it; empty where nowhere."""
        for index, rule in enumerate(self.experiment):
            for path, criterion in _list_criteria(rule, rule.all_of, rule.any_of):
                cost = criterion.cost
                if criterion.gpu_hours is not None or (cost is not None and cost.per_pod_hour is None):
                    return f"stop.experiment[{index}]{path}.{'cost' if cost is not None else 'gpuHours'}"
        return ""


def _list_criteria(
    rule: CriterionT, all_of: Sequence[CriterionT] | None, any_of: Sequence[CriterionT] | None
) -> list[tuple[str, CriterionT]]:
    """A rule's criteria and their paths below it."""
    for name, group in (("all", all_of), ("any", any_of)):
        if group is not None:
            return [(f".{name}[{index}]", criterion) for index, criterion in enumerate(group)]
    return [("", rule)]


def _check_time(field: str, written: Duration | None) -> None:
    if written is not None and parse_duration(written) == 0:
        raise FieldError(field, f"{written!r} is too short; use at least 1s")
