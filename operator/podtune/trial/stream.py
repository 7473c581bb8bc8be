"""The trials that a pod is given, one after the other, as the program's loop sees them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

from podtune.trial import layout, termination
from podtune.trial.sessions import PodSession, Session, find_session

_SHORTEST_POLL = 0.002
LONGEST_POLL = 0.05
"""Seconds between two looks for the next trial, at first and at last."""


def iterate_sessions(environ: MutableMapping[str, str] = os.environ) -> Iterator[Session]:
    """One session for each trial that this program is to train; outside of a pod that is reused, one.

    While a trial is under way the environment holds its variables, so processes that it starts find them, too. The
    stream ends when the pod is taken away.
    """
    session = find_session(environ)
    yield session
    if not isinstance(session, PodSession) or environ.get(layout.ENV_REUSE) != "true":
        return
    root = session.directory
    waiter = _Waiter(root / layout.ASSIGNMENT)
    while True:
        session.leave()
        assignment = waiter.wait_for_next()
        if assignment is None:
            return
        if session.directory != root:
            shutil.rmtree(session.directory, ignore_errors=True)  # all in it that counts is stored
        directory = root / str(assignment["directory"])
        _set_variables(environ, assignment, directory)
        session = PodSession(directory, environ)
        yield session


class _Waiter:
    """Waits for the file that names the next trial to be replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._read_version()

    def wait_for_next(self) -> dict[str, Any] | None:
        """What to do next; None where the pod is being taken away."""
        started = time.monotonic()
        with _Ending() as ending:
            while not ending.has_begun:
                version = self._read_version()
                if version is not None and version != self._seen:
                    self._seen = version
                    assignment: dict[str, Any] = json.loads(self._path.read_bytes())
                    return assignment
                waited = time.monotonic() - started
                time.sleep(min(LONGEST_POLL, max(_SHORTEST_POLL, waited / 20)))
        return None

    def _read_version(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns


class _Ending:
    """Notices SIGTERM while it is entered, where the program does not handle that itself: it ends by leaving its loop.

    The first process of a container is not ended by it otherwise, and would hold its pod for the whole grace period.
    """

    def __init__(self) -> None:
        self.has_begun = False
        self._handles = False
        self._former: Any = signal.SIG_DFL

    def __enter__(self) -> _Ending:
        self._former = signal.getsignal(signal.SIGTERM)
        in_main = threading.current_thread() is threading.main_thread()
        self._handles = in_main and (self._former is signal.SIG_DFL or termination.is_ours(self._former))
        if self._handles:
            signal.signal(signal.SIGTERM, self._begin)
        return self

    def __exit__(self, *_: object) -> None:
        if self._handles:
            signal.signal(signal.SIGTERM, self._former)

    def _begin(self, *_: object) -> None:
        self.has_begun = True


def _set_variables(environ: MutableMapping[str, str], assignment: dict[str, Any], directory: Path) -> None:
    """Gives the environment the variables of another trial, as a pod of its own would have them."""
    for name in [name for name in environ if name.startswith(layout.ENV_PARAMETER_PREFIX)]:
        del environ[name]
    values = {
        layout.ENV_DIRECTORY: str(directory),
        layout.ENV_TRIAL: assignment["trial"],
        layout.ENV_INDEX: str(assignment["trial"]).rpartition("-")[2],
        layout.ENV_ATTEMPT: str(assignment["number"]),
        layout.ENV_DISPLAY_NAME: assignment.get("display_name", ""),
        layout.ENV_SEED: "" if assignment["seed"] is None else str(assignment["seed"]),
        **{f"{layout.ENV_PARAMETER_PREFIX}{name}": _format_text(v) for name, v in assignment["parameters"].items()},
    }
    environ.update(values)


def _format_text(value: object) -> str:
    """A value as in the environment of a pod of its own."""
    if isinstance(value, (list, dict)):
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return str(value).lower() if isinstance(value, bool) else str(value)
