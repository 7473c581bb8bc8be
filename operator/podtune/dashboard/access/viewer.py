"""Who looks at a page, as the API server knows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Viewer:
    """A person or a program.

    Attributes:
        extra: Further facts that an authorizer may ask for, by name.
        token: Their own; empty where a proxy says who they are. No part of who they are, and never shown.
    """

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    token: str = field(default="", repr=False, compare=False)

    @property
    def short_name(self) -> str:
        """A service account without its namespace, and other names as they are."""
        is_account = self.name.startswith(SERVICE_ACCOUNT_PREFIX)
        return self.name.rpartition(":")[2] if is_account else self.name


def read_viewer(user: Mapping[str, Any], token: str) -> Viewer:
    """Reads the user of a TokenReview."""
    extra = {str(name): _read_texts(values) for name, values in (user.get("extra") or {}).items()}
    return Viewer(
        name=str(user["username"]),
        uid=str(user.get("uid") or ""),
        groups=_read_texts(user.get("groups")),
        extra=tuple(sorted(extra.items())),
        token=token,
    )


def _read_texts(values: Sequence[Any] | None) -> tuple[str, ...]:
    return tuple(str(value) for value in values or ())
