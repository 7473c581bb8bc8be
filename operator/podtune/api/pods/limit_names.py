"""Names of limits: a resource, such as `memory`, or that of one role of a gang, such as `worker:memory`.

Where limits of several roles stand together (in `scheduler.resources`, in a Trial's spec and status, and in what the
operator hands on), each is named after its role. Limits of pods without roles are named by their resource alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from podtune.api.base import FieldError, Form

MAX_ROLES = 8
MAX_ROLE_NAME = 32
ROLE_FORM = r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?"
_SEPARATOR = ":"
"""Between role and resource; it stands in the name of neither."""

LimitName = Annotated[
    str,
    Field(min_length=1, max_length=286),
    Form(
        rf"({ROLE_FORM}:)?(cpu|memory|ephemeral-storage|hugepages-[A-Za-z0-9]+|"
        r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)",
        "is not a valid resource name; write it like nvidia.com/gpu, nvidia.com/mig-3g.20gb, cpu or memory, after a "
        "role as in worker:memory",
    ),
]


def qualify_limit(role: str, resource: str) -> str:
    """Names a limit of a role; that of pods without roles is named by its resource alone."""
    return f"{role}{_SEPARATOR}{resource}" if role else resource


def split_limit(name: str) -> tuple[str, str]:
    """Reads role and resource; the role is empty where none is named."""
    role, _, resource = name.rpartition(_SEPARATOR)
    return role, resource


def select_limits(limits: Mapping[str, str], role: str) -> dict[str, str]:
    """The limits of one role, by resource."""
    return {split_limit(name)[1]: amount for name, amount in limits.items() if split_limit(name)[0] == role}


def check_limit_roles(limits: Mapping[str, str], roles: Sequence[str], path: str) -> None:
    """Checks that each limit names a role, or none where there are no roles.

    Args:
        limits: The limits, by name.
        roles: Names of the roles; empty where the pods have none.
        path: Where the limits stand.

    Raises:
        FieldError: A role is missing, or is none.
    """
    for name in limits:
        role, resource = split_limit(name)
        if roles and not role:
            remedy = f"write a role before it, such as {qualify_limit(roles[-1], resource)}"
            raise FieldError(f"{path}.{name}", f"names no role, but the trial's pods have roles; {remedy}")
        if role and not roles:
            raise FieldError(f"{path}.{name}", f"names a role, but trialTemplate has no roles; write {resource}")
        if role and role not in roles:
            raise FieldError(f"{path}.{name}", f"{role!r} is no role of trialTemplate; use {', '.join(roles)}")
