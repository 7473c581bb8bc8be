"""The directory of a `podtune run`, read as an API server is: it holds its objects as that would give them.

`podtune.local.directory` writes it. What is read may change meanwhile, and each object is replaced as a whole.
"""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from typing_extensions import override

from podtune.api.names import EXPERIMENT_PLURAL, TRIAL_PLURAL
from podtune.api.pods.pod_template import AGENT_CONTAINER, TRIAL_CONTAINER
from podtune.cli.client.api_client import Api, Change
from podtune.cli.errors import CliError
from podtune.kube.errors import ResourceNotFound
from podtune.kube.manifests import Manifest
from podtune.storage.volume.remote_store import ReaderConnection

RUN_FILE = "run.json"
EXPERIMENT_FILE = "experiment.json"
TRIALS_FOLDER = "trials"
PODS_FOLDER = "pods"
ATTEMPTS_FOLDER = "attempts"
STORE_FOLDER = "store"
OUTPUT_FILE = "output.log"
AGENT_FILE = "agent.log"
LOCAL_NAMESPACE = "local"
"""The namespace of an Experiment that runs here."""
STORE_CLAIM = "local"
"""Stands for the claim of the volume that is the store: checkpoints are `volume://local/…`."""
_POLL = 0.5
_ENDED = ("Succeeded", "Failed")
_PATH = re.compile(rf".*/namespaces/{LOCAL_NAMESPACE}/(?P<plural>[a-z]+)(/(?P<name>[^/]+))?(/log)?")


def is_run_directory(path: Path) -> bool:
    """Whether a directory is that of a run."""
    return (path / RUN_FILE).is_file() and (path / EXPERIMENT_FILE).is_file()


def open_run(path: Path) -> RunDirectoryApi:
    """Opens the directory of a run.

    Raises:
        CliError: It is none.
    """
    if not is_run_directory(path):
        raise CliError(f"{path} is no run's directory; name one, such as podtune-runs/NAME, or a file of `export`")
    return RunDirectoryApi(path)


class RunDirectoryApi(Api):
    """A run's directory as an `Api`; nothing can be changed by it."""

    def __init__(self, path: Path, pause: Callable[[float], object] = time.sleep) -> None:
        """Opens a directory.

        Args:
            path: The directory.
            pause: Waits for so many seconds.
        """
        self._path = path.resolve()
        self._pause = pause
        self._located = json.dumps(f"file://{self.store}/")[1:-1]

    @property
    def store(self) -> Path:
        """The folder that is the store."""
        return self._path / STORE_FOLDER

    @property
    def experiment(self) -> str:
        """Name of its Experiment."""
        return str(self._read(self._path / EXPERIMENT_FILE)["metadata"]["name"])

    @override
    def get(self, path: str, params: Mapping[str, str] | None = None) -> Manifest:
        """See `Api`."""
        plural, name = _split(path)
        if plural == "pods" and self._find_attempt(name).is_dir():
            return {"metadata": {"name": name}, "spec": {"containers": [{"name": TRIAL_CONTAINER}]}}
        for file in self._list_files(plural):
            if file.exists() and (item := self._read(file))["metadata"]["name"] == name:
                return item
        raise ResourceNotFound(404, "NotFound", f"{self._path} has no {plural} {name!r}")

    @override
    def list_all(self, path: str, params: Mapping[str, str] | None = None) -> list[Manifest]:
        """See `Api`; all objects are of the one Experiment."""
        return [self._read(file) for file in self._list_files(_split(path)[0])]

    @override
    def watch(
        self, path: str, params: Mapping[str, str] | None = None, is_wanted: Callable[[], bool] = lambda: True
    ) -> Iterator[Change]:
        """See `Api`; looks for files that were replaced."""
        plural, known = _split(path)[0], dict[Path, tuple[int, int]]()
        yield Change("RELISTED", {})
        yield from self._find_changes(plural, known)
        yield Change("SYNCED", {})
        while is_wanted():
            self._pause(_POLL)
            yield from self._find_changes(plural, known)

    @override
    def read_lines(
        self, path: str, params: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> Iterator[str]:
        """See `Api`: the log of an attempt."""
        name, asked = _split(path)[1], params or {}
        file = self._find_attempt(name) / (AGENT_FILE if asked.get("container") == AGENT_CONTAINER else OUTPUT_FILE)
        if not file.is_file():
            raise ResourceNotFound(404, "NotFound", f"{file} is missing")
        with file.open(encoding="utf-8", errors="replace") as lines:
            tail = int(asked["tailLines"]) if "tailLines" in asked else None
            yield from (line.rstrip("\n") for line in deque(lines, tail))
            while asked.get("follow") == "true":
                is_over = self._is_over(name)
                yield from (line.rstrip("\n") for line in lines)
                if is_over:
                    return
                self._pause(_POLL)

    @override
    def patch(self, path: str, change: Mapping[str, Any]) -> Manifest:
        """See `Api`; refused."""
        self._refuse()

    @override
    def create(self, path: str, item: Mapping[str, Any], params: Mapping[str, str] | None = None) -> Manifest:
        """See `Api`; refused."""
        self._refuse()

    @override
    def delete(self, path: str, uid: str, grace: int | None = None) -> None:
        """See `Api`; refused."""
        self._refuse()

    @override
    def execute(self, path: str, container: str, command: Sequence[str]) -> ReaderConnection:
        """See `Api`; refused."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise CliError(f"{self._path} can only be read; `podtune run --resume {self._path}` goes on with it")

    def _list_files(self, plural: str) -> list[Path]:
        if plural == EXPERIMENT_PLURAL:
            return [self._path / EXPERIMENT_FILE]
        return sorted((self._path / TRIALS_FOLDER).glob("*.json")) if plural == TRIAL_PLURAL else []

    def _find_changes(self, plural: str, known: dict[Path, tuple[int, int]]) -> Iterator[Change]:
        """What was written since it was looked at last."""
        for file in self._list_files(plural):
            try:
                found = file.stat()
            except FileNotFoundError:
                continue  # it was removed since the folder was listed
            version = found.st_mtime_ns, found.st_ino
            if known.get(file) != version:
                kind = "MODIFIED" if file in known else "ADDED"
                known[file] = version
                yield Change(kind, self._read(file))

    def _find_attempt(self, pod: str) -> Path:
        return self._path / ATTEMPTS_FOLDER / pod

    def _is_over(self, pod: str) -> bool:
        """Whether an attempt has come to its end."""
        file = self._path / PODS_FOLDER / f"{pod}.json"
        return not file.exists() or self._read(file).get("record", {}).get("phase") in _ENDED

    def _read(self, file: Path) -> Manifest:
        try:
            text = file.read_text(encoding="utf-8").replace(f"volume://{STORE_CLAIM}/", self._located)
            body = json.loads(text)
        except (OSError, ValueError) as error:
            words = error.strerror if isinstance(error, OSError) else "it is not JSON"
            raise CliError(f"{file}: {words}; name the directory of a run, such as podtune-runs/NAME") from error
        if not isinstance(body, dict):
            raise CliError(f"{file}: it holds no object; name the directory of a run")
        return body


def _split(path: str) -> tuple[str, str]:
    """The kind and the name of what a path on the API server names."""
    found = _PATH.fullmatch(path)
    return (found["plural"], found["name"] or "") if found is not None else ("", "")
