"""Whether an answer of the API server's is the object that was asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from podtune.kube.paths import KINDS

_ONE = re.compile(r"(?:/api|/apis/[^/]+)/[^/]+/namespaces/([^/]+)/([^/]+)/([^/]+)")


class WrongAnswer(ValueError):
    """The answer is another object than was asked for; the text names both."""


def check_answer(path: str, answer: Mapping[str, Any]) -> None:
    """Compares an object with the path that it was read from; what is no single object's path is not looked at.

    Raises:
        WrongAnswer: It is of another kind, namespace or name.
    """
    asked = _ONE.fullmatch(path)
    if asked is None or (kind := KINDS.get(asked[2])) is None:
        return
    metadata = answer.get("metadata")
    found = metadata if isinstance(metadata, Mapping) else {}
    is_it = answer.get("kind"), found.get("namespace"), found.get("name")
    if is_it != (kind, asked[1], asked[3]):
        shown = " ".join(f"{part!r:.80}" for part in is_it)
        raise WrongAnswer(f"{kind} {asked[1]}/{asked[3]} was asked for, and {shown} was answered")
