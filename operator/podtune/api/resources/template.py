"""What the pods of a trial, or of one role of a gang, are made from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import (
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from podtune.api.base import ApiModel, Form
from podtune.api.expressions.expression import Expression, ExpressionText
from podtune.api.pods.container_resources import check_amounts
from podtune.api.pods.gpus import count_gpus_among, count_requested_gpus
from podtune.api.pods.pod_template import check_annotations, check_labels, check_pod_spec
from podtune.api.pods.pod_values import check_pod_values
from podtune.api.pods.quantities import ResourceName, read_quantity
from podtune.api.pods.template_policy import DEFAULT_POLICY, TemplatePolicy

LabelValue = Annotated[
    str,
    Field(max_length=256),
    Form(
        r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?"
        r"|[A-Za-z0-9_.-]*([$][(]PODTUNE_PARAM_[A-Za-z_][A-Za-z0-9_]*[)][A-Za-z0-9_.-]*)+",
        "is not a valid label value; use up to 63 letters, digits, -, _ and ., with a letter or digit at both ends, or "
        "$(PODTUNE_PARAM_<name>)",
    ),
]


class ComputedLimit(ApiModel):
    """A limit that follows from a trial's parameters."""

    expression: ExpressionText = Field(description="What it is computed by: a number, or a text such as '16Gi'.")


def _read_limit(value: object) -> str | ComputedLimit:
    """Says one thing of a mistake; a union would say one for each of its types."""
    if isinstance(value, ComputedLimit):
        return value
    if not isinstance(value, Mapping):
        return read_quantity(value)
    text = value.get("expression")
    if value.keys() != {"expression"} or not isinstance(text, str):
        raise ValueError("is a map; write an amount such as 8Gi, or only expression below it: {expression: workers}")
    Expression(text)  # says what is wrong with it
    return ComputedLimit(expression=text)


def _write_limit(limit: str | ComputedLimit) -> str | dict[str, str]:
    """Is given, because what a union with a model is read by writes it twice, and warns the second time."""
    return limit if isinstance(limit, str) else {"expression": limit.expression}


Limit = Annotated[
    str | ComputedLimit,
    PlainValidator(_read_limit),
    PlainSerializer(_write_limit),
    WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True}),
]
"""An amount of a resource, or the expression that it is computed by."""
AnnotationValue = Annotated[str, Field(max_length=4096)]
TEMPLATE_POLICY = "template_policy"
"""Key in the validation's context: what the operator's administrator decides about trial templates."""


class TemplateMetadata(ApiModel):
    """Labels and annotations of a trial's pods."""

    labels: dict[str, LabelValue] = Field(
        default_factory=dict,
        max_length=32,
        description="Labels to add to the pods. One that holds $(PODTUNE_PARAM_<name>) is added to the Trial, too.",
    )
    annotations: dict[str, AnnotationValue] = Field(
        default_factory=dict,
        max_length=32,
        description=(
            "Annotations to add to the pods. Keys have no domain, or one that the operator's administrator allows."
        ),
    )

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        check_labels(self.labels)
        check_annotations(self.annotations, read_policy(info))
        return self


def read_policy(info: ValidationInfo) -> TemplatePolicy:
    """What the operator's administrator decides about trial templates."""
    policy: TemplatePolicy = (info.context or {}).get(TEMPLATE_POLICY, DEFAULT_POLICY)
    return policy


class PodTemplate(ApiModel):
    """Template of pods."""

    metadata: TemplateMetadata = Field(default_factory=TemplateMetadata, description="Metadata of the pods.")
    spec: dict[str, Any] = Field(
        description=(
            "Spec of the pods. The container named trial, or else the first one, runs the training program. Use "
            "parameters as $(PODTUNE_PARAM_<name>) in command, args and env."
        )
    )
    limits: dict[ResourceName, Limit] = Field(
        default_factory=dict,
        max_length=16,
        description=(
            "Resource limits that replace the training container's own, by resource name, such as memory: 8Gi. An "
            "amount may follow from the trial's parameters: nvidia.com/gpu: {expression: workers}. 0 removes a limit."
        ),
    )

    @field_validator("spec")
    @classmethod
    def _check(cls, spec: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        check_pod_spec(spec, read_policy(info))
        check_pod_values(spec)
        return spec

    @field_validator("limits")
    @classmethod
    def _check_limits(cls, limits: dict[str, str | ComputedLimit]) -> dict[str, str | ComputedLimit]:
        check_amounts({name: limit for name, limit in limits.items() if isinstance(limit, str)}, "")
        return limits

    @cached_property
    def computed_limits(self) -> Mapping[str, Expression]:
        """The limits that follow from parameters, by resource name."""
        return {
            name: Expression(limit.expression)
            for name, limit in self.limits.items()
            if isinstance(limit, ComputedLimit)
        }

    @cached_property
    def fixed_limits(self) -> Mapping[str, str]:
        """The limits that are the same for all trials, by resource name."""
        return {name: limit for name, limit in self.limits.items() if isinstance(limit, str)}

    @property
    def may_use_gpus(self) -> bool:
        """Whether such a pod asks for GPUs, or may come to."""
        computed = dict.fromkeys(self.computed_limits, 1)
        return bool(count_requested_gpus(self.spec) or count_gpus_among({**self.fixed_limits, **computed}))
