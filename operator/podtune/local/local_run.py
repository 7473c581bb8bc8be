"""One experiment on this machine, from its start, or from where it was left, to its end.

One thread, that of the caller, owns the runner's machine: pods and agents speak to it through a queue. Whatever the
machine asks for is carried out at once and in order, and it is asked again until it wants nothing more; then the run
waits for the next thing that happens, or for when the machine wants to be asked.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from podtune.api.names import EXPERIMENT_KIND, ConditionType
from podtune.cli.archives.archive import make_archive
from podtune.cli.client.api_client import Change
from podtune.cli.client.run_directory import STORE_CLAIM
from podtune.cli.views.progress import EXPERIMENT_CHANGED, TRIALS_CHANGED, Progress
from podtune.kube.manifests import Manifest
from podtune.local.containers import find_engine
from podtune.local.devices import DevicePool
from podtune.local.directory import RunDirectory, RunSettings
from podtune.local.executor import LocalExecutor
from podtune.local.local_pod import Machine
from podtune.local.objects import LocalObjects
from podtune.local.program_starter import ProgramStarter
from podtune.protocol.messages import Reply, Report
from podtune.runner.experiment_machine import ExperimentMachine, Unaccepted
from podtune.runner.records import StoragePod
from podtune.runner.settings import RunnerSettings
from podtune.runner.steps import do_all

_SETTINGS = RunnerSettings(
    result_debounce=0.5,
    running_debounce=0.2,
    first_result_debounce=0.2,
    pending_debounce=0.5,
    experiment_debounce=0.25,
    finished_pod_time=60.0,
)
"""Files cost less than requests to an API server, so what people see may be newer; no decision depends on these."""
_LONGEST_WAIT = 60.0
"""Seconds until the machine is asked at the latest."""


@dataclass(frozen=True, slots=True)
class _PodChanged:
    """A pod's thread says what has become of it."""

    pod: str
    changes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Reported:
    """An agent has posted a report, and waits for the answer."""

    trial: str
    pod: str
    report: Report
    answer: Future[Reply | Unaccepted]


@dataclass(frozen=True, slots=True)
class _StorageDone:
    """A job in the store is done."""

    pod: StoragePod


@dataclass(frozen=True, slots=True)
class _Interrupted:
    """The user wants to go on another time."""


_Event = _PodChanged | _Reported | _StorageDone | _Interrupted


class LocalRun:
    """Runs an experiment; `follow` is to be called once, and by the thread that made it."""

    def __init__(
        self,
        directory: RunDirectory,
        settings: RunSettings,
        devices: DevicePool,
        *,
        environ: Mapping[str, str] = os.environ,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Takes up what is in the directory.

        Raises:
            CliError: It can't be read, or what programs run in isn't there.
        """
        self._directory = directory
        self._now = now
        self._events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._is_interrupted = False
        self._wake = 0.0
        self.progress = Progress()
        self._objects = LocalObjects(directory, self._show)
        for source in (EXPERIMENT_CHANGED, TRIALS_CHANGED):
            self.progress.apply(source, Change("SYNCED", {}))
        machine = Machine(
            directory=directory,
            programs=ProgramStarter(
                directory,
                Path(settings.workdir),
                socket.gethostname(),
                environ,
                find_engine(settings.engine, environ) if settings.engine else None,
                settings.mounts_workdir,
            ),
            now=now,
            change=lambda pod, changes: self._events.put(_PodChanged(pod, changes)),
            post=lambda trial, pod: partial(self._post, trial, pod),
        )
        self._executor = LocalExecutor(
            objects=self._objects,
            directory=directory,
            devices=devices,
            machine=machine,
            now=now,
            on_storage_pod=lambda pod: self._events.put(_StorageDone(pod)),
        )
        # What an earlier process has left is paused first, as by Ctrl-C: a decision on record, which spends no retry.
        self._is_settling = any(not pod.record.is_over for pod in self._objects.pods.values())
        if self._objects.is_suspended != self._is_settling:
            self._objects.suspend_experiment(self._is_settling)
        self._runner = ExperimentMachine(self._objects.experiment, _SETTINGS)
        pods = [pod.record for pod in self._objects.pods.values()]
        do_all(self._runner.restore(list(self._objects.trials.values()), pods))

    @property
    def path(self) -> Path:
        """Where all of it is kept."""
        return self._directory.path

    def locate(self, text: str) -> str:
        """A text with the folders of checkpoints in the place of their addresses."""
        return text.replace(f"volume://{STORE_CLAIM}/", f"{self._directory.store}/")

    @property
    def is_suspended(self) -> bool:
        """Whether all trials are paused, and nothing runs any more."""
        return not self._executor.is_busy and self._is_true(ConditionType.SUSPENDED)

    def interrupt(self) -> None:
        """Has all trials pause, so that the run can go on another time; may be called by a signal handler."""
        self._events.put(_Interrupted())

    def kill(self) -> None:
        """Ends all programs at once; may be called by a signal handler."""
        self._executor.kill_all()

    def follow(self) -> Iterator[Progress]:
        """Runs until the experiment has ended, or has been interrupted; yields whenever there may be something new."""
        self._executor.take_up(self._runner)
        while True:
            self._decide()
            yield self.progress
            has_outcome = self.progress.outcome is not None and not self._executor.is_busy
            if has_outcome or (self.is_suspended and self._is_interrupted):
                return
            if self.is_suspended and self._is_settling:
                self._is_settling = False
                self._runner.observe_experiment(self._objects.suspend_experiment(False))
            else:
                self._wait()

    def close(self) -> None:
        """Lets another process go on with it."""
        self._directory.close()

    def write_archive(self) -> Path:
        """Writes the experiment in one file; returns its path."""
        experiment, trials = self._objects.bodies
        body = make_archive(experiment, trials, {}).to_body()
        return self._directory.write_archive(json.dumps(body, ensure_ascii=False))

    def _is_true(self, condition: ConditionType) -> bool:
        view = self.progress.experiment
        return view is not None and view.find_true(condition) is not None

    def _decide(self) -> None:
        while True:
            plan = self._runner.decide(self._now())
            for action in plan.actions:
                now = self._now()
                result = self._executor.execute(self._runner, action, now)
                self._runner.on_action_result(action, result, self._now())
            if not plan.actions:
                self._wake = plan.wake
                return

    def _wait(self) -> None:
        """Waits for something to happen, and has the machine observe it, with all that has happened besides."""
        try:
            self._take(self._events.get(timeout=min(max(self._wake - self._now(), 0.0), _LONGEST_WAIT)))
            while True:
                self._take(self._events.get_nowait())
        except queue.Empty:
            return

    def _take(self, event: _Event) -> None:
        match event:
            case _PodChanged():
                self._executor.on_change(self._runner, event.pod, event.changes)
            case _Reported():
                event.answer.set_result(self._runner.report(event.trial, event.pod, event.report, self._now()))
            case _StorageDone():
                self._runner.observe_storage_pod(event.pod)
            case _Interrupted():
                self._is_interrupted = True
                if not self._objects.is_suspended:
                    self._runner.observe_experiment(self._objects.suspend_experiment(True))

    def _post(self, trial: str, pod: str, report: Report) -> Future[Reply | Unaccepted]:
        answer: Future[Reply | Unaccepted] = Future()
        self._events.put(_Reported(trial, pod, report, answer))
        return answer

    def _show(self, kind: str, body: Manifest) -> None:
        source = EXPERIMENT_CHANGED if kind == EXPERIMENT_KIND else TRIALS_CHANGED
        self.progress.apply(source, Change("MODIFIED", body))
