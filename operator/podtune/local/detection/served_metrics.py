"""What a program serves to Prometheus, at whichever port it listens on; scraped each time that somebody looks."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from podtune.agent.scraping.exposition import Sample, parse_exposition
from podtune.agent.scraping.scraped_results import ScrapedResults
from podtune.agent.scraping.scraper import fetch_exposition
from podtune.local.detection.detected_sources import DetectedSource, make_detected_source
from podtune.local.detection.metric_names import choose_objective, suggest_time_attribute
from podtune.local.detection.watched_program import PROCESSES, list_marked_processes
from podtune.protocol.messages import MetricValue
from podtune.trial.layout import ITERATION

_PATH = "/metrics"
_SOCKET = re.compile(r"socket:\[(\d+)\]")
_LISTENS = "0A"
"""A socket's state, as the kernel writes it."""
_MOST_SCRAPES = 1000
_OBJECTIVE = "objective"


class ServedMetrics:
    """The scrapes of all ports of a program."""

    def __init__(self, directory: Path) -> None:
        """Looks for programs that have this directory for PODTUNE_DIR."""
        self._directory = directory
        self._scrapes: dict[int, list[list[Sample]]] = {}

    def look(self) -> None:
        """Scrapes each port once."""
        for port in sorted(find_ports(self._directory)):
            with suppress(OSError, http.client.HTTPException):
                samples = list(parse_exposition(fetch_exposition(port, _PATH)))
                taken = self._scrapes.setdefault(port, [])
                if samples and len(taken) < _MOST_SCRAPES:
                    taken.append(samples)

    def find(self, wanted: str) -> DetectedSource | None:
        """The port with the best metrics; None where there is none."""
        found = (self._find(port, scrapes, wanted) for port, scrapes in self._scrapes.items() if scrapes)
        return max(filter(None, found), key=lambda source: source.rank, default=None)

    def _find(self, port: int, scrapes: list[list[Sample]], wanted: str) -> DetectedSource | None:
        reader = ScrapedResults(wanted or _OBJECTIVE)
        seen = [reader.read(samples) for samples in scrapes]
        objective = choose_objective((name for metrics in seen for name in metrics), wanted)
        if objective is None:
            return None
        settings: dict[str, Any] = {"port": port}
        results = list(_replay(scrapes, objective, ""))
        attribute = suggest_time_attribute(results)
        if attribute != ITERATION:
            settings["timeAttribute"] = attribute
            results = list(_replay(scrapes, objective, attribute))
        return make_detected_source("scrape", settings, results, objective)


def _replay(scrapes: list[list[Sample]], objective: str, attribute: str) -> Iterator[Mapping[str, MetricValue]]:
    """What the agent would have made of these scrapes."""
    reader = ScrapedResults(objective, attribute)
    for samples in scrapes:
        result = reader.take(reader.read(samples))
        if result is not None:
            reader.confirm()
            yield result


def find_ports(directory: Path) -> set[int]:
    """The ports that the processes with this PODTUNE_DIR listen on; none where systems don't tell."""
    sockets = {inode for process in list_marked_processes(directory) for inode in _list_sockets(process)}
    return {port for inode, port in _list_listeners() if inode in sockets} if sockets else set()


def _list_sockets(process: int) -> Iterator[str]:
    with suppress(OSError):
        for entry in (PROCESSES / str(process) / "fd").iterdir():
            with suppress(OSError):
                if match := _SOCKET.fullmatch(str(entry.readlink())):
                    yield match[1]


def _list_listeners() -> Iterator[tuple[str, int]]:
    """The inode and the port of each socket that listens."""
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (PROCESSES / "net" / name).read_text(encoding="ascii").splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTENS:
                    yield words[9], int(words[1].rpartition(":")[2], 16)
