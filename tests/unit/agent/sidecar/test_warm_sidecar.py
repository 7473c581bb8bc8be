"""A program that loops over its trials, the agent of a pod that is reused, and an operator that hands trials out."""

import hashlib
import io
import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import Any, Protocol

import pytest

from podtune.agent.event_log import EventLog
from podtune.agent.settings import Settings
from podtune.agent.sidecar.warm_sidecar import WarmSidecar
from podtune.protocol.assignment import Assignment, build_attempt_id
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.messages import (
    NOT_RESTORABLE,
    FinalCommit,
    MetricValue,
    Reply,
    Report,
    RestoreFailure,
    parse_final_commit,
)
from podtune.storage.address import StoreAddress
from podtune.storage.checkpoint.manifest import CheckpointManifest, ManifestFile
from podtune.storage.directory import Directory
from podtune.storage.object_store import ObjectStore
from podtune.storage.segments.reader import read_logs
from tests.unit.agent.running_agent import STORE
from tests.unit.agent.stub_operator import FENCED, StubOperator, wait_until
from tests.unit.storage.memory_store import MemoryStore

PROGRAM = """
    from podtune import trial

    for this in trial.stream():
        rate = this.params({"rate": 0.5})["rate"]
        if rate > 100:
            raise RuntimeError("diverged")
        this.report({"accuracy": rate})
        this.report({"accuracy": 2 * rate})
"""
POD = "pod-1"


class StartPod(Protocol):
    """Starts a pod whose program and store may be the test's own."""

    def __call__(self, *args: Any, **options: Any) -> "Pod": ...


class HandingOut(StubOperator):
    """Hands trials out, and keeps the results of each apart."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Assignment] = []
        self.by_attempt: dict[str, dict[int, MetricValue]] = {}
        self.finals: dict[str, tuple[FinalCommit, RestoreFailure | None]] = {}
        self._given: dict[str, Assignment | None] = {}

    def take(self, report: Report) -> Reply:
        with self.changed:
            self.reports.append(report)
            taken = self.by_attempt.setdefault(report.attempt, {})
            for result in report.results:
                if result.seq == len(taken) + 1:
                    taken[result.seq] = result.metrics["accuracy"]
            given = None
            if report.final is not None and report.final.seq == len(taken):
                self.finals[report.attempt] = (report.final, report.restore_failure)
                if report.attempt not in self._given and self.waiting:
                    self._given[report.attempt] = self.waiting.pop(0)
                given = self._given.get(report.attempt)
            self.changed.notify_all()
            decision = self.decision if report.final is None else "CONTINUE"
            return Reply(len(taken), len(taken), decision=decision, next=given)


@pytest.fixture
def operator() -> Iterator[HandingOut]:
    stub = HandingOut()
    yield stub
    stub.release()


def assignment(index: int, rate: float, number: int = 1, **fields: Any) -> Assignment:
    trial = f"digits-{index}"
    return Assignment(trial, number, build_attempt_id(POD, trial, number), {"rate": rate}, seed=7, **fields)


class Pod:
    """A training program in a process, and its agent in a thread."""

    def __init__(
        self,
        environ: dict[str, str],
        program: str = PROGRAM,
        make_store: Callable[[StoreAddress], ObjectStore] | None = None,
    ) -> None:
        self.environ = environ
        self.log = io.StringIO()
        self._ended = threading.Event()
        self._start_agent(make_store)
        variables = {key: value for key, value in os.environ.items() if not key.startswith("PODTUNE_")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program)], env={**variables, **environ}, stderr=subprocess.PIPE
        )

    def _start_agent(self, make_store: Callable[[StoreAddress], ObjectStore] | None) -> None:
        settings = Settings.from_environ(self.environ)
        options = {} if make_store is None else {"make_store": make_store}
        agent = WarmSidecar(settings, EventLog(lambda: 1.0, stream=self.log), Random(1), io.StringIO(), **options)
        self.thread = threading.Thread(target=lambda: agent.run(self._ended.wait), daemon=True)
        self.thread.start()

    def stop_agent(self) -> None:
        self._ended.set()
        self.thread.join(60)
        assert not self.thread.is_alive()

    def restart_agent(self, operator: HandingOut) -> None:
        self.stop_agent()
        operator.faults = [FENCED]  # ends the thread that would be gone with its process
        wait_until(lambda: not operator.faults)
        self._ended = threading.Event()
        self._start_agent(None)

    def end(self) -> FinalCommit:
        """The kubelet ends the agent after the program."""
        self.process.wait(60)
        self.stop_agent()
        return parse_final_commit((Settings.from_environ(self.environ).termination_log).read_text())


@pytest.fixture
def reused(environ: dict[str, str], tmp_path: Path) -> dict[str, str]:
    state = tmp_path / "state"
    state.mkdir()
    return {**environ, "PODTUNE_REUSE": "true", "PODTUNE_TRIAL": "digits-0", "PODTUNE_ATTEMPT": "1",
            "PODTUNE_PARAM_rate": "0.5", "PODTUNE_STATE": str(state)}  # fmt: skip


@pytest.fixture
def start(reused: dict[str, str]) -> Iterator[StartPod]:
    pods = []

    def start_pod(*args: Any, **options: Any) -> Pod:
        pods.append(Pod(reused, *args, **options))
        return pods[-1]

    yield start_pod
    for pod in pods:
        pod.process.kill()
        pod.process.communicate()
        pod.stop_agent()


def handles_sigterm(process: int) -> bool:
    """Whether a process would not be ended by it: a program does so while it waits for its next trial."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    (handled,) = [int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")]
    return bool(handled >> (signal.SIGTERM - 1) & 1)


