"""Runs a program as a trial's pod would, and finds which ways of reading its results work.

It has a directory and an endpoint of the agent's, and the agent's own code reads what it has reported. Nobody has to
know beforehand what is optimised: names and values tell.
"""

from __future__ import annotations

import io
import secrets
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from podtune.agent.endpoint.server import Endpoint
from podtune.agent.event_log import EventLog
from podtune.agent.results.result_reader import prepare_directory
from podtune.agent.settings import Settings
from podtune.cluster.pods.result_sources import make_source_variables, make_wandb_variables
from podtune.local.detection.detected_sources import RESULTS_FILE, DetectedSource, make_detected_source
from podtune.local.detection.metric_names import choose_objective
from podtune.local.detection.printed_results import find_printed_results
from podtune.local.detection.recorded_requests import RequestRecorder, read_results_file
from podtune.local.detection.served_metrics import ServedMetrics
from podtune.local.detection.watched_program import WatchedProgram
from podtune.local.detection.written_metric_files import WrittenEventFiles, WrittenWandbFiles
from podtune.local.program import expand, inherit
from podtune.protocol import agent_environment as agent_env
from podtune.trial import layout

ENOUGH = 3
"""Results of each kind that are enough to tell."""
_SOONEST = 10.0
"""Seconds that it runs at least: what comes with evaluations comes later than what is printed of each step."""
_LOOK = 1.0
"""Seconds from one look at what there is to the next; as long as the agent waits between two scrapes."""
_POLL = 0.1
_NAMESPACE, _TRIAL, _UID = "default", "detect", "00000000-0000-0000-0000-000000000000"
_NO_PROXY = ("NO_PROXY", "no_proxy")
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class DetectionReport:
    """What a run has shown.

    Attributes:
        sources: The ways that work, the best first.
        seconds: How long the program ran.
        exit_code: That of the program; None where it was ended.
        interrupted: Whether it was ended by Ctrl-C.
        last_line: The last that it has printed.
    """

    sources: Sequence[DetectedSource]
    seconds: float
    exit_code: int | None
    interrupted: bool
    last_line: str


def detect_results(
    command: Sequence[str],
    *,
    environ: Mapping[str, str],
    seconds: float,
    may_end_early: bool,
    wanted: str,
    echo: Callable[[bytes], None],
    is_interrupted: Callable[[], bool] = lambda: False,
) -> DetectionReport:
    """Runs a program for a while.

    Args:
        command: Its words.
        environ: What it inherits.
        seconds: How long it runs at most.
        may_end_early: Whether a few results of each kind are enough.
        wanted: The objective; empty where any will do.
        echo: Passes on what it prints.
        is_interrupted: Whether somebody has had enough of it.

    Raises:
        OSError: It can't be started.
    """
    with tempfile.TemporaryDirectory(prefix="podtune-detect-") as place:
        trial = _DetectionTrial(Path(place), command, environ, wanted)
        try:
            program = WatchedProgram(command, trial.environment, trial.directory.root, echo)
            try:
                interrupted = _wait(program, trial, seconds, may_end_early, is_interrupted)
                ran, exit_code = program.seconds, program.exit_code
            finally:
                program.end()
        finally:
            trial.close()
        lines = program.lines
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return DetectionReport(trial.find(lines), ran, exit_code, interrupted, last)


def _wait(
    program: WatchedProgram,
    trial: _DetectionTrial,
    seconds: float,
    may_end_early: bool,
    is_interrupted: Callable[[], bool],
) -> bool:
    """Waits until enough was seen; returns whether somebody has interrupted that."""
    next_look = 0.0
    while not program.wait(min(_POLL, max(0.0, seconds - program.seconds))):
        if is_interrupted():
            return True
        if program.seconds >= seconds or program.is_full or trial.is_full:
            return False
        if program.seconds < next_look:
            continue
        next_look = program.seconds + _LOOK
        trial.look()
        if may_end_early and program.seconds >= _SOONEST:
            found = trial.find(program.lines)
            if found and all(len(source.results) >= ENOUGH for source in found):
                return False
    return is_interrupted()


