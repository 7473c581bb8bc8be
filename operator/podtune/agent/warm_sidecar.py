"""The sidecar of a pod that is reused: one attempt after the other, each with files, threads and settings of its own.

What the pod is to do next stands in a file of the shared directory, for the program, and for an agent that was started
again. It is written when all is in place that the program finds beside it: parameters, and what was restored.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import TextIO

from podtune.agent.event_log import EventLog
from podtune.agent.intake import prepare_directory
from podtune.agent.operator_client import OperatorClient
from podtune.agent.restore import NothingRestored, restore
from podtune.agent.run import Sidecar
from podtune.agent.settings import Settings, SettingsError
from podtune.protocol.assignment import Assignment, parse_assignment
from podtune.protocol.fields import ProtocolError
from podtune.protocol.messages import MAX_MESSAGE, RestoreFailure
from podtune.storage.address import StoreAddress
from podtune.storage.object_store import ObjectStore
from podtune.storage.s3_store import S3Store
from podtune.trial import layout
from podtune.trial.sharing import make_shared_directory

MAX_ASSIGNMENT = 1 << 20


class WarmSidecar:
    """Everything that runs beside a program that trains one trial after the other."""

    def __init__(
        self,
        settings: Settings,
        log: EventLog,
        rng: Random,
        output: TextIO,
        make_store: Callable[[StoreAddress], ObjectStore] = S3Store,
    ) -> None:
        """See `Sidecar`; the settings are those of the pod's first attempt."""
        self._first = settings
        self._log = log
        self._rng = rng
        self._output = output
        self._make_store = functools.cache(make_store)
        self._directory = settings.directory
        self._client = OperatorClient(settings)

    def run(self, wait_for_end: Callable[[float], bool]) -> None:
        """Runs until the program has ended; see `Sidecar.run`."""
        failure: RestoreFailure | None = None
        settings, is_checked = self._resumed(), False
        while True:
            log = self._log.about(trial=settings.trial, attempt=settings.attempt)
            self._client.turn_to(settings.trial)
            sidecar = Sidecar(
                settings, log, self._rng, self._output, self._make_store, client=self._client, is_checked=is_checked
            )
            sidecar.attempt.restore_failure = failure
            sidecar.run(wait_for_end)
            assignment = sidecar.attempt.next
            if assignment is None:
                return
            settings, is_checked = self._settings_of(assignment), True
            failure = self._prepare(assignment, settings)

    def _resumed(self) -> Settings:
        """What the pod was doing when the agent was started: its first attempt, unless it was started again since."""
        path = self._directory / layout.ASSIGNMENT
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(file, "rb") as stream:
                if os.fstat(file).st_uid != os.geteuid():
                    raise ValueError("it is not the agent's own")  # it says whose checkpoints are stored
                return self._settings_of(parse_assignment(json.loads(stream.read(MAX_ASSIGNMENT))))
        except FileNotFoundError:
            return self._first
        except (OSError, ValueError, ProtocolError) as error:
            self._log.error("assignment can't be read", message=str(error))
            return self._first

    def _settings_of(self, assignment: Assignment) -> Settings:
        return self._first.of_next(assignment, self._directory / _folder(assignment))

    def _prepare(self, assignment: Assignment, settings: Settings) -> RestoreFailure | None:
        """Puts all in place that the program needs, and has it begin; returns why it can't, if it can't."""
        try:
            make_shared_directory(self._directory / layout.TRIALS)
            make_shared_directory(settings.directory)
            prepare_directory(settings.directory)
            if assignment.restore_from:
                restore(settings, self._log, self._rng, self._make_store)
            _write(settings.directory / layout.PARAMETERS, dict(assignment.parameters))
            _write(self._directory / layout.ASSIGNMENT, {**asdict(assignment), "directory": _folder(assignment)})
        except (NothingRestored, SettingsError, OSError) as error:
            self._log.error("attempt can't begin", message=str(error))
            code = error.exit_code if isinstance(error, NothingRestored) else os.EX_TEMPFAIL
            return RestoreFailure(code, str(error)[:MAX_MESSAGE])
        return None


def _folder(assignment: Assignment) -> str:
    return f"{layout.TRIALS}/{assignment.trial}-{assignment.number}"


def _write(path: Path, content: object) -> None:
    """Replaces a file whole, by a new one under a name that nobody can have put a link at."""
    temporary = path.with_name(f".{path.name}-{os.urandom(8).hex()}")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        with os.fdopen(file, "wb") as stream:
            os.fchmod(file, 0o644)
            stream.write(json.dumps(content).encode())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