def test_each_trial_has_its_own_results(start: StartPod, operator: HandingOut) -> None:
    operator.waiting = [assignment(1, 1.0), assignment(2, 3.0)]
    pod = start()
    operator.wait_for(lambda: len(operator.finals) == 3)
    assert operator.by_attempt == {
        "pod-1/0.1": {1: 0.5, 2: 1.0},
        "pod-1/1.1": {1: 1.0, 2: 2.0},
        "pod-1/2.1": {1: 3.0, 2: 6.0},
    }
    assert all(final.done and final.seq == 2 for final, _ in operator.finals.values())
    wait_until(lambda: handles_sigterm(pod.process.pid))  # it has said that it goes on, and soon waits for what is next
    pod.process.terminate()
    assert pod.process.wait(60) == 0, "the stream ends when the pod is taken away"
    assert pod.end().attempt == "pod-1/2.1"


PRINTING = """
    import os
    from datetime import UTC, datetime

    from podtune import trial

    def say(text):
        with open(os.environ["LOG"], "a") as log:
            log.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ} {text}\\n")

    say("starting")
    for this in trial.stream():
        rate = this.params({"rate": 0.5})["rate"]
        say(f"begin {rate}")
        this.report({"accuracy": rate})
        say(f"end {rate}")
"""


def test_each_trial_has_its_own_log(
    start: StartPod, operator: HandingOut, reused: dict[str, str], tmp_path: Path
) -> None:
    store, log = MemoryStore(), tmp_path / "log"
    sync = json.dumps({"segmentPeriod": 0.05, "logs": 1 << 20})
    reused.update(STORE | {"PODTUNE_SYNC": sync, "LOG": str(log)})
    operator.log_lines = lambda query: [
        line
        for line in (log.read_bytes().splitlines(keepends=True) if log.exists() else ())
        if line[:19] >= query.get("since", "")[:19].encode()  # the API server knows whole seconds alone
    ]
    operator.waiting = [assignment(1, 1.0), assignment(2, 3.0)]
    start(PRINTING, make_store=lambda _: store)
    operator.wait_for(lambda: len(operator.finals) == 3)

    def read(trial: str) -> list[str]:
        return [line.text for line in read_logs(store, "demo/experiment-1/", trial)]

    assert read("digits-0") == ["starting", "begin 0.5", "end 0.5"]
    assert read("digits-1") == ["begin 1.0", "end 1.0"]
    assert read("digits-2") == ["begin 3.0", "end 3.0"]


