"""The kubelet of one pod: restores its checkpoint, starts its program, and runs the agent's code beside it.

A thread of its own does that, from the start to the final commit, in the order in which the containers of a real pod
start and end. It tells the runner what happens by changes of the pod's record. An earlier process of ours may have been
killed meanwhile: then the program is ended, and the agent reads what it has left, as one does that was restarted.
"""

from __future__ import annotations

import json
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, TextIO

from podtune.agent.checkpoints.restore import NothingRestored, restore
from podtune.agent.event_log import EventLog
from podtune.agent.module_copy import copy_module
from podtune.agent.results.result_reader import prepare_directory
from podtune.agent.settings import AgentSettingsError, Settings
from podtune.agent.sidecar.run import Sidecar
from podtune.api.names import ANNOTATION_PARAMETERS
from podtune.api.pods.pod_template import AGENT_CONTAINER, RESTORE_CONTAINER
from podtune.cluster.pods.manifest import AgentSettings
from podtune.cluster.pods.trial_module import has_copy_hook
from podtune.kube.manifests import Manifest
from podtune.local.agent_connection import AgentConnection, PostReport
from podtune.local.directory import ProcessIdentity, RunDirectory, StoredPod
from podtune.local.program import expand
from podtune.local.program_starter import ProgramStarter, RunningProgram
from podtune.protocol import agent_environment as agent_env
from podtune.runner.records import ContainerEnd, PodPhase
from podtune.trial import layout

if TYPE_CHECKING:
    from podtune.agent.endpoint.server import Endpoint

LOCAL_AGENT = AgentSettings(image="podtune run", pull_policy="Never", results_url="http://127.0.0.1")
"""What manifests of pods name; no image is pulled here, and no server is asked."""
_INTERRUPTED = "RunInterrupted: podtune run was ended while the program ran"
_NOT_STARTED = 128

PodChange = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Machine:
    """What all pods share.

    Attributes:
        directory: The run's.
        programs: Starts their programs.
        now: The present time.
        change: Tells the runner that a pod's record has changed.
        post: Hands a report to the runner, with the names of the trial and the pod.
    """

    directory: RunDirectory
    programs: ProgramStarter
    now: Callable[[], float]
    change: Callable[[str, PodChange], None]
    post: Callable[[str, str], PostReport]


