"""Carries out the runner's actions on this machine: objects become files, pods processes.

Each is safe to repeat, as in a cluster. What was made or changed is observed by the machine before the result is.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, assert_never

from podtune.api.names import ExperimentReason
from podtune.cluster.pods.manifest import make_pod
from podtune.local.devices import DevicePool, read_request
from podtune.local.directory import RunDirectory
from podtune.local.local_pod import LOCAL_AGENT, LocalPod, Machine
from podtune.local.objects import LocalObjects
from podtune.local.storage_jobs import do_storage_job
from podtune.runner.actions import (
    AGENT_LOG_LINES,
    DONE,
    LOG_LINES,
    LOG_TAIL,
    Action,
    ActionResult,
    ActionStatus,
    AdoptTrial,
    CreatePod,
    CreateStoragePod,
    CreateTrial,
    DeleteExperiment,
    DeleteFinishedPods,
    DeletePod,
    DropRevision,
    EmitEvent,
    FetchLogs,
    FindCheckpoint,
    KeepRevision,
    LoadWarmStart,
    Logs,
    OpenGates,
    Propose,
    TryPod,
    WriteExperimentStatus,
    WriteMetadata,
    WriteTrialStatus,
)
from podtune.runner.experiment_machine import ExperimentMachine
from podtune.runner.records import Pod, StoragePod, Waiting
from podtune.runner.search.session import SearcherSession
from podtune.tuning.searchers.base import NoConfiguration

_ELSEWHERE = ActionResult(ActionStatus.REFUSED, "other experiments are not known here")


class LocalExecutor:
    """Carries out the actions of one experiment."""

    def __init__(
        self,
        *,
        objects: LocalObjects,
        directory: RunDirectory,
        devices: DevicePool,
        machine: Machine,
        now: Callable[[], float],
        on_storage_pod: Callable[[StoragePod], None],
    ) -> None:
        """Knows of no pod that runs.

        Args:
            objects: The objects.
            directory: The run's.
            devices: GPUs and CPUs.
            machine: What pods share.
            now: The present time.
            on_storage_pod: Hears when a job in the store is done, in another thread.
        """
        assert objects.experiment.spec is not None  # a run begins with one that can be used
        self._objects = objects
        self._directory = directory
        self._devices = devices
        self._machine = machine
        self._now = now
        self._on_storage_pod = on_storage_pod
        self._searcher = SearcherSession(objects.experiment.spec)
        self._running: dict[str, LocalPod] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a program or its agent runs."""
        return bool(self._running)

    def execute(self, runner: ExperimentMachine, action: Action, now: float) -> ActionResult:
        """Carries out an action, has the runner observe what came of it, and says how it went."""
        objects = self._objects
        match action:
            case Propose():
                return self._propose(action)
            case CreateTrial():
                runner.observe_trial(objects.create_trial(action.name, action.spec))
            case WriteTrialStatus():
                runner.observe_trial(objects.write_trial(action.name, action.status))
            case WriteExperimentStatus():
                runner.observe_experiment(objects.write_experiment(action.status))
            case WriteMetadata():
                runner.observe_experiment(objects.write_finalizers(action.finalizers))
            case CreatePod() | DeletePod() | DeleteFinishedPods() | CreateStoragePod():
                return self._request_pod(runner, action, now)
            case FetchLogs():
                return self._fetch_logs(action)
            case EmitEvent():
                self._emit(action)
            case FindCheckpoint() | LoadWarmStart():
                return _ELSEWHERE
            case AdoptTrial() | DeleteExperiment() | DropRevision() | KeepRevision() | OpenGates() | TryPod():
                pass  # nobody adds trials here, the template stays, and there are no gangs
            case _:
                assert_never(action)
        return DONE

    # Pods

    def _request_pod(
        self,
        runner: ExperimentMachine,
        action: CreatePod | DeletePod | DeleteFinishedPods | CreateStoragePod,
        now: float,
    ) -> ActionResult:
        match action:
            case CreatePod():
                return self._create_pod(runner, action)
            case DeletePod():
                self._delete_pod(runner, action, now)
            case DeleteFinishedPods():
                self._delete_finished_pods(runner, action)
            case CreateStoragePod():
                self._create_storage_pod(action)
        return DONE

    def take_up(self, runner: ExperimentMachine) -> None:
        """Ends the programs that an earlier process of ours has left; the runner deletes the pods that have none."""
        for pod in list(self._objects.pods.values()):
            name = pod.record.name
            runs = not pod.record.is_over and self._directory.read_process(name) is not None
            if runs:
                self._run(name, (), is_found=True)
            elif pod.record.deleting:  # the runner has asked for that, and does not ask again
                runner.observe_pod(self._objects.remove_pod(name))

    def on_change(self, runner: ExperimentMachine, name: str, changes: Mapping[str, Any]) -> None:
        """Takes in what a pod's thread says."""
        record = self._objects.change_pod(name, changes)
        runner.observe_pod(record)
        if not record.is_over:
            return
        self._running.pop(name, None)
        self._devices.leave(name)
        if record.deleting:
            runner.observe_pod(self._objects.remove_pod(name))
        else:
            self._directory.clear_attempt(name)

    def kill_all(self) -> None:
        """Ends all programs at once."""
        for pod in list(self._running.values()):
            pod.kill()

    def _create_pod(self, runner: ExperimentMachine, action: CreatePod) -> ActionResult:
        is_new = action.name not in self._objects.pods
        manifest = make_pod(self._objects.experiment, action, LOCAL_AGENT)
        request = read_request(manifest["spec"])
        if not self._devices.has(request):
            message = f"it asks for {request.gpus} GPUs, this machine has {self._devices.total_gpus}; lower its limits"
            return ActionResult(ActionStatus.REFUSED, message, ExperimentReason.POD_REFUSED)
        record = self._objects.create_pod(manifest)
        runner.observe_pod(record)
        if is_new:
            self._enter(runner, record)
        return DONE

    def _enter(self, runner: ExperimentMachine, record: Pod) -> None:
        """Has a pod started as soon as it gets its GPUs and CPUs."""
        name = record.name
        request = read_request(self._objects.pods[name].manifest["spec"])
        self._devices.enter(name, request, lambda gpus: self._run(name, gpus))
        if self._devices.is_waiting(name):
            waiting = Waiting(
                "Unschedulable", f"waits for {request.gpus} GPUs and {request.cpus:g} CPUs of this machine"
            )
            runner.observe_pod(self._objects.change_pod(name, {"waiting": waiting}))

    def _run(self, name: str, gpus: Sequence[str], *, is_found: bool = False) -> None:
        pod = self._running[name] = LocalPod(self._machine, self._objects.pods[name], gpus, is_found=is_found)
        if not is_found:
            self._machine.change(name, {"started": self._now(), "waiting": None})
        pod.start()

    def _delete_pod(self, runner: ExperimentMachine, action: DeletePod, now: float) -> None:
        pod = self._objects.pods.get(action.name)
        if pod is None or pod.record.uid != action.uid or pod.record.deleting:
            return
        if action.name not in self._running:
            self._devices.leave(action.name)
            runner.observe_pod(self._objects.remove_pod(action.name))
            return
        runner.observe_pod(self._objects.change_pod(action.name, {"deleting": True, "deletion_requested": now}))
        grace = pod.record.own_grace if action.grace is None else min(action.grace, pod.record.own_grace)
        self._running[action.name].terminate(grace)

    def _delete_finished_pods(self, runner: ExperimentMachine, action: DeleteFinishedPods) -> None:
        for pod in [pod.record for pod in self._objects.pods.values() if pod.record.trial in action.trials]:
            if pod.is_over and pod.name not in self._running:
                runner.observe_pod(self._objects.remove_pod(pod.name))

    def _create_storage_pod(self, action: CreateStoragePod) -> None:
        arguments = (self._objects.experiment, action, self._directory, self._on_storage_pod)
        threading.Thread(target=do_storage_job, args=arguments, name="storage", daemon=True).start()

    # The rest

    def _propose(self, action: Propose) -> ActionResult:
        searcher, self._searcher = self._searcher, SearcherSession(self._searcher.spec)
        try:
            proposals = searcher.answer(action)
        except NoConfiguration as error:
            return ActionResult(ActionStatus.REFUSED, str(error), ExperimentReason.NO_CONFIGURATION)
        except ModuleNotFoundError:
            raise
        except Exception as error:  # noqa: BLE001 - a searcher may be anyone's code; the next request gets a fresh one
            return ActionResult(ActionStatus.FAILED, f"{type(error).__name__}: {error}")
        self._searcher = searcher
        return ActionResult(ActionStatus.DONE, proposals=proposals)

    def _fetch_logs(self, action: FetchLogs) -> ActionResult:
        program, agent = "", tuple[str, ...]()
        if action.program:
            path = self._directory.find_output(action.failed or action.pod)
            program = "".join(_read_last_lines(path, LOG_LINES))
        if action.agent:
            lines = _read_last_lines(self._directory.find_agent_log(action.pod), AGENT_LOG_LINES)
            agent = tuple(line.rstrip("\n") for line in lines)
        return ActionResult(ActionStatus.DONE, logs=Logs(program[-LOG_TAIL:].strip(), agent))

    def _emit(self, action: EmitEvent) -> None:
        self._directory.append_event(
            {
                "time": datetime.fromtimestamp(self._now(), UTC).isoformat(timespec="seconds"),
                "type": "Warning" if action.warning else "Normal",
                "about": action.trial or self._objects.experiment.name,
                "reason": action.reason,
                "message": action.message,
            }
        )


def _read_last_lines(path: Path, count: int) -> list[str]:
    """The last lines of a file; none where it is missing."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return list(deque(file, count))
    except FileNotFoundError:
        return []
