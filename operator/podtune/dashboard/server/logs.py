"""Logs in the operator's form: one JSON object a line, on standard error."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from aiohttp.http_exceptions import BadHttpMessage

FACTS = "facts"
"""Key of `extra`: a mapping of what an event is about."""


def hide_bad_request(record: logging.LogRecord) -> bool:
    """A filter: of a request that breaks the rules of HTTP, only that is told. Its headers may hold a token."""
    if record.exc_info and isinstance(record.exc_info[1], BadHttpMessage):
        record.msg, record.args = "a request is not valid HTTP", ()
        record.exc_info = record.exc_text = None
    return True


class JsonFormatter(logging.Formatter):
    """Writes an event with its level, its time and its facts."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line = {
            **getattr(record, FACTS, {}),
            "event": record.getMessage(),
            "level": record.levelname.lower(),
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure_logging(level: str) -> None:
    """Has our own events and the libraries' written."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.getLevelNamesMapping()[level.upper()], handlers=[handler], force=True)
