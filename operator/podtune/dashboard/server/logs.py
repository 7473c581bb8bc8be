"""Logs in the operator's form: one JSON object a line, on standard error."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

FACTS = "facts"
"""Key of `extra`: a mapping of what an event is about."""


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
