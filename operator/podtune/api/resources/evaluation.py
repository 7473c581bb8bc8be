"""The second stage of a trial: a pod that evaluates the checkpoint that training has ended with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from podtune.api.base import ApiModel, FieldError
from podtune.api.pods.pod_template import check_pod_spec
from podtune.api.pods.pod_values import check_pod_values
from podtune.api.resources.gang_roles import RankedRole
from podtune.api.resources.template import PodTemplate, TemplateMetadata, read_policy
from podtune.api.resources.trial_template import REVISION_DIGITS, TrialTemplate
from podtune.api.tuning.objective import Criterion, Objective
from podtune.api.tuning.scheduler import SchedulerSpec
from podtune.api.tuning.stop import Stop, TrialCriterion

_REMEDY = "set evaluation.trainingObjective to a metric that training reports"


class EvaluationTemplate(ApiModel):
    """Template of the pod that evaluates a trial."""

    metadata: TemplateMetadata = Field(default_factory=TemplateMetadata, description="Metadata of the pod.")
    spec: dict[str, Any] = Field(
        description=(
            "Spec of the pod. The container named trial, or else the first one, runs the evaluation: it reads the "
            "checkpoint as a resumed training would, and reports the objective. Use parameters as "
            "$(PODTUNE_PARAM_<name>) in command, args and env."
        )
    )

    @cached_property
    def role(self) -> RankedRole:
        """Its one pod as a role, as those of a gang are found by their ranks."""
        template = PodTemplate.model_construct(metadata=self.metadata, spec=self.spec, limits={})
        return RankedRole("", 0, 1, template, "evaluation.template")

    def add_to_revision(self, revision: str) -> str:
        """The revision of both templates together, given that of the trial template."""
        return hashlib.sha256(f"{revision}/{self._digest}".encode()).hexdigest()[:REVISION_DIGITS]

    @cached_property
    def _digest(self) -> str:
        made_from = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()

    @field_validator("spec")
    @classmethod
    def _check(cls, spec: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        check_pod_spec(spec, read_policy(info))
        check_pod_values(spec)
        return spec


class EvaluationSpec(ApiModel):
    """How trials are evaluated: one pod after training, usually without a GPU."""

    template: EvaluationTemplate = Field(description="Template of the pod that evaluates a trial.")
    training_objective: Criterion | None = Field(
        default=None,
        description=(
            "The metric that training reports, and whether to maximise or minimise it. The scheduler, the rules of "
            "stop.trial and checkpoints.keep go by it, since the objective is known only after the evaluation. "
            "Every scheduler but fifo needs it."
        ),
    )
    checkpoint: Literal["latest", "best"] = Field(
        default="latest",
        description=(
            "Which checkpoint is evaluated: the latest one that training stored, or the best of those that are kept "
            "(by trainingObjective)."
        ),
    )
    max_failures: int = Field(
        default=3,
        ge=0,
        le=1000,
        description=(
            "How many times an evaluation may fail and be retried; with one more failure the trial ends in ERROR. "
            "Training is not repeated. All else in failures but outOfMemory applies to evaluations, too, counted apart."
        ),
    )

    @model_validator(mode="after")
    def _check_best(self) -> Self:
        if self.checkpoint == "best" and self.training_objective is None:
            raise FieldError("checkpoint", f"is best, but nothing says what that goes by; {_REMEDY}, or use latest")
        return self


def check_evaluation(
    evaluation: EvaluationSpec,
    objective: Objective,
    scheduler: SchedulerSpec,
    stop: Stop,
    template: TrialTemplate,
    *,
    has_store: bool,
) -> None:
    """Checks an evaluation against the rest of the experiment.

    Raises:
        FieldError: With the field, the value and the remedy.
    """
    if not has_store:
        problem = "is missing, but the evaluation reads the checkpoint of the training from it; set a store"
        raise FieldError("checkpoints.store", problem)
    if template.reuse:
        problem = "is true, but evaluation needs pods of one trial each; remove reuse or evaluation"
        raise FieldError("trialTemplate.reuse", problem)
    _check_training_objective(evaluation.training_objective, objective, scheduler)
    _check_stop(evaluation.training_objective, objective, stop)


def _check_training_objective(training: Criterion | None, objective: Objective, scheduler: SchedulerSpec) -> None:
    optimised = [criterion.metric for criterion in objective.criteria]
    if training is not None and training.metric in optimised:
        raise FieldError(
            "evaluation.trainingObjective.metric",
            f"{training.metric!r} is the objective, which only the evaluation reports; name another metric, which "
            "training reports",
        )
    if scheduler.name == "bohb":
        raise FieldError(
            "scheduler",
            "bohb teaches the search by results during training, but only the evaluation reports the objective; use "
            "hyperband, or remove evaluation",
        )
    if training is None and scheduler.name != "fifo":
        raise FieldError(
            "scheduler",
            f"{scheduler.name} compares trials during training, but only the evaluation reports "
            f"{objective.metric!r}, after it; {_REMEDY}, or use fifo",
        )


def _check_stop(training: Criterion | None, objective: Objective, stop: Stop) -> None:
    """Refuses rules that wait during training for what only the evaluation reports."""
    optimised = [criterion.metric for criterion in objective.criteria]
    for name in stop.metrics:
        if name in optimised:
            raise FieldError("stop.metrics", _describe_unseen(name))
    for path, criterion in _list_criteria(stop):
        for name in criterion.metrics or ():
            if name in optimised:
                raise FieldError(f"{path}.metrics", _describe_unseen(name))
        plateau = criterion.plateau
        if plateau is None:
            continue
        if plateau.metric is None and training is None:
            raise FieldError(f"{path}.plateau", f"has no metric, and training has no objective; {_REMEDY}")
        if plateau.metric in optimised:
            raise FieldError(f"{path}.plateau.metric", _describe_unseen(plateau.metric or ""))


def _describe_unseen(name: str) -> str:
    return f"{name!r} is reported only by the evaluation, when training has ended; name a metric that training reports"


def _list_criteria(stop: Stop) -> Iterator[tuple[str, TrialCriterion]]:
    for position, rule in enumerate(stop.trial):
        path = f"stop.trial[{position}]"
        yield path, rule
        for group, parts in (("all", rule.all_of), ("any", rule.any_of)):
            nested: Iterable[TrialCriterion] = parts or ()
            for part, criterion in enumerate(nested):
                yield f"{path}.{group}[{part}]", criterion
