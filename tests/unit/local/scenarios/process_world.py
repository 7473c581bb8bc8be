"""What `tests/unit/runner/world` simulates, over real processes: the same scenarios run in both.

`ProcessWorld` has what scenarios use of a `Simulation`: the experiment's records, the actions that were asked for, what
users and the API server may do. A scenario that asks for more, such as a node that is lost, has no place here.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typing_extensions import override

from podtune.agent.state.restore_info import RestoreInfo, read_restore_info
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.trial import TrialStatus
from podtune.cli.client.run_directory import STORE_CLAIM
from podtune.cluster import decoders
from podtune.local import local_run
from podtune.local.adaptation import adapt
from podtune.local.devices import DevicePool
from podtune.local.directory import RunDirectory, RunSettings
from podtune.local.executor import LocalExecutor
from podtune.local.local_run import LocalRun
from podtune.local.objects import LocalObjects, make_experiment
from podtune.protocol.messages import Restored
from podtune.runner.actions import (
    Action,
    ActionResult,
    ActionStatus,
    DeletePod,
    EmitEvent,
    Propose,
)
from podtune.runner.experiment_machine import ExperimentMachine
from podtune.runner.records import Experiment, Pod, Trial
from podtune.runner.search.session import SearcherSession
from podtune.runner.settings import RunnerSettings
from podtune.storage.directory import Directory
from podtune.tuning.schedulers.base import Scheduler
from podtune.tuning.schedulers.factory import make_scheduler
from podtune.tuning.searchers.base import Proposal
from tests.unit.runner.world.action_log import ActionLog, ActionT
from tests.unit.runner.world.simulated_program import Program

PATIENCE = 60.0
"""Seconds from one action to the next, at most; nothing depends on how fast it is."""
SCALE = 0.02
"""Real seconds of a simulated one, in programs."""
MOST_STEPS = 400
MOST_TRIALS = 40
_PROGRAM = Path(__file__).with_name("planned_program.py")


class Clock:
    """The time, which skips whatever nobody would do anything in."""

    def __init__(self) -> None:
        self._skipped = 0.0

    def now(self) -> float:
        return time.time() + self._skipped

    def skip_to(self, moment: float) -> None:
        self._skipped += max(0.0, moment - self.now())


class WatchedExecutor(LocalExecutor):
    """The executor, and what a scenario has it do besides; what holds at each action is checked."""

    def __init__(self, world: ProcessWorld, **options: Any) -> None:
        super().__init__(**options)
        self._world = world

    @override
    def execute(self, runner: ExperimentMachine, action: Action, now: float) -> ActionResult:
        world = self._world
        world.log.append(action)
        refusal = world.refuse(action)
        if refusal is not None:
            return refusal
        if isinstance(action, DeletePod):
            world.check_deletion(action)
        result = super().execute(runner, action, now)
        if isinstance(action, EmitEvent):
            world.events.append(action)
        if isinstance(action, Propose):
            world.proposed.update(zip(range(action.first, action.first + action.count), result.proposals, strict=False))
        world.check_running(len(self._running))
        return result


@dataclass(frozen=True)
class AttemptFiles:
    """What an attempt has left on the disk, in the place of a `SimulatedPod`."""

    path: Path

    @property
    def restored(self) -> Restored:
        info = read_restore_info(Directory(self.path / "shared")) or RestoreInfo()
        return info.restored


class Damaged:
    """The checkpoints that can't be restored: their files are cut off."""

    def __init__(self, store: Path) -> None:
        self._store = store

    def add(self, uri: str) -> None:
        folder = self._store / uri.removeprefix(f"volume://{STORE_CLAIM}/")
        manifest = folder / "manifest.json"
        assert manifest.exists(), list(folder.rglob("*"))
        manifest.write_text("{")

    def update(self, uris: Iterable[str]) -> None:
        for uri in uris:
            self.add(uri)


class Records:
    """The records, as a scenario asks the API server for them."""

    def __init__(self, objects: LocalObjects) -> None:
        self._objects = objects

    @property
    def experiment(self) -> Experiment:
        return self._objects.experiment

    @property
    def trials(self) -> Mapping[str, Trial]:
        return self._objects.trials

    @property
    def pods(self) -> Mapping[str, Pod]:
        return {name: pod.record for name, pod in self._objects.pods.items()}


