"""An agent in a thread of the test, and its trial's place in a bucket."""

import io
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, Protocol

from podtune.agent.event_log import EventLog
from podtune.agent.settings import Settings
from podtune.agent.sidecar.run import Sidecar
from podtune.protocol.messages import FinalCommit, MetricValue, parse_final_commit
from podtune.trial import layout
from podtune.trial.checkpoint_copy import copy_checkpoint
from tests.unit.agent.stub_operator import dumps, wait_until

STORE = {"PODTUNE_STORE": json.dumps({"bucket": "models", "prefix": "demo", "endpoint": None, "region": "eu-1"})}
TRIAL = "demo/experiment-1/digits-7"
ROOT = f"{TRIAL}/pod-1"
TAKEN_WITH = {"PODTUNE_CONFIGURATION": "c" * 64}


class RunningAgent:
    """A sidecar in a thread of the test."""

    def __init__(self, environ: dict[str, str], **options: Any) -> None:
        self.settings = Settings.from_environ(environ)
        self.directory = self.settings.directory.root
        self.log = io.StringIO()
        self.output = io.StringIO()
        self._ended = threading.Event()
        self._sidecar = Sidecar(
            self.settings, EventLog(lambda: 1.0, stream=self.log), Random(1), self.output, **options
        )
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._sidecar.run(self._ended.wait)
        except BaseException as error:
            self._failure = error
            raise

    def write(self, data: bytes) -> None:
        with (self.directory / "results.jsonl").open("ab") as file:
            file.write(data)

    def is_told_to_stop(self) -> bool:
        """What the control file says to the program."""
        control = self.directory / layout.CONTROL  # written with the first decision
        return control.exists() and bool(json.loads(control.read_text())["shouldStop"])

    def wait_for_acks(self, seq: int) -> None:
        """Waits until the agent has heard that the operator has its results up to this one."""
        wait_until(lambda: self._sidecar.attempt.outbox.acked_seq >= seq)

    def end(self, seconds: float = 60.0) -> FinalCommit:
        """What the kubelet does after the program has ended; returns the final commit."""
        self._ended.set()
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "the agent did not end"
        assert self._failure is None
        return parse_final_commit(self.settings.termination_log.read_text())


class StartAgent(Protocol):
    """Starts an agent with variables of the test's own; what keywords mean depends on the fixture."""

    def __call__(self, overrides: Mapping[str, Any] = ..., /, **options: Any) -> RunningAgent: ...


class TakeCheckpoint(Protocol):
    """Takes a checkpoint of one file with a result's metrics, and returns its name."""

    def __call__(self, content: str, **metrics: MetricValue) -> str: ...


def take_checkpoint(agent: RunningAgent, files: dict[str, bytes], tmp_path: Path, **metrics: MetricValue) -> None:
    source = tmp_path / "user"
    source.mkdir(exist_ok=True)
    for name, content in files.items():
        (source / name).write_bytes(content)
    wait_until((agent.directory / "checkpoints").exists)
    agent.write(dumps(_checkpoint=copy_checkpoint(source, agent.directory / "checkpoints"), **metrics))
