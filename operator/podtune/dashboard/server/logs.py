"""Logs in the operator's form: one JSON object a line, on standard error."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any

from aiohttp.http_exceptions import BadHttpMessage

_EVENT = "podtune_event"
_FIELDS = "podtune_fields"
_OWN = "podtune"


def hide_bad_request(record: logging.LogRecord) -> bool:
    """A filter: of a request that breaks the rules of HTTP, only that is told. Its headers may hold a token."""
    if record.exc_info and isinstance(record.exc_info[1], BadHttpMessage):
        record.msg, record.args = "a request is not valid HTTP", ()
        record.exc_info = record.exc_text = None
    return True


class FieldLogger(logging.LoggerAdapter[logging.Logger]):
    """Logs an event with what it is about: `log.info("login", viewer="alice")`.

    On a terminal, where no formatter of ours is at work, the event is followed by its message.
    """

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[str, MutableMapping[str, Any]]:
        """Puts the fields where `JsonFormatter` finds them."""
        fields = dict(kwargs)
        trace = fields.pop("exc_info", None)
        told = f"{msg}: {fields['message']}" if "message" in fields else str(msg)
        return told, {"exc_info": trace, "extra": {_EVENT: msg, _FIELDS: fields}}


def get_field_logger(module: str) -> FieldLogger:
    """The log of a module of ours."""
    return FieldLogger(logging.getLogger(module))


class JsonFormatter(logging.Formatter):
    """Writes an event with its level, its time and its fields; of another library's, also which logger it is of."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": getattr(record, _EVENT, None) or record.getMessage(),
            "component": "dashboard",
            **getattr(record, _FIELDS, {}),
        }
        if record.name.partition(".")[0] != _OWN:
            line["logger"] = record.name
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure_logging(level: str) -> None:
    """Has our own events and the libraries' written."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.getLevelNamesMapping()[level.upper()], handlers=[handler], force=True)
    logging.captureWarnings(True)