class ProcessWorld(ActionLog):
    """Runs one experiment; to be closed."""

    def __init__(
        self,
        path: Path,
        monkeypatch: pytest.MonkeyPatch,
        experiment: ExperimentSpec,
        program: Program | None = None,
        weather: object = None,
        *,
        seed: int = 0,
        settings: RunnerSettings | None = None,
        make_scheduler: Callable[[ExperimentSpec], Scheduler] = make_scheduler,
    ) -> None:
        self.program = program or Program()
        self.log: list[Action] = []
        self.events: list[EmitEvent] = []
        self.proposed: dict[int, Proposal] = {}
        self.refuse: Callable[[Action], ActionResult | None] = lambda action: None
        self.clock = Clock()
        self._most = experiment.max_concurrent_trials
        directory = RunDirectory(path / "run")
        directory.create(RunSettings(str(path)))
        plan = path / "plan.json"
        plan.write_text(json.dumps(_write_plan(self.program, experiment)))
        directory.write_experiment(make_experiment(_write_manifest(experiment, plan), "e"))
        used = settings or local_run._SETTINGS
        monkeypatch.setattr(local_run, "LocalExecutor", partial(WatchedExecutor, self))
        monkeypatch.setattr(local_run, "ExperimentMachine", lambda of, _: ExperimentMachine(of, used, make_scheduler))
        self.settings = used
        devices = DevicePool(None, cpus=1000.0)
        self._run = LocalRun(directory, RunSettings(str(path)), devices, environ=os.environ, now=self.clock.now)
        self._directory = directory
        self.api = Records(self._run._objects)
        self.bucket = SimpleNamespace(damaged=Damaged(directory.store))
        self._states: Iterator[object] = self._run.follow()

    def run(self, *, until: Callable[[], bool] = lambda: False) -> ProcessWorld:
        """Runs it to its end, or until something holds."""
        done, deadline = -1, 0.0
        while not until():
            if len(self.log) > done:
                done, deadline = len(self.log), time.monotonic() + PATIENCE
            assert time.monotonic() < deadline, self.api.experiment.status
            if not self._run._executor.is_busy and not _stores_something() and self._run._events.empty():
                self.clock.skip_to(min(self._run._wake, self.clock.now() + 3600.0))
            try:
                next(self._states)
            except StopIteration:
                return self
        return self

    def close(self) -> None:
        """Ends all programs, and waits for them."""
        self._run.kill()
        for pod in list(self._run._executor._running.values()):
            deadline = time.monotonic() + PATIENCE
            while pod.is_alive():
                assert time.monotonic() < deadline, f"{pod.name} does not end"
                self._answer_reports()
                pod.join(0.02)
        self._run.close()

    def _answer_reports(self) -> None:
        """Agents wait for the answers to their last reports."""
        while not self._run._events.empty():
            self._run._take(self._run._events.get_nowait())

    # What holds

    def check_deletion(self, action: DeletePod) -> None:
        """A pod is deleted only after the decision to do so, or the attempt's end, is written."""
        pod = self.api.pods.get(action.name)
        if pod is None:
            return
        body = json.loads((self._directory.path / f"trials/{pod.trial}.json").read_text())
        status = decoders.decode_trial(body).status
        ended = status.last_attempt is not None and status.last_attempt.attempt >= pod.attempt
        decided = status.decision is not None and status.decision.attempt == pod.attempt
        finished = status.state is not None and status.state.is_finished
        assert ended or decided or finished, f"{pod.name} deleted too early"

    def check_running(self, count: int) -> None:
        assert count <= self._most, "more trials run than may"

    # What scenarios do and see

    def fail(
        self,
        kind: type[ActionT],
        message: str = "busy",
        *,
        when: Callable[[ActionT], object] = lambda action: True,
        status: ActionStatus = ActionStatus.FAILED,
    ) -> None:
        answer = ActionResult(status, message)
        self.refuse = lambda action: answer if isinstance(action, kind) and when(action) else None

    def answers(self, action: Propose) -> dict[int, Proposal]:
        assert self.api.experiment.spec is not None
        answers = SearcherSession(self.api.experiment.spec).answer(action)
        return dict(zip(range(action.first, action.first + action.count), answers, strict=False))

    @property
    def is_over(self) -> bool:
        state = self.api.experiment.status.state
        return state is not None and state.is_finished

    @property
    def pods(self) -> Mapping[str, AttemptFiles]:
        return {action.name: AttemptFiles(self._directory.find_attempt(action.name)) for action in self.created_pods()}

    def status(self, index: int = 0) -> TrialStatus:
        return self.api.trials[f"e-{index}"].status

    def status_exists(self, index: int = 0) -> bool:
        return f"e-{index}" in self.api.trials


def _stores_something() -> bool:
    return any(thread.name == "storage" for thread in threading.enumerate())


def _write_manifest(experiment: ExperimentSpec, plan: Path) -> dict[str, Any]:
    """The Experiment with programs that follow a plan."""
    spec = experiment.model_dump(mode="json", by_alias=True, exclude_unset=True)
    stages = {"train": spec["trialTemplate"], "evaluate": (spec.get("evaluation") or {}).get("template")}
    for stage, template in stages.items():
        if template:
            container = template["spec"]["containers"][0]
            container["command"] = [sys.executable, "-I", "-S", str(_PROGRAM), str(plan), stage]
            template["spec"].setdefault("terminationGracePeriodSeconds", 1)
    return adapt({"spec": spec}, (), {}).resource


def _write_plan(program: Program, experiment: ExperimentSpec) -> dict[str, Any]:
    steps = min(program.steps, MOST_STEPS)
    metrics: dict[str, dict[str, dict[str, Any]]] = {}
    evaluations: dict[str, dict[str, float | None]] = {}
    for trial in range(MOST_TRIALS):
        metrics[str(trial)] = {}
        for step in range(1, steps + 1):
            value = program.metric(trial, step)
            if value is None:
                told: dict[str, Any] = {}
            elif experiment.evaluation is not None:
                told = {"loss": -value, "accuracy": 99.0}
            else:
                told = {"accuracy": value}
            metrics[str(trial)][str(step)] = told | program.further(trial, step)
        if experiment.evaluation is not None:
            evaluations[str(trial)] = {str(step): program.evaluation(trial, step) for step in range(steps + 1)}
    faults = {
        str(trial): [fault and [fault.kind.name, fault.step, fault.exit_code] for fault in scheduled]
        for trial, scheduled in program.faults.items()
    }
    return {
        "steps": program.steps,
        "seconds": program.seconds * SCALE,
        "checkpoint_every": program.checkpoint_every,
        "stores": experiment.checkpoints.store is not None,
        "metrics": metrics,
        "evaluations": evaluations,
        "faults": faults,
    }
