import io
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from podtune.agent.checkpoints import garbage_collection, ledger_upload, store_retry
from podtune.agent.checkpoints.upload_task import Shutdown, TaskContext
from podtune.agent.event_log import EventLog
from podtune.agent.settings import Settings
from podtune.agent.state.attempt import Attempt
from podtune.agent.state.result_line import ResultLine
from podtune.protocol.messages import MetricValue
from podtune.trial.checkpoint_copy import copy_checkpoint
from tests.unit.agent.running_agent import STORE, TAKEN_WITH, RunningAgent, StartAgent, TakeCheckpoint
from tests.unit.agent.stub_operator import StubOperator, dumps
from tests.unit.storage.memory_store import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_retry, "FIRST_WAIT", 0.02)
    monkeypatch.setattr(store_retry, "PERMANENT_WAIT", 0.05)


@pytest.fixture(autouse=True)
def last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that answers is waited for on the slowest machine, too."""
    monkeypatch.setattr(ledger_upload, "LAST_WORD", 60.0)


@pytest.fixture
def patient_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for what waits until the operator has recorded the last checkpoint."""
    monkeypatch.setattr(garbage_collection, "LAST_WORD", 60.0)


@pytest.fixture
def drain_seconds() -> int:
    return 60


@pytest.fixture
def agent(
    start_agent: StartAgent, store: MemoryStore, operator: StubOperator, drain_seconds: int
) -> Iterator[RunningAgent]:
    environ = STORE | TAKEN_WITH | {"PODTUNE_DRAIN_SECONDS": str(drain_seconds)}
    running = start_agent(environ, make_store=lambda _: store)
    yield running
    running.end()


@pytest.fixture
def report(agent: RunningAgent, tmp_path: Path) -> TakeCheckpoint:
    def report(content: str, **metrics: MetricValue) -> str:
        source = tmp_path / "user"
        (source / "sub").mkdir(parents=True, exist_ok=True)
        (source / "weights").write_text(content)
        (source / "sub" / "state").write_text("state")
        name = copy_checkpoint(source, agent.directory / "checkpoints")
        agent.write(dumps(_checkpoint=name, **metrics))
        return name

    return report


@pytest.fixture
def start(start_agent: StartAgent, store: MemoryStore) -> Iterator[StartAgent]:
    agents: list[RunningAgent] = []

    def start(sync: Mapping[str, object] = MappingProxyType({}), **environ: str) -> RunningAgent:
        agents.append(
            start_agent(STORE | {"PODTUNE_SYNC": json.dumps(dict(sync))} | environ, make_store=lambda _: store)
        )
        return agents[-1]

    yield start
    for agent in agents:
        agent.end()


@pytest.fixture
def log() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def context(environ: dict[str, str], store: MemoryStore, log: io.StringIO) -> TaskContext:
    """What a task works with where no thread runs, and no operator answers."""
    sync = {"PODTUNE_SYNC": json.dumps({"retries": 2})}
    settings = Settings.from_environ(environ | STORE | TAKEN_WITH | sync)
    attempt = Attempt(settings.attempt, settings.objective, has_store=True)
    attempt.begin(0.0)
    assert settings.store is not None
    return TaskContext(attempt, settings, settings.store, store, EventLog(lambda: 1.0, stream=log), Shutdown(attempt))


@pytest.fixture
def take(context: TaskContext) -> Callable[[int, bytes], Path]:
    """Has the program take a checkpoint, and the attempt know of it; returns its directory."""

    def take(step: int, weights: bytes) -> Path:
        directory = Path(context.settings.directory.root) / "checkpoints" / str(step)
        directory.mkdir(parents=True)
        (directory / "weights").write_bytes(weights)
        context.attempt.add(ResultLine({"accuracy": 0.5, "training_iteration": step}, str(step)), 1.0)
        return directory

    return take