class _DetectionTrial:
    """What the program has of a pod: a directory and an endpoint, and its variables."""

    def __init__(self, place: Path, command: Sequence[str], environ: Mapping[str, str], wanted: str) -> None:
        shared, workplace = place / "podtune", place / "sources"
        for path in (shared, workplace):
            path.mkdir()
        self._event_files = WrittenEventFiles(command, shared, workplace / "event-files")
        self._wandb_files = WrittenWandbFiles(shared, workplace / "wandb-files")
        self._served = ServedMetrics(shared)
        self._wanted = wanted
        self._settings = _make_settings(shared)
        self.directory = self._settings.directory
        prepare_directory(self.directory)
        (shared / layout.PARAMETERS).write_text("{}", encoding="utf-8")
        self._recorders = {
            name: RequestRecorder(name, self._settings, workplace / name) for name in agent_env.SOURCE_NAMES
        }
        unread = EventLog(time.time, stream=io.StringIO())
        self._endpoint = Endpoint(self._settings, unread, 0, lambda name, *_: self._recorders[name])
        self._endpoint.start()
        self.environment = _build_environment(environ, self._settings, self._endpoint.address)

    @property
    def is_full(self) -> bool:
        """Whether no more is kept."""
        return any(recorder.is_full for recorder in self._recorders.values())

    def look(self) -> None:
        """Takes what can be had only while the program runs."""
        self._served.look()

    def close(self) -> None:
        """Answers no more."""
        self._endpoint.close()

    def find(self, lines: Sequence[str]) -> list[DetectedSource]:
        """The ways of reading results that work so far, the best first."""
        found = (
            self._find_reported(),
            *map(self._find_sent, self._recorders.values()),
            self._event_files.find(self._wanted),
            self._wandb_files.find(self._wanted),
            self._served.find(self._wanted),
            find_printed_results(lines, self._wanted),
        )
        return sorted(filter(None, found), key=lambda source: source.rank, reverse=True)

    def _find_reported(self) -> DetectedSource | None:
        """What the program has written to its results file by itself."""
        return make_detected_source(RESULTS_FILE, {}, read_results_file(self.directory), self._wanted)

    def _find_sent(self, recorder: RequestRecorder) -> DetectedSource | None:
        """What it has sent to the endpoint."""
        objective = choose_objective(recorder.list_metrics(), self._wanted)
        return (
            make_detected_source(recorder.name, {}, recorder.read_results(objective), objective) if objective else None
        )


def _make_settings(shared: Path) -> Settings:
    """Those of an agent whose operator is never asked."""
    return Settings.from_environ(
        {
            layout.ENV_DIRECTORY: str(shared),
            layout.ENV_TRIAL: _TRIAL,
            layout.ENV_EXPERIMENT: _TRIAL,
            agent_env.NAMESPACE: _NAMESPACE,
            agent_env.OBJECTIVE_METRIC: _TRIAL,
            agent_env.RESULTS_URL: f"http://{_LOOPBACK}",
            agent_env.TOKEN_FILE: str(shared / layout.ENDPOINT_TOKEN),
            agent_env.POD_UID: secrets.token_hex(16),
            agent_env.SOURCES: ",".join(agent_env.SOURCE_NAMES),
        }
    )


def _build_environment(environ: Mapping[str, str], settings: Settings, address: str) -> dict[str, str]:
    """The variables of the program: those that it inherits, and those by which it finds the endpoint."""
    places = {layout.ENV_DIRECTORY: str(settings.directory.root), layout.ENV_ENDPOINT: address}
    own = {
        entry["name"]: expand(entry["value"], places) if "value" in entry else settings.endpoint_token
        for entry in (
            *make_source_variables(_NAMESPACE, _TRIAL, _UID, settings.sources),
            *make_wandb_variables(is_offline=True),
        )
    }
    proxies = {name: f"{environ[name]},{_LOOPBACK}" if environ.get(name) else _LOOPBACK for name in _NO_PROXY}
    return {**inherit(environ), **own, **places, **proxies}
