"""The directory of a run: the objects that the API server would hold, what programs leave, and the store.

    run.json            how to go on: the programs' directory, the GPUs
    experiment.json     the Experiment, as the API server would give it
    trials/NAME.json    its Trials
    pods/NAME.json      the pods that are not done with
    volumes/            the files of ConfigMaps
    attempts/NAME/      of each attempt: `shared` is its /podtune, output.log what it has printed
    events.jsonl        what would be Kubernetes Events
    store/              checkpoints, and all else that goes to the store
    archive.json        the experiment in one file, for `podtune dashboard` and `podtune import`

Each object is replaced as a whole, so a process that is killed at any moment leaves either the old or the new one.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from podtune.cli.client.run_directory import (
    AGENT_FILE,
    ATTEMPTS_FOLDER,
    EXPERIMENT_FILE,
    OUTPUT_FILE,
    PODS_FOLDER,
    RUN_FILE,
    STORE_FOLDER,
    TRIALS_FOLDER,
)
from podtune.cli.errors import CliError
from podtune.kube.manifests import Manifest
from podtune.runner.records import Pod
from podtune.trial import layout

_POD: TypeAdapter[Pod] = TypeAdapter(Pod)
_LOCK_POLL = 0.02
_TEMPORARY = ".new-"
_LOCK_FILE, _EVENTS_FILE, _ARCHIVE_FILE, _VOLUMES_FOLDER = "lock", "events.jsonl", "archive.json", "volumes"
_NAMES = frozenset(
    {
        RUN_FILE,
        EXPERIMENT_FILE,
        TRIALS_FOLDER,
        PODS_FOLDER,
        ATTEMPTS_FOLDER,
        STORE_FOLDER,
        _LOCK_FILE,
        _EVENTS_FILE,
        _ARCHIVE_FILE,
        _VOLUMES_FOLDER,
    }
)
"""All that is in the directory of a run."""
_LEFT_BEHIND = (layout.CHECKPOINTS, layout.RESTORED, layout.SITE_PACKAGES)
"""What a program and its agent leave that is large and in the store, or of no more use."""


class RunDirectoryError(CliError):
    """The directory can't be used; the text names it and the remedy."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What a run needs to know again when it goes on.

    Attributes:
        workdir: Where programs run.
        gpus: How many GPUs were said to be there; None where they are counted.
        engine: Whose containers programs run in; empty for none.
        mounts_workdir: Whether those see the programs' directory.
    """

    workdir: str
    gpus: int | None = None
    engine: str = ""
    mounts_workdir: bool = False


@dataclass(frozen=True, slots=True)
class StoredPod:
    """A pod as it was written last: its manifest, and what the runner knows of it."""

    manifest: Manifest
    record: Pod


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process, told from a later one with the same number by when it started; number 0: it was about to start."""

    pid: int
    started: str


