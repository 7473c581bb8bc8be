"""Who looks at a page, as the API server knows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Viewer:
    """A person or a program.

    Attributes:
        extra: Further facts that an authorizer may ask for, by name.
    """

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def short_name(self) -> str:
        """A service account without its namespace, and other names as they are."""
        return self.service_account.partition(":")[2] or self.name

    @property
    def service_account(self) -> str:
        """Namespace and name of a service account, with a colon between them; empty for who is none."""
        return self.name.removeprefix(_ACCOUNT) if self.name.startswith(_ACCOUNT) else ""


def read_viewer(user: Mapping[str, Any]) -> Viewer:
    """Reads the user of a TokenReview."""
    extra = {str(name): _read_texts(values) for name, values in (user.get("extra") or {}).items()}
    return Viewer(
        name=str(user["username"]),
        uid=str(user.get("uid") or ""),
        groups=_read_texts(user.get("groups")),
        extra=tuple(sorted(extra.items())),
    )


def _read_texts(values: Sequence[Any] | None) -> tuple[str, ...]:
    return tuple(str(value) for value in values or ())
