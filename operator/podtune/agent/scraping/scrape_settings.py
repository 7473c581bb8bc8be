"""Where a program serves its metrics, and how they are scraped, as the operator tells it."""

from __future__ import annotations

import json
from dataclasses import dataclass

_PATH = "/metrics"
_PERIOD = 1.0
_LAST_PORT = 65535
_LONGEST_PERIOD = 86_400


class ScrapeSettingsError(ValueError):
    """The text is not what the operator writes; the message names the field."""


@dataclass(frozen=True, slots=True)
class ScrapeSettings:
    """How metrics are scraped.

    Attributes:
        port: Where the program listens, on 127.0.0.1.
        path: What is asked for.
        period: Seconds between two scrapes.
        time_attribute: The metric that tells how far training is; empty where there is none.
    """

    port: int
    path: str = _PATH
    period: float = _PERIOD
    time_attribute: str = ""

    @classmethod
    def from_json(cls, text: str) -> ScrapeSettings:
        """Reads the variable `PODTUNE_SCRAPE`.

        Raises:
            ScrapeSettingsError: It is wrong.
        """
        try:
            body = json.loads(text)
        except ValueError as error:
            raise ScrapeSettingsError(f"it is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise ScrapeSettingsError("it is not a JSON object")
        port, path = body.get("port"), body.get("path", _PATH)
        period, time_attribute = body.get("period", _PERIOD), body.get("timeAttribute", "")
        if not isinstance(port, int) or not 0 < port <= _LAST_PORT:
            raise ScrapeSettingsError(f"port is {port!r}, not a port's number")
        if not isinstance(path, str) or not path.startswith("/"):
            raise ScrapeSettingsError(f"path is {path!r}, not a path that begins with /")
        if not isinstance(period, int | float) or not 0 < period <= _LONGEST_PERIOD:
            raise ScrapeSettingsError(f"period is {period!r}, not a number of seconds")
        if not isinstance(time_attribute, str):
            raise ScrapeSettingsError(f"timeAttribute is {time_attribute!r}, not a metric's name")
        return cls(port, path, float(period), time_attribute)