class RunDirectory:
    """Reads and writes the directory of one run, which one process at a time holds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    # The directory as a whole

    def create(self, settings: RunSettings, *, overwrite: bool = False) -> None:
        """Makes the directory.

        Args:
            settings: How to go on with it.
            overwrite: Whether to delete first what an earlier run has left there.

        Raises:
            RunDirectoryError: It is there already, or can't be made.
        """
        if overwrite:
            self._remove_ended_run()
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise RunDirectoryError(
                f"{self.path} exists already; go on with it by --resume {self.path}, start over by --overwrite, or "
                "name another with --directory"
            )
        try:
            for folder in (TRIALS_FOLDER, PODS_FOLDER, ATTEMPTS_FOLDER, STORE_FOLDER):
                (self.path / folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunDirectoryError(
                f"{self.path}: {error.strerror or error}; name another directory with --directory"
            ) from error
        self.lock()
        self._write(RUN_FILE, asdict(settings))

    def lock(self, patience: float = 0.0) -> None:
        """Keeps other processes from working in the directory, for as long as this one lives.

        A process that was killed while it started a program has left one behind that holds the lock, too, for the
        moment until it becomes that program. So who gets the lock can find every program.

        Args:
            patience: Seconds that another process is waited for.

        Raises:
            RunDirectoryError: Another one works in it.
        """
        try:
            self._lock = os.open(self.path / _LOCK_FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            _take_lock(self._lock, patience)
        except BlockingIOError as error:
            self.close()
            raise RunDirectoryError(f"another podtune run works in {self.path}; end that first") from error
        except OSError as error:
            raise RunDirectoryError(
                f"{self.path}: {error.strerror or error}; name the directory of a run, such as podtune-runs/NAME"
            ) from error

    def close(self) -> None:
        """Lets another process have it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _remove_ended_run(self) -> None:
        """Deletes the directory of a run, if there is one; nothing in it may be somebody else's, or still at work.

        Raises:
            RunDirectoryError: Something is, or it can't be deleted.
        """
        if not self.path.is_dir() or not any(self.path.iterdir()):
            return
        names = {path.name for path in self.path.iterdir() if not path.name.startswith(_TEMPORARY)}
        if RUN_FILE not in names:
            raise RunDirectoryError(f"{self.path} holds no run, and is left alone; name another with --directory")
        if foreign := sorted(names - _NAMES):
            raise RunDirectoryError(
                f"{self.path} holds more than a run, such as {foreign[0]}; move that, or name another with --directory"
            )
        self.lock()
        try:
            if not all(pod.record.is_over for pod in self.read_pods()):
                raise RunDirectoryError(
                    f"{self.path}: the run was killed, and its programs may still be there; end them by --resume "
                    f"{self.path} and Ctrl-C, or name another with --directory"
                )
            shutil.rmtree(self.path)
        except OSError as error:
            raise RunDirectoryError(f"{self.path}: {error.strerror or error}; name another with --directory") from error
        finally:
            self.close()

    def read_settings(self) -> RunSettings:
        """Reads how to go on.

        Raises:
            RunDirectoryError: It is no run's directory.
        """
        try:
            return RunSettings(**self._read(RUN_FILE))
        except TypeError as error:
            raise RunDirectoryError(
                f"{self.path / RUN_FILE}: it is no run's; name the directory of a run, such as podtune-runs/NAME"
            ) from error

    @property
    def volumes(self) -> Path:
        """Where the files of ConfigMaps are."""
        return self.path / _VOLUMES_FOLDER

    @property
    def store(self) -> Path:
        """The folder that is the store."""
        return self.path / STORE_FOLDER

    # The API server's objects

    def write_experiment(self, body: Mapping[str, Any]) -> None:
        """Writes the Experiment."""
        self._write(EXPERIMENT_FILE, body)

    def read_experiment(self) -> Manifest:
        """Reads the Experiment; raises as `read_settings`."""
        return self._read(EXPERIMENT_FILE)

    def write_trial(self, body: Mapping[str, Any]) -> None:
        """Writes a Trial."""
        self._write(f"{TRIALS_FOLDER}/{body['metadata']['name']}.json", body)

    def read_trials(self) -> list[Manifest]:
        """Reads all Trials; raises as `read_settings`."""
        return [
            self._read(f"{TRIALS_FOLDER}/{path.name}") for path in sorted((self.path / TRIALS_FOLDER).glob("*.json"))
        ]

    def write_pod(self, pod: StoredPod) -> None:
        """Writes a pod."""
        body = {"manifest": pod.manifest, "record": _POD.dump_python(pod.record, mode="json")}
        self._write(f"{PODS_FOLDER}/{pod.record.name}.json", body)

    def read_pods(self) -> Iterator[StoredPod]:
        """Reads all pods; raises as `read_settings`."""
        for path in sorted((self.path / PODS_FOLDER).glob("*.json")):
            body = self._read(f"{PODS_FOLDER}/{path.name}")
            try:
                yield StoredPod(body["manifest"], _POD.validate_python(body["record"]))
            except (LookupError, ValidationError) as error:
                raise RunDirectoryError(f"{path}: it can't be read; remove it, its attempt is then retried") from error

    def remove_pod(self, name: str) -> None:
        """Forgets a pod; what it has printed and reported stays."""
        (self.path / f"{PODS_FOLDER}/{name}.json").unlink(missing_ok=True)

    def append_event(self, event: Mapping[str, Any]) -> None:
        """Adds what would be a Kubernetes Event."""
        with (self.path / _EVENTS_FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps(event, ensure_ascii=False) + "\n")

    def write_archive(self, text: str) -> Path:
        """Writes the experiment in one file; returns its path."""
        return self._replace(_ARCHIVE_FILE, text)

    # Attempts

    def find_attempt(self, pod: str) -> Path:
        """The directory of an attempt."""
        return self.path / ATTEMPTS_FOLDER / pod

    def find_shared(self, pod: str) -> Path:
        """What is /podtune to the attempt's program."""
        return self.find_attempt(pod) / "shared"

    def find_output(self, pod: str) -> Path:
        """What the attempt's program prints."""
        return self.find_attempt(pod) / OUTPUT_FILE

    def find_volumes(self, pod: str) -> Path:
        """The empty folders of an attempt."""
        return self.find_attempt(pod) / "volumes"

    def find_agent_log(self, pod: str) -> Path:
        """What the agent beside it has to say."""
        return self.find_attempt(pod) / AGENT_FILE

    def find_termination_message(self, pod: str) -> Path:
        """Where the agent writes its final commit."""
        return self.find_attempt(pod) / "termination.json"

    def write_process(self, pod: str, process: ProcessIdentity) -> None:
        """Notes which process an attempt has."""
        self._write(f"{ATTEMPTS_FOLDER}/{pod}/process.json", {"pid": process.pid, "started": process.started})

    def read_process(self, pod: str) -> ProcessIdentity | None:
        """Which process an attempt has; None where none was started."""
        try:
            body = self._read(f"{ATTEMPTS_FOLDER}/{pod}/process.json")
        except RunDirectoryError:
            return None
        return ProcessIdentity(int(body["pid"]), str(body["started"]))

    def clear_attempt(self, pod: str) -> None:
        """Frees the disk of what an ended attempt has left of checkpoints."""
        for name in _LEFT_BEHIND:
            with suppress(OSError):
                shutil.rmtree(self.find_shared(pod) / name)

    # Files

    def _write(self, name: str, body: Mapping[str, Any]) -> None:
        self._replace(name, json.dumps(body, ensure_ascii=False, separators=(",", ":")))

    def _replace(self, name: str, text: str) -> Path:
        path = self.path / name
        file, temporary = tempfile.mkstemp(dir=path.parent, prefix=_TEMPORARY)
        with os.fdopen(file, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(temporary).replace(path)
        return path

    def _read(self, name: str) -> Manifest:
        path = self.path / name
        try:
            body = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            words = error.strerror if isinstance(error, OSError) else "it is not JSON"
            raise RunDirectoryError(
                f"{path}: {words}; name the directory of a run, such as podtune-runs/NAME"
            ) from error
        if not isinstance(body, dict):
            raise RunDirectoryError(f"{path}: it holds no object; name the directory of a run")
        return body


def _take_lock(file: int, patience: float) -> None:
    """Locks a file within so many seconds.

    Raises:
        BlockingIOError: Somebody else holds the lock.
    """
    give_up_at = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= give_up_at:
                raise
            time.sleep(_LOCK_POLL)
        else:
            return
