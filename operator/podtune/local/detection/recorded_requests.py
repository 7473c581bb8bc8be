"""Requests of a program to the agent's endpoint, kept, and put once more to the agent's own sources.

Which of a script's values are results depends on the objective, and nobody knows it before the names are known. So the
program is answered first, and what it has sent is read afterwards, for the objective that was chosen then.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from podtune.agent.endpoint.mlflow_tracking import MlflowTracking, draw_random_id
from podtune.agent.endpoint.requests import BadRequest, HttpAnswer, Request, Source
from podtune.agent.endpoint.results_writer import ResultsWriter
from podtune.agent.endpoint.server import make_agent_source
from podtune.agent.endpoint.tracked_runs import PARENT_TAG
from podtune.agent.endpoint.trainer_status import parse_status
from podtune.agent.results.result_reader import prepare_directory
from podtune.agent.results.results_file import ResultsFile
from podtune.agent.settings import Settings
from podtune.agent.state.result_line import BadLine, parse_line
from podtune.protocol.agent_environment import MLFLOW
from podtune.protocol.messages import MetricValue
from podtune.storage.directory import Directory

_MOST_REQUESTS = 20_000
_MOST_BYTES = 64 << 20
"""How much is kept of what a program sends; few send as much in a minute."""
_MLFLOW_ROUTE = "/api/2.0/mlflow/"


class RequestRecorder:
    """Answers as a source of the agent does, and keeps what it was asked; see `Source`."""

    def __init__(self, name: str, settings: Settings, workplace: Path) -> None:
        """Prepares it.

        Args:
            name: The field of `results`.
            settings: Those of the endpoint.
            workplace: An empty directory, for what sources write.
        """
        self.name = name
        self._settings = settings
        self._workplace = workplace
        self._lock = threading.Lock()
        self._requests: list[Request] = []
        self._ids: list[str] = []
        self._bytes = 0
        self._readings = 0
        self._inner = self._make_source("", self._ids)

    @property
    def is_full(self) -> bool:
        """Whether requests are kept no more."""
        return len(self._requests) >= _MOST_REQUESTS or self._bytes >= _MOST_BYTES

    def is_asked(self, path: str) -> bool:
        """See `Source`."""
        return self._inner.is_asked(path)

    def answer(self, request: Request) -> HttpAnswer:
        """See `Source`."""
        with self._lock:
            if not self.is_full:
                self._requests.append(request)
                self._bytes += len(request.body)
            return self._inner.answer(request)

    def refuse(self, status: int, problem: str) -> HttpAnswer:
        """See `Source`."""
        return self._inner.refuse(status, problem)

    def list_metrics(self) -> list[str]:
        """The names of the metrics that were sent."""
        with self._lock:
            requests = list(self._requests)
        named = _list_tracked(self._inner) if self.name == MLFLOW else _list_posted(requests)
        return list(dict.fromkeys(named))

    def read_results(self, objective: str) -> list[Mapping[str, MetricValue]]:
        """What the agent would have taken for results, with this objective."""
        with self._lock:
            requests, ids = list(self._requests), list(self._ids)
        source = self._make_source(objective, [], ids)
        for request in requests:
            with suppress(BadRequest):
                source.answer(request)
        return read_results_file(self._find_directory(), objective)

    def _make_source(self, objective: str, drawn: list[str], known: Sequence[str] = ()) -> Source:
        """A source that writes to a directory of its own; ids are those that are known, and then new ones."""
        self._readings += 1
        directory = self._find_directory()
        directory.root.mkdir(parents=True)
        prepare_directory(directory)
        writer = ResultsWriter(directory)
        if self.name != MLFLOW:
            return make_agent_source(self.name, replace(self._settings, objective=objective), writer)

        left = iter(known)

        def draw_id() -> str:
            drawn.append(next(left, "") or draw_random_id())
            return drawn[-1]

        return MlflowTracking(self._settings.directory, objective, writer, draw_id)

    def _find_directory(self) -> Directory:
        return Directory(self._workplace / f"{self.name}-{self._readings}")


def read_results_file(directory: Directory, objective: str = "") -> list[Mapping[str, MetricValue]]:
    """What the agent takes for results in a results file."""
    file = ResultsFile(directory)
    results: list[Mapping[str, MetricValue]] = []
    while lines := file.read_lines():
        results += _parse_lines(lines, objective)
    results += _parse_lines(file.finish(), objective)
    file.close()
    return results


def _parse_lines(lines: Sequence[bytes], objective: str) -> Iterator[Mapping[str, MetricValue]]:
    for line in lines:
        with suppress(BadLine):
            if metrics := parse_line(line, objective).metrics:
                yield metrics


def _list_posted(requests: Sequence[Request]) -> Iterator[str]:
    """Metrics of a Trainer's statuses."""
    for request in requests:
        with suppress(BadRequest):
            yield from parse_status(request.parse_body())[0]


def _list_tracked(source: Source) -> Iterator[str]:
    """Metrics of runs, as the source itself lists them, but for those of nested runs and of the machine."""
    experiments = [each["experiment_id"] for each in _ask(source, "experiments/search", {})["experiments"]]
    for run in _ask(source, "runs/search", {"experiment_ids": experiments})["runs"]:
        if PARENT_TAG not in (tag["key"] for tag in run["data"]["tags"]):
            yield from (name for metric in run["data"]["metrics"] if not (name := metric["key"]).startswith("system/"))


def _ask(source: Source, route: str, content: Mapping[str, Any]) -> Mapping[str, Any]:
    return source.answer(Request("POST", f"{_MLFLOW_ROUTE}{route}", {}, json.dumps(content).encode())).content
