"""The sidecar of a reused pod: one attempt after the other, each with its own files, threads and settings.

A file in the shared directory tells the program which trial comes next. It is written once everything that belongs to
it is in place: the parameters and the restored checkpoint. A restarted agent reads its own copy from a private
directory: the assignment says where in the bucket things are stored, and the program could have changed the shared
file.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from random import Random
from typing import TextIO

from podtune.agent.checkpoints.restore import NothingRestored, restore
from podtune.agent.delivery.operator_client import OperatorClient
from podtune.agent.event_log import EventLog
from podtune.agent.results.result_reader import prepare_directory
from podtune.agent.settings import AgentSettingsError, Settings
from podtune.agent.sidecar.run import Sidecar
from podtune.protocol.assignment import Assignment, parse_assignment
from podtune.protocol.fields import ProtocolError
from podtune.protocol.messages import MAX_REPORTED_MESSAGE, RestoreFailure
from podtune.storage.address import StoreAddress
from podtune.storage.directory import Directory
from podtune.storage.object_store import ObjectStore
from podtune.storage.stores import make_store
from podtune.trial import layout
from podtune.trial.sharing import DIRECTORY_MODE

MAX_ASSIGNMENT = 1 << 20
TRIALS_MODE = 0o755
"""Of the directory that holds the trials' own: only the agent may rename these."""


class WarmSidecar:
    """Everything that runs beside a program that trains one trial after the other."""

    def __init__(
        self,
        settings: Settings,
        log: EventLog,
        rng: Random,
        output: TextIO,
        make_store: Callable[[StoreAddress], ObjectStore] = make_store,
    ) -> None:
        """See `Sidecar`; the settings are those of the pod's first attempt."""
        self._first = settings
        self._log = log
        self._rng = rng
        self._output = output
        self._make_store = functools.cache(make_store)
        self._directory = settings.directory
        assert settings.state is not None  # a pod that is reused has one
        self._state = Directory(settings.state)
        self._folders: list[str] = []
        """The directories of earlier trials that may still exist; a program empties its own when its trial is over."""
        self._client = OperatorClient(settings)

    def run(self, wait_for_end: Callable[[float], bool]) -> None:
        """Runs until the program has ended; see `Sidecar.run`."""
        failure: RestoreFailure | None = None
        settings, is_checked = self._resume(), False
        while True:
            log = self._log.bind(**settings.log_context)
            self._client.turn_to(settings.trial)
            sidecar = Sidecar(
                settings,
                log,
                self._rng,
                self._output,
                self._make_store,
                client=self._client,
                is_checked=is_checked,
                log_since=_format_time(time.time()) if failure else self._find_log_begin(),
            )
            sidecar.attempt.restore_failure = failure
            sidecar.run(wait_for_end)
            assignment = sidecar.attempt.next
            if assignment is None:
                return
            settings, is_checked = self._build_settings(assignment), True
            failure = self._prepare(assignment, settings)

    def _resume(self) -> Settings:
        """What the pod was doing when the agent was started: its first attempt, unless it was started again since."""
        try:
            assignment = parse_assignment(json.loads(self._state.read_file(layout.ASSIGNMENT, MAX_ASSIGNMENT)))
        except FileNotFoundError:
            return self._first
        except (OSError, ValueError, ProtocolError) as error:
            self._log.error("assignment can't be read", message=str(error))
            return self._first
        try:
            self._tell_program(assignment)
        except OSError as error:
            self._log.error("the assignment can't be passed to the program", message=str(error))
        return self._build_settings(assignment)

    def _find_log_begin(self) -> str:
        """When the pod was given what it runs, in RFC 3339; empty where that is its first attempt."""
        try:
            assigned = self._state.stat(layout.ASSIGNMENT).st_mtime
        except OSError:
            return ""
        return _format_time(assigned)

    def _build_settings(self, assignment: Assignment) -> Settings:
        return self._first.of_next(assignment, self._directory.join(layout.TRIALS, _format_folder(assignment)))

    def _prepare(self, assignment: Assignment, settings: Settings) -> RestoreFailure | None:
        """Puts all in place that the program needs, and has it begin; returns why it can't, if it can't."""
        try:
            self._directory.join(layout.TRIALS).make(TRIALS_MODE)
            self._remove_old()
            settings.directory.make(DIRECTORY_MODE)
            prepare_directory(settings.directory)
            if settings.restores:
                restore(settings, self._log, self._rng, self._make_store)
            settings.directory.replace_file(layout.PARAMETERS, _encode_json(dict(assignment.parameters)))
            # Its own first: should the agent end in between, the next one tells the program.
            self._state.replace_file(layout.ASSIGNMENT, _encode_json(asdict(assignment)))
            self._tell_program(assignment)
        except (NothingRestored, AgentSettingsError, OSError) as error:
            self._log.error("attempt can't begin", message=str(error))
            code = error.exit_code if isinstance(error, NothingRestored) else os.EX_TEMPFAIL
            return RestoreFailure(code, str(error)[:MAX_REPORTED_MESSAGE])
        self._folders.append(_format_folder(assignment))
        return None

    def _tell_program(self, assignment: Assignment) -> None:
        """Passes the assignment to the program, unless it has it already: one that is written again is begun again."""
        content = _encode_json({**asdict(assignment), "directory": f"{layout.TRIALS}/{_format_folder(assignment)}"})
        with suppress(OSError):
            if self._directory.read_file(layout.ASSIGNMENT, MAX_ASSIGNMENT) == content:
                return
        self._directory.replace_file(layout.ASSIGNMENT, content)

    def _remove_old(self) -> None:
        """Removes what programs have left of trials before the last one, which they can't remove themselves."""
        trials = self._directory.join(layout.TRIALS)
        while len(self._folders) > 1:
            with suppress(OSError):
                trials.remove(self._folders[0])
            del self._folders[0]


def _format_folder(assignment: Assignment) -> str:
    return f"{assignment.trial}-{assignment.number}"


def _format_time(seconds: float) -> str:
    """A time in RFC 3339."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _encode_json(content: object) -> bytes:
    return json.dumps(content).encode()
