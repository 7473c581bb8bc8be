"""The two places a training program runs in: a trial's pod, and anywhere else, alone."""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from podtune.trial import layout, termination
from podtune.trial.checkpoint_copy import copy_checkpoint
from podtune.trial.metrics import Value, flatten
from podtune.trial.sharing import open_shared


class Session(Protocol):
    """What the functions of `podtune.trial` do, in one of the two places."""

    def params(self) -> dict[str, Any]:
        """The trial's parameters, as far as this place knows them."""

    def seed(self, default: int) -> int:
        """The trial's seed, or the default."""

    def report(self, metrics: Mapping[str, Any], checkpoint: Path | None, done: bool) -> None:
        """Hands over one result."""

    def restored_checkpoint(self) -> Path | None:
        """The directory of the checkpoint to go on from."""

    def should_checkpoint(self) -> bool:
        """Whether a checkpoint is wanted."""

    def should_stop(self) -> bool:
        """Whether the program is wanted to end."""


def find_session(environ: Mapping[str, str] = os.environ) -> Session:
    """The pod's session where there is a shared directory, or else one for a program on its own."""
    directory = environ.get(layout.ENV_DIRECTORY)
    if directory or Path(layout.DIRECTORY).is_dir():
        termination.end_on_sigterm()
        return PodSession(Path(directory or layout.DIRECTORY), environ)
    return LocalSession(environ)


class PodSession:
    """A program in a trial's pod: talks to the agent through files in the shared directory."""

    def __init__(self, directory: Path, environ: Mapping[str, str]) -> None:
        self.directory = directory
        """Where the trial's files are."""
        self._environ = environ
        self._control = ControlFile(directory / layout.CONTROL)
        self._answered: tuple[int, int] | None = None
        self._stop_seen = False
        self._done_said = False
        self._watches_end = False

    def params(self) -> dict[str, Any]:
        """The parameters in their own types; from the environment where the file is missing."""
        try:
            text = (self.directory / layout.PARAMETERS).read_text(encoding="utf-8")
        except FileNotFoundError:
            return read_environment_params(self._environ)
        parameters = json.loads(text)
        if not isinstance(parameters, dict):
            raise TypeError(f"{layout.PARAMETERS} is not a JSON object, but a {type(parameters).__name__}")
        return parameters

    def seed(self, default: int) -> int:
        """The trial's seed, or the default where the operator that made it knew of none."""
        return read_environment_seed(self._environ, default)

    def report(self, metrics: Mapping[str, Any], checkpoint: Path | None, done: bool) -> None:
        """Appends the result as one line; a checkpoint is in its place before the line names it."""
        with termination.end_afterwards():
            self._hand_over(metrics, checkpoint, done)

    def restored_checkpoint(self) -> Path | None:
        """The restored directory, once it is known to be whole."""
        restored = self.directory / layout.RESTORED
        whole = (self.directory / layout.RESTORE_INFO).is_file() and restored.is_dir()
        return restored if whole else None

    def should_checkpoint(self) -> bool:
        """Whether a checkpoint is wanted; one that was reported since the request came answers it."""
        return self._control.read("shouldCheckpoint") and self._control.version != self._answered

    def should_stop(self) -> bool:
        """Whether the program is wanted to end."""
        self._stop_seen = self._control.read("shouldStop") or self._stop_seen
        return self._stop_seen

    def leave(self) -> None:
        """Says that the program goes on to another trial; nothing of this one is reported after it."""
        self._done_said = True
        atexit.unregister(self._write_end_at_exit)
        self._append({layout.DONE_KEY: True, layout.END_KEY: True})

    def _hand_over(self, metrics: Mapping[str, Any], checkpoint: Path | None, done: bool) -> None:
        line: dict[str, Value] = dict(flatten(metrics))
        if checkpoint is not None:
            line[layout.CHECKPOINT_KEY] = copy_checkpoint(checkpoint, self.directory / layout.CHECKPOINTS)
            if self._control.read("shouldCheckpoint"):
                self._answered = self._control.version
        if done:
            line[layout.DONE_KEY] = self._done_said = True
        self._append(line)
        if not self._watches_end:
            self._watches_end = True
            atexit.register(self._write_end_at_exit, os.getpid())

    def _write_end_at_exit(self, registered_in: int) -> None:
        """Says that the program is done, where its normal end can mean nothing else.

        A program that traps SIGTERM ends normally when its pod is taken away, too: then only it can tell. An exit code
        is not seen here, and need not be: one other than 0 speaks for itself.
        """
        if os.getpid() != registered_in or self._done_said or hasattr(sys, "last_value"):
            return
        handler = signal.getsignal(signal.SIGTERM)
        if termination.is_ours(handler):
            traps_sigterm = termination.has_begun()
        else:
            traps_sigterm = handler not in (signal.SIG_DFL, signal.SIG_IGN)
        if self._stop_seen or not traps_sigterm:
            self._append({layout.DONE_KEY: True})

    def _append(self, line: Mapping[str, Value]) -> None:
        data = (json.dumps(line) + "\n").encode()
        path = self.directory / layout.RESULTS
        file = open_shared(path, os.O_WRONLY | os.O_APPEND)
        try:
            written = os.write(file, data)  # one write, so that lines of several processes never mix
        finally:
            os.close(file)
        if written < len(data):
            raise OSError(f"only {written} of {len(data)} bytes could be written to {path}; is its volume full?")