def test_a_short_trial_is_told_of_in_one_report(
    start: StartPod, operator: HandingOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podtune.agent.sidecar.run._FIRST_WAIT", 60.0)  # on a slow machine it takes long, too
    operator.waiting = [assignment(1, 1.0)]
    start()
    operator.wait_for(lambda: "pod-1/1.1" in operator.finals)
    told = next(report for report in operator.reports if report.attempt == "pod-1/1.1")
    assert (len(told.results), told.final is not None) == (2, True)


def test_a_crash_is_the_end_of_the_trial_under_way(start: StartPod, operator: HandingOut) -> None:
    operator.waiting = [assignment(1, 1.0), assignment(2, 1000.0)]
    pod = start()
    assert pod.process.wait(60) == 1
    final = pod.end()
    assert (final.attempt, final.seq, final.done) == ("pod-1/2.1", 0, False)
    assert set(operator.finals) == {"pod-1/0.1", "pod-1/1.1"}


def test_an_agent_that_was_started_again_goes_on_where_it_was(start: StartPod, operator: HandingOut) -> None:
    operator.waiting = [assignment(1, 1.0)]
    pod = start()
    operator.wait_for(lambda: "pod-1/1.1" in operator.finals)
    pod.restart_agent(operator)
    with operator.changed:
        operator.waiting = [assignment(2, 3.0)]
    operator.wait_for(lambda: "pod-1/2.1" in operator.finals)
    assert operator.by_attempt["pod-1/2.1"] == {1: 3.0, 2: 6.0}
    assert operator.by_attempt["pod-1/0.1"] == {1: 0.5, 2: 1.0}


def test_an_assignment_that_the_program_has_written_counts_for_nothing(start: StartPod, operator: HandingOut) -> None:
    operator.waiting = [assignment(1, 1.0)]
    pod = start()
    operator.wait_for(lambda: "pod-1/1.1" in operator.finals)
    pod.process.send_signal(signal.SIGSTOP)
    shared = Settings.from_environ(pod.environ).directory.root / "assignment.json"
    forged = json.loads(shared.read_text()) | {"trial": "digits-9", "attempt": "pod-1/9.1"}
    shared.write_text(json.dumps(forged))
    before = len(operator.reports)
    pod.restart_agent(operator)
    operator.wait_for(lambda: len(operator.reports) > before + 2)
    assert {report.attempt for report in operator.reports} == {"pod-1/0.1", "pod-1/1.1"}


def test_an_agent_that_ended_before_it_had_told_the_program_does_so_when_it_is_started_again(
    start: StartPod, operator: HandingOut, reused: dict[str, str]
) -> None:
    pod = start()
    operator.wait_for(lambda: "pod-1/0.1" in operator.finals)
    settings = Settings.from_environ(reused)
    settings.directory.join("trials").make(0o755)
    settings.directory.join("trials", "digits-1-1").make(0o777)
    assert settings.state is not None
    Directory(settings.state).replace_file("assignment.json", json.dumps(asdict(assignment(1, 1.0))).encode())
    pod.restart_agent(operator)
    operator.wait_for(lambda: "pod-1/1.1" in operator.finals)
    assert operator.by_attempt["pod-1/1.1"] == {1: 1.0, 2: 2.0}


def test_a_directory_that_the_program_has_swapped_for_a_link_is_not_stored(
    reused: dict[str, str], start: StartPod, operator: HandingOut, tmp_path: Path
) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "token").write_text("the agent's own")
    reused["PODTUNE_STORE"] = json.dumps({"bucket": "bucket"})
    reused["PODTUNE_SYNC"] = json.dumps({"artifacts": {"period": 0.1}})
    program = f"""
        import os, time
        from pathlib import Path
        from podtune import trial

        for this in trial.stream():
            if os.environ["PODTUNE_TRIAL"] == "digits-1":
                own = Path(os.environ["PODTUNE_DIR"])
                own.rename(own.with_name("moved"))
                own.symlink_to({str(tmp_path / "secrets")!r})
                while not Path({str(tmp_path / "seen")!r}).exists():
                    time.sleep(0.01)
                own.unlink()
                own.with_name("moved").rename(own)
            this.report({{"accuracy": 0.5}})
    """
    operator.waiting = [assignment(1, 1.0)]
    store = MemoryStore()
    pod = start(program, make_store=lambda address: store)
    wait_until(
        lambda: "artifacts not stored" in pod.log.getvalue() or any("/artifacts/" in key for key in store.objects)
    )
    (tmp_path / "seen").touch()
    operator.wait_for(lambda: "pod-1/1.1" in operator.finals)
    assert b"the agent's own" not in store.objects.values()


def test_only_the_agent_may_move_the_directories_of_trials(start: StartPod, operator: HandingOut) -> None:
    operator.waiting = [assignment(1, 1.0)]
    pod = start()
    operator.wait_for(lambda: "pod-1/1.1" in operator.finals)
    trials = Settings.from_environ(pod.environ).directory.root / "trials"
    assert stat.S_IMODE(trials.stat().st_mode) & (stat.S_IWGRP | stat.S_IWOTH) == 0
    assert stat.S_IMODE((trials / "digits-1-1").stat().st_mode) & stat.S_IWOTH, "the program writes to its own"


