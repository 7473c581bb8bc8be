"""Which receivers of webhooks the installation names: nobody else can make the operator call an address."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator

from podtune.api.base import ApiModel, Form
from podtune.cluster.http_poster import split_address

MAX_BATCH = 1000
_NAME = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"


class ReceiverError(ValueError):
    """A receiver can't be used; the text names the field, the value and the remedy."""


class Receiver(ApiModel):
    """A receiver of webhooks.

    Attributes:
        name: Ours for it: in metrics, logs, and in the name of the ConfigMap with what it has heard.
        url: Where events are posted.
        namespaces: Those whose Experiments it hears of, as patterns; none for all.
        types: The types of events that it is sent, as patterns; none for all.
        batch_size: 1: each event is a request of its own. More: a request has up to so many, as a batch.
        retry_seconds: After so long without success, what it has missed is given up, so that it hears of what is new.
        secrets: Directory with the files `token`, `signingKey` and `ca.crt`, each of which may be missing.
    """

    name: Annotated[str, Field(max_length=40), Form(_NAME, "is no name; use lowercase letters, digits and -")]
    url: Annotated[str, Field(max_length=2048)]
    namespaces: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    batch_size: int = Field(default=1, ge=1, le=MAX_BATCH)
    retry_seconds: int = Field(default=86_400, ge=1)
    secrets: Path | None = None

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        parts = split_address(url, "https://events.example.com/podtune")
        if parts.username is not None or parts.password is not None or parts.fragment:
            raise ValueError("must have no user, password or fragment; put a token into the receiver's Secret")
        return url

    def serves(self, namespace: str) -> bool:
        """Whether it hears of the Experiments of a namespace."""
        return _matches_any(namespace, self.namespaces)

    def wants(self, type_: str) -> bool:
        """Whether it is sent events of a type."""
        return _matches_any(type_, self.types)


def parse_receivers(text: str) -> tuple[Receiver, ...]:
    """Reads a JSON list of receivers.

    Raises:
        ReceiverError: It is none, or one of them can't be used.
    """
    try:
        entries: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise ReceiverError(f"is not JSON ({error}); write a list of receivers") from error
    if not isinstance(entries, list):
        raise ReceiverError(f"is {text[:100]!r}; write a list of receivers")
    receivers = tuple(_parse(entry, position) for position, entry in enumerate(entries))
    names = [receiver.name for receiver in receivers]
    for position, name in enumerate(names):
        if name in names[:position]:
            raise ReceiverError(f"[{position}].name: {name!r} is used twice; give each receiver its own name")
    return receivers


def _parse(entry: Any, position: int) -> Receiver:
    try:
        return Receiver.model_validate(entry)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        problem = first["msg"].removeprefix("Value error, ")
        raise ReceiverError(f"[{position}].{path}: {problem}") from error


def _matches_any(text: str, patterns: tuple[str, ...]) -> bool:
    return not patterns or any(fnmatchcase(text, pattern) for pattern in patterns)
