"""Reads the API server's answers: an error, the requested object or another one, a status."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http.client import responses
from typing import Any, TypeVar

from pydantic import ValidationError

from podtune.api.base import StatusModel
from podtune.kube.errors import ApiRefusal, WrongObject, make_refusal
from podtune.kube.paths import KINDS

Status = TypeVar("Status", bound=StatusModel)

MAX_SERVER_MESSAGE = 1024
"""Characters of the API server's own sentence that are kept."""
MAX_PAGE = 200
"""Characters of an answer that is no Status, such as a proxy's page."""
_SINGLE_OBJECT = re.compile(r"(?:/api|/apis/[^/]+)/[^/]+/namespaces/([^/]+)/([^/]+)/([^/]+)")
_SECONDS = re.compile("[0-9]{1,6}")


def parse_refusal(code: int, body: bytes, retry_after: str = "") -> ApiRefusal:
    """Reads an answer with a status of 400 or more, which need not be the API server's own.

    A Retry-After that is a date is passed over.
    """
    status = _parse_status(body)
    wait = float(retry_after) if _SECONDS.fullmatch(retry_after) else None
    reason, message = status.get("reason") or responses.get(code, ""), status.get("message")
    if not message:
        message = " ".join(body.decode(errors="replace").split())[:MAX_PAGE] or responses.get(code, "")
    return make_refusal(code, str(reason), str(message)[:MAX_SERVER_MESSAGE], wait)


def check_answer(path: str, answer: Mapping[str, Any]) -> None:
    """Compares an object with the path that it was read from; what is no single object's path is not looked at.

    Raises:
        WrongObject: It is of another kind, namespace or name; the text names both.
    """
    asked = _SINGLE_OBJECT.fullmatch(path)
    if asked is None or (kind := KINDS.get(asked[2])) is None:
        return
    metadata = answer.get("metadata")
    found = metadata if isinstance(metadata, Mapping) else {}
    is_it = answer.get("kind"), found.get("namespace"), found.get("name")
    if is_it != (kind, asked[1], asked[3]):
        shown = " ".join(f"{part!r:.80}" for part in is_it)
        raise WrongObject(f"GET {path}: {kind} {asked[1]}/{asked[3]} was asked for, and {shown} was answered")


def read_status(model: type[Status], written: Mapping[str, Any]) -> Status:
    """Reads an object's status; what can't be read, such as a later version's state, is as if it were not there.

    Of a list, only the entries that can't be read are missing.
    """
    try:
        return model.model_validate(written)
    except ValidationError as error:
        broken = {detail["loc"][:2] for detail in error.errors(include_url=False) if detail["loc"]}
    readable = dict(written)
    for name in {str(place[0]) for place in broken}:
        value = readable.pop(name, None)
        if isinstance(value, list) and (name,) not in broken:
            readable[name] = [entry for index, entry in enumerate(value) if (name, index) not in broken]
    return model.model_validate(readable)


def _parse_status(body: bytes) -> Mapping[str, Any]:
    """The Status in an answer; empty where it holds none."""
    try:
        status = json.loads(body)
    except ValueError:
        return {}
    return status if isinstance(status, Mapping) else {}