def test_the_program_finds_the_variables_of_its_trial(start: StartPod, operator: HandingOut, tmp_path: Path) -> None:
    operator.waiting = [
        replace(
            assignment(4, 1.0, number=3),
            parameters={"rate": 1.0, "sizes": [64, {"b": 1, "a": 2}]},
            display_name="rate 1",
        )
    ]
    program = f"""
        import os, json
        from podtune import trial

        for this in trial.stream():
            seen = {{name: os.environ[name] for name in os.environ if name.startswith("PODTUNE_")}}
            with open({str(tmp_path / "seen")!r}, "a") as file:
                file.write(json.dumps([seen, trial.params(), trial.seed(1)]) + "\\n")
    """
    start(program)
    operator.wait_for(lambda: "pod-1/4.3" in operator.finals)
    first, second = [json.loads(line) for line in (tmp_path / "seen").read_text().splitlines()]
    assert (first[0]["PODTUNE_TRIAL"], first[1], first[2]) == ("digits-0", {"rate": 0.5}, 1)
    assert second[1:] == [{"rate": 1.0, "sizes": [64, {"a": 2, "b": 1}]}, 7]
    expected = {"TRIAL": "digits-4", "TRIAL_INDEX": "4", "ATTEMPT": "3", "SEED": "7", "PARAM_rate": "1.0"}
    expected["DISPLAY_NAME"] = "rate 1"
    expected["PARAM_sizes"] = '[64,{"a":2,"b":1}]'
    assert expected == {name: second[0][f"PODTUNE_{name}"] for name in expected}


def test_a_trial_that_is_to_stop_is_told(start: StartPod, operator: HandingOut) -> None:
    operator.decision = "STOP"
    program = """
        import time
        from podtune import trial

        for this in trial.stream():
            this.report({"accuracy": 0.5})
            while not this.should_stop():
                time.sleep(0.01)
    """
    operator.waiting = [assignment(1, 1.0)]
    start(program)
    operator.wait_for(lambda: "pod-1/1.1" in operator.finals)


def test_files_of_a_trial_are_gone_when_the_next_one_runs(
    start: StartPod, operator: HandingOut, environ: dict[str, str]
) -> None:
    operator.waiting = [assignment(1, 1.0), assignment(2, 1.0)]
    start()
    operator.wait_for(lambda: "pod-1/2.1" in operator.finals)
    trials = Settings.from_environ(environ).directory.root / "trials"
    wait_until(lambda: [path.name for path in trials.iterdir()] == ["digits-2-1"])


def test_a_clone_without_its_checkpoint_never_begins(
    reused: dict[str, str], start: StartPod, operator: HandingOut
) -> None:
    reused["PODTUNE_STORE"] = json.dumps({"bucket": "bucket"})
    candidates = (CheckpointRef("s3://bucket/nowhere/1", "sha256:0", 1),)
    operator.waiting = [assignment(1, 1.0, restore_from=candidates, restore_or_fail=True), assignment(2, 3.0)]
    start(make_store=lambda address: MemoryStore())
    operator.wait_for(lambda: "pod-1/2.1" in operator.finals)
    final, failure = operator.finals["pod-1/1.1"]
    assert failure.exit_code == NOT_RESTORABLE
    assert not final.done
    assert operator.by_attempt["pod-1/1.1"] == {}
    assert operator.by_attempt["pod-1/2.1"] == {1: 3.0, 2: 6.0}


def test_a_trial_that_is_to_look_begins_with_what_is_found(
    reused: dict[str, str], start: StartPod, operator: HandingOut
) -> None:
    reused["PODTUNE_STORE"] = json.dumps({"bucket": "bucket"})
    store, ours = MemoryStore(), "c" * 64
    for step, configuration in ((5, ours), (9, "d" * 64)):
        weights = ManifestFile("weights", 1, hashlib.sha256(b"w").hexdigest())
        manifest = CheckpointManifest(
            "old", step, step, "0.5", "2026-01-01T00:00:00+00:00", (weights,), 0.0, configuration
        )
        root = f"{reused['PODTUNE_EXPERIMENT_UID']}/digits-1/old/{step}"
        store.put_bytes(f"{root}/data/weights", b"w")
        store.put_bytes(f"{root}/manifest.json", manifest.to_bytes())
    operator.waiting = [assignment(1, 1.0, find=True, configuration=ours)]
    start(make_store=lambda address: store)
    operator.wait_for(lambda: "pod-1/1.1" in operator.finals)
    final, failure = operator.finals["pod-1/1.1"]
    assert failure is None
    assert (final.restored.step, final.restored.metric, final.restored.checkpoint.digest[:7]) == (5, 0.5, "sha256:")
