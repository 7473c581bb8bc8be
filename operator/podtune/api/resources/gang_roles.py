"""Roles in a gang, such as a driver and workers: each has a template and a number of pods of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from podtune.api.base import ApiModel, Form
from podtune.api.pods.limit_names import MAX_ROLE_NAME, ROLE_FORM
from podtune.api.resources.template import PodTemplate

RoleName = Annotated[
    str,
    Field(min_length=1, max_length=MAX_ROLE_NAME),
    Form(ROLE_FORM, "is not a name of a role; write it like worker: up to 32 lower-case letters, digits and -"),
]


class GangRole(ApiModel):
    """Pods of a gang that are made from one template."""

    name: RoleName = Field(
        description="Name of the role, such as driver or worker. Its pods have it in PODTUNE_ROLE and as a label."
    )
    replicas: int = Field(default=1, ge=1, le=64, description="Number of pods of this role.")
    template: PodTemplate = Field(
        description="Template of the role's pods. Labels and annotations of trialTemplate.metadata are added to it."
    )


@dataclass(frozen=True, slots=True)
class RankedRole:
    """A role with the ranks of its pods; a template without roles has one without a name.

    Attributes:
        name: Its name; empty for the only one of a template without roles.
        first_rank: Rank of its first pod.
        replicas: How many pods it has.
        template: What they are made from, with what trialTemplate.metadata adds.
        path: Where the template stands in an Experiment's spec.
    """

    name: str
    first_rank: int
    replicas: int
    template: PodTemplate
    path: str
