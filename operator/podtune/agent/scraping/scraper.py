"""The thread that scrapes the metrics which a program serves to Prometheus, and writes those that are news as results.

It asks 127.0.0.1 alone, follows no redirect, and takes no more than so many bytes. A program sets one metric after the
other, so what is new is scraped a second time a moment later: then the objective and the time belong together.
"""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from podtune.agent.endpoint.results_writer import ResultsWriter
from podtune.agent.event_log import EventLog, LogThrottle
from podtune.agent.results.poller import Poller
from podtune.agent.scraping.exposition import parse_exposition
from podtune.agent.scraping.scrape_settings import ScrapeSettings
from podtune.agent.scraping.scraped_results import ScrapedResults
from podtune.protocol.messages import MetricValue
from podtune.storage.directory import Directory
from podtune.trial import layout

_LOOPBACK = "127.0.0.1"
_HEADERS = {"Accept": "text/plain;version=0.0.4, */*;q=0.1", "Connection": "close"}
_TIMEOUT = 2.0
"""Seconds that an answer may take."""
MAX_EXPOSITION = 4 << 20
"""Bytes of an answer that are read at most."""
_CHUNK = 1 << 16
SETTLE_SECONDS = 0.1
"""How long a program may take to set all that belongs together."""
_TAIL = 1 << 18
"""Bytes at the end of the results file in which the last result is looked for."""


class ScrapeError(OSError):
    """There is an answer, but none with metrics; the text says why, and what to change."""


class Scraper(Poller):
    """Scrapes once each period; see `Poller`."""

    def __init__(self, settings: ScrapeSettings, directory: Directory, objective: str, log: EventLog) -> None:
        """Prepares it.

        Args:
            settings: Where the metrics are.
            directory: The directory shared with the program, where results are written.
            objective: Name of the objective's metric.
            log: Where to tell of trouble.
        """
        super().__init__("scraper", settings.period)
        self._settings = settings
        self._log = log
        self._failures = LogThrottle()
        self._writer = ResultsWriter(directory)
        self._directory = directory
        self._objective = objective
        self._results: ScrapedResults | None = None
        self._was_broken_off = False

    def look(self) -> None:
        """Scrapes once, or twice where there is something new."""
        results = self._prepare()
        metrics = self._scrape(results)
        if metrics is None:
            return
        if results.is_new(metrics):
            self.wait(SETTLE_SECONDS)
            metrics = self._scrape(results) or metrics
        result = results.take(metrics)
        if result is not None and self._append(result):
            results.confirm()

    def finish(self) -> None:
        """Says what there was instead, where the program has never set the objective."""
        self.look()  # as a rule, it serves no more
        if rest := self._prepare().build_rest():
            self._append(rest)

    def close(self) -> None:
        """See `Poller`."""
        super().close()
        self._writer.close()

    def _prepare(self) -> ScrapedResults:
        """Goes on where an earlier process of this agent has stopped."""
        if self._results is None:
            last = self._find_last()
            self._results = ScrapedResults(self._objective, self._settings.time_attribute, last)
        return self._results

    def _find_last(self) -> Mapping[str, Any] | None:
        try:
            return find_last_result(self._directory, self._objective)
        except OSError as error:
            self._log.warning("results file can't be read", message=f"{error}; the next scrape may count twice")
            return None

    def _scrape(self, results: ScrapedResults) -> dict[str, float] | None:
        """The metrics as they are now; None where there are none."""
        try:
            text = fetch_exposition(self._settings.port, self._settings.path)
        except ConnectionRefusedError:
            return None  # the program does not serve yet, or no longer
        except ConnectionResetError as error:
            if self._was_broken_off:  # once, it is the program's end
                self._complain("scrape failed", error)
            self._was_broken_off = True
            return None
        except (OSError, http.client.HTTPException) as error:
            self._complain("scrape failed", error)
            return None
        self._was_broken_off = False
        return results.read(parse_exposition(text))

    def _append(self, result: Mapping[str, MetricValue]) -> bool:
        try:
            self._writer.append(result)
        except OSError as error:
            self._complain("result can't be written", error)
            return False
        return True

    def _complain(self, event: str, error: Exception) -> None:
        if self._failures.should_log():
            message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            port, path = self._settings.port, self._settings.path
            self._log.warning(event, message=message, port=port, path=path, times=self._failures.count)


def fetch_exposition(port: int, path: str) -> str:
    """Asks for metrics on this machine's loopback.

    Raises:
        OSError: There is no answer, or none that can be taken.
        HTTPException: The answer isn't HTTP.
    """
    deadline = time.monotonic() + _TIMEOUT
    connection = http.client.HTTPConnection(_LOOPBACK, port, timeout=_TIMEOUT)
    try:
        connection.request("GET", path, headers=_HEADERS)
        response = connection.getresponse()
        if response.status != http.client.OK:
            where = f", to {response.headers['Location']:.200}" if response.headers["Location"] else ""
            raise ScrapeError(f"answered {response.status}{where}; results.scrape.path must be where metrics are")
        body = bytearray()
        while chunk := response.read1(_CHUNK):
            body += chunk
            if len(body) > MAX_EXPOSITION:
                raise ScrapeError(f"longer than {MAX_EXPOSITION} bytes; serve fewer metrics there")
            if time.monotonic() > deadline:
                raise TimeoutError(f"the answer was not there within {_TIMEOUT:g} s")
        return body.decode("utf-8", "replace")
    finally:
        connection.close()


def find_last_result(directory: Directory, objective: str) -> Mapping[str, Any] | None:
    """The last result with the objective, among those at the end of the results file; None where there is none.

    Raises:
        OSError: The file can't be read.
    """
    try:
        with directory.open_file(layout.RESULTS) as file:
            start = max(0, os.fstat(file).st_size - _TAIL)
            lines = os.pread(file, _TAIL, start).split(b"\n")
    except FileNotFoundError:
        return None
    return next((line for line in _parse_lines(reversed(lines)) if objective in line), None)


def _parse_lines(lines: Iterator[bytes]) -> Iterator[Mapping[str, Any]]:
    for line in lines:
        try:
            body = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(body, dict):
            yield body
