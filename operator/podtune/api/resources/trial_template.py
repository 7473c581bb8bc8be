"""The template of a trial's pods: one for all of them, or one for each role of a gang."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

from pydantic import Field, model_validator

from podtune.api.base import Duration, FieldError, StatusModel, key_by
from podtune.api.names import QUEUE_NAME
from podtune.api.pods.limit_names import MAX_ROLES
from podtune.api.pods.pod_template import check_reusable
from podtune.api.resources.gang_roles import GangRole, RankedRole
from podtune.api.resources.template import PodTemplate, TemplateMetadata

MAX_REPLICAS = 64
REVISION_DIGITS = 10
"""Hexadecimal digits of a template's revision."""
MAX_REVISIONS = 32
"""So many revisions are kept at most."""


class TrialTemplate(PodTemplate):
    """Template of the pods that trials run in."""

    spec: dict[str, Any] = Field(
        default_factory=dict,
        description=(
            "Spec of the pods. The container named trial, or else the first one, runs the training program. Use "
            "parameters as $(PODTUNE_PARAM_<name>) in command, args and env. Either spec or roles is required."
        ),
    )
    roles: list[GangRole] | None = Field(
        default=None,
        min_length=2,
        max_length=MAX_ROLES,
        description=(
            "In place of spec: roles of a gang, such as a driver and workers, each with a template of its own. Ranks "
            "follow the order of the roles; rank 0, the first pod of the first role, reports the results."
        ),
        json_schema_extra=key_by("name"),
    )
    display_name: str = Field(
        default="",
        max_length=256,
        description=(
            "Name of each trial for people, such as lr $(PODTUNE_PARAM_lr). It is cut to 63 characters, and is shown "
            "beside the Trial's own name."
        ),
    )
    replicas: int = Field(
        default=1,
        ge=1,
        le=MAX_REPLICAS,
        description=(
            "Number of pods per trial. More than one make a gang, which is scheduled, starts and ends as a whole. Each "
            "pod reads its position from RANK and WORLD_SIZE, and reaches rank 0 at MASTER_ADDR:MASTER_PORT."
        ),
    )
    placement_timeout: Duration = Field(
        default="5m",
        description=(
            "How long a gang waits for all of its pods to be scheduled, varied by up to half of it less. If only some "
            "are by then, the gang gives up their nodes and goes to the back of the queue. This is not counted as a "
            "failure."
        ),
    )
    reuse: bool = Field(
        default=False,
        description=(
            "If true, a pod whose trial ended or was paused runs the next one without starting a container; the "
            "program loops over podtune.trial.stream(). Such a pod ends after ten seconds without a trial."
        ),
    )

    @cached_property
    def revision(self) -> str:
        """A digest of all that pods are made from."""
        apart = {"replicas", "reuse", "placement_timeout"}
        made_from = self.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=apart)
        return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:REVISION_DIGITS]

    @cached_property
    def ranked_roles(self) -> tuple[RankedRole, ...]:
        """The roles with the ranks of their pods; of a template without roles, one without a name."""
        if not self.roles:
            own = PodTemplate.model_construct(metadata=self.metadata, spec=self.spec, limits=self.limits)
            return (RankedRole("", 0, self.replicas, own, "trialTemplate"),)
        found, rank = [], 0
        for position, role in enumerate(self.roles):
            path = f"trialTemplate.roles[{position}].template"
            template = role.template.model_copy(update={"metadata": self._add_metadata(role.template.metadata)})
            found.append(RankedRole(role.name, rank, role.replicas, template, path))
            rank += role.replicas
        return tuple(found)

    def find_role(self, rank: int) -> RankedRole:
        """The role of a pod: the one place that says which template a pod is made from."""
        return next(role for role in reversed(self.ranked_roles) if role.first_rank <= rank)

    @property
    def leading_role(self) -> RankedRole:
        """The role of rank 0."""
        return self.ranked_roles[0]

    @property
    def role_names(self) -> tuple[str, ...]:
        """Names of the roles; none where one template is for all pods."""
        return tuple(role.name for role in self.roles or ())

    @property
    def pod_count(self) -> int:
        """How many pods a trial has."""
        return sum(role.replicas for role in self.ranked_roles)

    @property
    def has_limits(self) -> bool:
        """Whether it sets limits apart from its containers' own."""
        return any(role.template.limits for role in self.ranked_roles)

    @property
    def has_computed_limits(self) -> bool:
        """Whether some of them follow from parameters."""
        return any(role.template.computed_limits for role in self.ranked_roles)

    @property
    def may_use_gpus(self) -> bool:
        """Whether one of a trial's pods asks for GPUs, or may come to."""
        return any(role.template.may_use_gpus for role in self.ranked_roles)

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of all roles; of those with the same key, that of the first role."""
        return {
            key: text for role in reversed(self.ranked_roles) for key, text in role.template.metadata.labels.items()
        }

    def _add_metadata(self, own: TemplateMetadata) -> TemplateMetadata:
        labels, annotations = self.metadata.labels | own.labels, self.metadata.annotations | own.annotations
        return TemplateMetadata.model_construct(labels=labels, annotations=annotations)

    @model_validator(mode="after")
    def _check_roles(self) -> Self:
        if not self.roles:
            if not self.spec:
                raise FieldError("spec", "is missing; write the pod's spec, or roles that have one each")
            return self
        if self.spec:
            raise FieldError("spec", "is set besides roles; write it to the template of a role")
        if self.limits:
            raise FieldError("limits", "is set besides roles; write it to the template of a role")
        if self.replicas != 1:
            raise FieldError("replicas", f"is {self.replicas}, but roles have replicas of their own; remove it")
        names = [role.name for role in self.roles]
        if doubled := next((name for name in names if names.count(name) > 1), None):
            raise FieldError("roles", f"{doubled!r} is listed twice; give each role its own name")
        if self.pod_count > MAX_REPLICAS:
            message = f"have {self.pod_count} pods in all, and a gang has at most {MAX_REPLICAS}; lower their replicas"
            raise FieldError("roles", message)
        for position, role in enumerate(self.roles):
            if QUEUE_NAME in role.template.metadata.labels:
                path = f"roles[{position}].template.metadata.labels.{QUEUE_NAME}"
                raise FieldError(
                    path, "is for one role, but a gang is admitted whole; set it in trialTemplate.metadata"
                )
        return self

    @model_validator(mode="after")
    def _check_reuse(self) -> Self:
        if self.reuse and self.pod_count > 1:
            message = "is true, but a gang's pods can't be reused; remove reuse, or replicas and roles"
            raise FieldError("reuse", message)
        if self.reuse:
            check_reusable(self.spec, self.metadata.labels)
        return self


class TemplateRevision(StatusModel):
    """One revision of the trial template, which a ControllerRevision keeps."""

    name: str = Field(max_length=16, description="The revision, as pods and trials name it.")
    number: int = Field(ge=1, description="Position among those of the experiment, for people.")
    time: str = Field(default="", max_length=32, description="Since when it is kept (RFC 3339).")


class TemplateStatus(StatusModel):
    """The revisions of the trial template: one for each change of what pods are made from."""

    first: str = Field(max_length=16, description="Revision of trials whose status names none.")
    revisions: list[TemplateRevision] = Field(
        default_factory=list,
        max_length=MAX_REVISIONS,
        description=(
            "Those that are kept as ControllerRevisions, <experiment>-<name>, the present one last: it, and those that "
            "trials run or the best trial has run."
        ),
        json_schema_extra=key_by("name"),
    )