class LocalPod(threading.Thread):
    """One pod that has what it needs to run."""

    def __init__(self, machine: Machine, pod: StoredPod, gpus: Sequence[str], *, is_found: bool = False) -> None:
        """Prepares the thread.

        Args:
            machine: What all pods share.
            pod: The pod.
            gpus: Its GPUs.
            is_found: Whether an earlier process of ours had begun with it.
        """
        super().__init__(name=pod.record.name, daemon=True)
        self._machine = machine
        self._manifest = pod.manifest
        self._record = pod.record
        self._gpus = gpus
        self._is_found = is_found
        self._process: RunningProgram | None = None
        self._endpoint: Endpoint | None = None
        self._lock = threading.Lock()
        self._kill_at = float("inf")
        self._asked_to_end = False
        self._has_ended = threading.Event()
        self._is_over = threading.Event()

    def terminate(self, grace: float) -> None:
        """Asks the program to end within so many seconds; after those it is killed."""
        with self._lock:
            self._kill_at = min(self._kill_at, time.monotonic() + grace)
            first, self._asked_to_end = not self._asked_to_end, True
            if first and self._process is not None and not self._has_ended.is_set():
                self._process.terminate()

    def kill(self) -> None:
        """Ends the program at once."""
        with self._lock:
            self._asked_to_end = True
            if self._process is not None and not self._has_ended.is_set():
                self._process.kill()

    def run(self) -> None:
        """Runs the pod to its end."""
        name = self._record.name
        with self._machine.directory.find_agent_log(name).open("a", encoding="utf-8") as output:
            try:
                self._run(output)
            except Exception as error:  # noqa: BLE001 - a pod that never ends would hold its trial for ever
                output.write(traceback.format_exc())
                self.kill()
                self._conclude(PodPhase.FAILED, disruption=f"AgentFailed: {type(error).__name__}: {error}")
            finally:
                self._is_over.set()
                if self._endpoint is not None:
                    self._endpoint.close()

    def _run(self, output: TextIO) -> None:
        directory, name = self._machine.directory, self._record.name
        settings = self._read_settings()
        log = EventLog(time.time, {"command": "run", **settings.log_context}, output)
        if self._is_found:
            self._take_over()
        else:
            shared = directory.find_shared(name)
            shared.mkdir(exist_ok=True)
            parameters = self._manifest["metadata"]["annotations"][ANNOTATION_PARAMETERS]
            (shared / layout.PARAMETERS).write_text(parameters, encoding="utf-8")
            if has_copy_hook(self._find_container(AGENT_CONTAINER) or {}):
                copy_module(settings.directory)
            if not self._restore(settings, log):
                return
            if settings.sources:
                self._endpoint = self._open_endpoint(settings, log)
            if not self._start():
                return
        sidecar = Sidecar(settings, log, Random(), output, connect=self._connect, endpoint=self._endpoint)
        try:
            sidecar.run(self._wait_for_end)
        finally:
            self._is_over.set()
            sidecar.close()
        self._finish(sidecar.attempt.done)

    def _read_settings(self) -> Settings:
        """The agent's settings, as its container in the manifest has them, with the places of this machine."""
        directory, name = self._machine.directory, self._record.name
        agent = self._find_container(AGENT_CONTAINER)
        assert agent is not None  # every trial's pod has one
        variables = json.loads(expand(agent["args"][1], {}))
        places = {
            layout.ENV_DIRECTORY: str(directory.find_shared(name)),
            agent_env.TERMINATION_LOG: str(directory.find_termination_message(name)),
            agent_env.POD_UID: self._record.uid,
        }
        variables.pop(agent_env.STORED_FUNCTION, None)  # a run has its ConfigMaps in its own directory
        if agent_env.STORE in variables:
            places[agent_env.STORE] = locate_store(variables[agent_env.STORE], directory.store)
        return Settings.from_environ(places, json.dumps(variables))

    def _find_container(self, name: str) -> Manifest | None:
        containers: list[Manifest] = self._manifest["spec"]["initContainers"]
        return next((container for container in containers if container["name"] == name), None)

    def _connect(self, settings: Settings) -> AgentConnection:
        post = self._machine.post(settings.trial, self._record.name)
        output = self._machine.directory.find_output(self._record.name)
        return AgentConnection(post, output, self._has_ended, self._is_over)

    # From its start to the program's

    def _restore(self, settings: Settings, log: EventLog) -> bool:
        """What the restore container does; whether the program may start."""
        if self._find_container(RESTORE_CONTAINER) is None:
            return True
        self._change(restoring=True)
        try:
            restore(settings, log, Random())
        except (NothingRestored, AgentSettingsError, OSError) as error:
            code = error.exit_code if isinstance(error, NothingRestored) else 1
            log.error("restore failed", message=str(error))
            end = ContainerEnd(RESTORE_CONTAINER, code, "Error", str(error))
            self._conclude(PodPhase.FAILED, restoring=False, ends=(end,))
            return False
        return True

    def _open_endpoint(self, settings: Settings, log: EventLog) -> Endpoint:
        """Answers the program over HTTP, at a port of its own: all pods share this machine's."""
        from podtune.agent.endpoint.server import Endpoint  # noqa: PLC0415 - few runs need it

        prepare_directory(settings.directory)
        endpoint = Endpoint(settings, log, port=0)
        endpoint.start()
        return endpoint

    def _start(self) -> bool:
        """Starts the program; whether it could be."""
        directory, name = self._machine.directory, self._record.name
        directory.write_process(name, ProcessIdentity(0, ""))
        with self._lock:
            if self._asked_to_end:
                self._conclude(PodPhase.FAILED)
                return False
            try:
                self._process = self._machine.programs.start(
                    self._manifest, self._record, self._gpus, self._endpoint.address if self._endpoint else ""
                )
            except OSError as error:
                words = f"{error.filename or 'the program'}: {error.strerror or error}"
                end = ContainerEnd(self._record.program, _NOT_STARTED, "StartError", words)
                self._conclude(PodPhase.FAILED, restoring=False, ends=(end,))
                return False
            directory.write_process(name, self._process.identity)
        self._change(phase=PodPhase.RUNNING, restoring=False, training=True, training_since=self._machine.now())
        return True

    def _take_over(self) -> None:
        """Ends the program that an earlier process of ours has started."""
        with self._lock:
            self._process = self._machine.programs.find(self._record)
            self._asked_to_end = True
            self._kill_at = time.monotonic() + self._record.own_grace
            self._process.terminate()

    # From the program's end to its own

    def _wait_for_end(self, seconds: float) -> bool:
        """Waits up to so many seconds for the program's end, and kills it when its grace period is over."""
        assert self._process is not None
        until = time.monotonic() + seconds
        while not self._has_ended.is_set():
            now = time.monotonic()
            if now >= self._kill_at:
                self._kill_at = float("inf")
                self._process.kill()
            if self._process.wait(max(0.0, min(until, self._kill_at) - now)):
                self._on_ended(self._process)
            elif time.monotonic() >= until:
                return False
        return True

    def _on_ended(self, process: RunningProgram) -> None:
        """The program has ended: so does all that it has started, as in a container."""
        end = ContainerEnd(self._record.program, process.exit_code, process.end_reason)
        process.kill()
        self._has_ended.set()
        self._change(ends=(end,), training_until=self._machine.now())

    def _finish(self, done: bool) -> None:
        """The agent has ended, too."""
        assert self._process is not None
        if self._is_found:
            self._conclude(PodPhase.SUCCEEDED if done else PodPhase.FAILED, disruption=_INTERRUPTED)
        else:
            self._conclude(PodPhase.FAILED if self._process.exit_code else PodPhase.SUCCEEDED)

    def _conclude(self, phase: PodPhase, **changes: Any) -> None:
        message = self._machine.directory.find_termination_message(self._record.name)
        words = message.read_text(encoding="utf-8").strip() if message.exists() else ""
        self._change(phase=phase, agent_message=words, ended=self._machine.now(), **changes)

    def _change(self, **changes: Any) -> None:
        self._machine.change(self._record.name, changes)


def locate_store(address: str, directory: Path) -> str:
    """The address of the store, as agents are told it, with the folder that it is here."""
    return json.dumps({**json.loads(address), "directory": str(directory)})