class LocalSession:
    """A program on its own: results are printed, and nothing is kept."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def params(self) -> dict[str, Any]:
        """The parameters that the environment holds."""
        return read_environment_params(self._environ)

    def seed(self, default: int) -> int:
        """The default, unless the environment holds a seed."""
        return read_environment_seed(self._environ, default)

    def report(self, metrics: Mapping[str, Any], checkpoint: Path | None, done: bool) -> None:
        """Prints the result on one line; a checkpoint is looked at, but not kept."""
        flat = flatten(metrics)
        if checkpoint is not None and not checkpoint.is_dir():
            raise NotADirectoryError(f"checkpoint {str(checkpoint)!r} is not a directory")
        words = [f"{key} {value:.6g}" if isinstance(value, float) else f"{key} {value}" for key, value in flat.items()]
        print("  ".join(words + ["(done)"] * done), flush=True)

    def restored_checkpoint(self) -> Path | None:
        """None: nothing is kept."""
        return None

    def should_checkpoint(self) -> bool:
        """False: nobody asks."""
        return False

    def should_stop(self) -> bool:
        """False: nobody asks."""
        return False


class ControlFile:
    """The agent's requests. The file is parsed only after it has been replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.version: tuple[int, int] | None = None
        """Tells one state of the file from the next; also where a request was taken back and made again in between."""
        self._content: dict[str, Any] = {}

    def read(self, key: str) -> bool:
        """Whether the agent requests this; False while there is no file."""
        try:
            status = self._path.stat()
            version = (status.st_ino, status.st_mtime_ns)
            if version != self.version:
                content = json.loads(self._path.read_bytes())
                self._content = content if isinstance(content, dict) else {}
                self.version = version
        except (FileNotFoundError, ValueError):
            return False
        return self._content.get(key) is True


def read_environment_params(environ: Mapping[str, str]) -> dict[str, Any]:
    """The parameters in `PODTUNE_PARAM_<name>` variables; all but texts are recognised by their looks."""
    prefix = layout.ENV_PARAMETER_PREFIX
    return {name[len(prefix) :]: read_value(text) for name, text in environ.items() if name.startswith(prefix)}


def read_environment_seed(environ: Mapping[str, str], default: int) -> int:
    """The seed in `PODTUNE_SEED`."""
    written = environ.get(layout.ENV_SEED, "")
    return int(written) if written else default


def read_value(text: str) -> Any:
    """Reads `true`, `3`, `1e-4` and `[64, 64]` as what they look like, anything else as a text."""
    if text in ("true", "false"):
        return text == "true"
    if text.startswith(("[", "{")):
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
