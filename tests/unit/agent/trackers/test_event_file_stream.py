"""An agent that stores its trial's results as event files of TensorBoard, too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.agent.settings import AgentSettingsError, Settings
from podtune.agent.trackers import event_file_stream as stream_module
from podtune.agent.trackers.event_file_names import EventFileNaming
from podtune.agent.trackers.failed_ends import store_failed_ends
from podtune.protocol.storage_job import StoredTrial
from podtune.protocol.tracking import RunFacts, RunStatus
from podtune.storage.address import parse_store_address
from podtune.storage.segments.segment import LATEST, SegmentName
from tests.unit.agent.running_agent import STORE, RunningAgent, StartAgent
from tests.unit.agent.stub_operator import StubOperator, dumps, wait_until
from tests.unit.storage.event_files.reading import read_events
from tests.unit.storage.event_files.test_event_files import LONGEST, run_tensorboard
from tests.unit.storage.memory_store import MemoryStore

TABLE = {
    "metrics": ["accuracy"],
    "parameters": [{"name": "lr", "interval": [0.001, 0.1]}, {"name": "act", "choices": ["relu", "tanh"]}],
    "dashboard": "https://podtune.example.com",
}
TOP = "demo/experiment-1/_tensorboard/"
RUN = f"{TOP}digits-7/"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def start(
    start_agent: StartAgent, store: MemoryStore, operator: StubOperator, environ: dict[str, str]
) -> Iterator[Any]:
    """Starts an agent that stores event files and nothing else."""
    (Path(environ["PODTUNE_DIR"]) / "parameters.json").write_text(json.dumps({"lr": 0.01, "act": "relu"}))
    agents: list[RunningAgent] = []

    def start(**overrides: str) -> RunningAgent:
        sync = json.dumps({"segmentPeriod": 0.05, "results": 0, "snapshotPeriod": 0})
        told = {"PODTUNE_SYNC": sync, "PODTUNE_TENSORBOARD": json.dumps(TABLE), "PODTUNE_DRAIN_SECONDS": "60"}
        agents.append(start_agent(STORE | told | overrides, make_store=lambda _: store))
        return agents[-1]

    operator.run = RunFacts(RunStatus.RUNNING)
    yield start
    for agent in agents:
        agent.end()


def list_files(store: MemoryStore) -> list[str]:
    return sorted(key.removeprefix(RUN) for key in store.objects if key.startswith(RUN))


def read_values(store: MemoryStore, metric: str = "accuracy") -> list[tuple[int, float]]:
    """What TensorBoard shows of a metric: what a restart says to drop is dropped."""
    shown: dict[int, float] = {}
    for name in list_files(store):
        for event in read_events(store.objects[f"{RUN}{name}"]):
            if event.restarts:
                shown = {step: value for step, value in shown.items() if step < event.step}
            if metric in event.scalars:
                assert event.step not in shown, "no result is there twice"
                shown[event.step] = event.scalars[metric]
    return sorted(shown.items())


def test_results_are_in_the_store_while_the_program_runs(start: Any, store: MemoryStore) -> None:
    agent = start()
    agent.write(dumps(accuracy=0.5, note="no number"))
    wait_until(lambda: read_values(store) == [(1, 0.5)])
    agent.write(dumps(accuracy=0.75))
    wait_until(lambda: read_values(store) == [(1, 0.5), (2, 0.75)])
    assert len(list_files(store)) == 1, "the file was stored anew"
    assert read_values(store, "note") == []


def test_the_tab_hparams_has_parameters_metrics_and_a_link(start: Any, store: MemoryStore) -> None:
    agent = start()
    agent.write(dumps(accuracy=0.5))
    wait_until(lambda: bool(list_files(store)))
    run = store.objects[f"{RUN}{list_files(store)[0]}"]
    assert b"_hparams_/session_start_info" in run
    assert b"https://podtune.example.com/experiments/ml/digits/trials/digits-7" in run
    table = store.objects[f"{TOP}events.out.tfevents.0000000000.podtune"]
    assert all(word in table for word in (b"_hparams_/experiment", b"lr", b"act", b"tanh", b"accuracy"))
    assert b"session_end_info" not in run, "it still runs"


def test_the_table_is_stored_once(start: Any, store: MemoryStore) -> None:
    start().write(dumps(accuracy=0.5))
    wait_until(lambda: bool(list_files(store)))
    start(PODTUNE_TRIAL="digits-8", PODTUNE_POD_UID="pod-2").write(dumps(accuracy=0.5))
    wait_until(lambda: any("digits-8" in key for key in store.objects))
    assert len([done for done in store.operations if done.endswith("0000000000.podtune")]) == 1


def test_nothing_is_stored_anew_that_has_not_changed(start: Any, store: MemoryStore, operator: StubOperator) -> None:
    agent = start()
    agent.write(dumps(accuracy=0.5))
    wait_until(lambda: read_values(store) == [(1, 0.5)])
    operator.run = RunFacts(RunStatus.SCHEDULED)
    agent.end()
    assert len([done for done in store.operations if done.startswith(f"put {RUN}")]) == 1


def test_a_retried_trial_is_one_run_and_no_result_is_there_twice(
    start: Any, store: MemoryStore, operator: StubOperator
) -> None:
    operator.run = RunFacts(RunStatus.SCHEDULED)
    agent = start()
    agent.write(
        b"".join(dumps(accuracy=value, training_iteration=step) for step, value in ((1, 0.5), (2, 0.6), (3, 0.7)))
    )
    agent.end()
    results = agent.directory / "results.jsonl"
    results.unlink()
    operator.run = RunFacts(RunStatus.FINISHED)
    agent = start(PODTUNE_ATTEMPT="2", PODTUNE_POD_UID="pod-2")
    agent.write(dumps(accuracy=0.65, training_iteration=3) + dumps(accuracy=0.8, training_iteration=4))
    agent.end()
    assert len(list_files(store)) == 2
    assert dict(read_values(store)) == pytest.approx({1: 0.5, 2: 0.6, 3: 0.65, 4: 0.8})
    first, second = (store.objects[f"{RUN}{name}"] for name in list_files(store))
    assert b"session_end_info" not in first
    assert b"session_end_info" in second


def test_an_agent_that_is_started_again_goes_on_with_its_files(
    start: Any, store: MemoryStore, operator: StubOperator
) -> None:
    agent = start()
    agent.write(dumps(accuracy=0.5) + dumps(accuracy=0.75))
    wait_until(lambda: len(read_values(store)) == 2)
    (file,) = list_files(store)
    before = store.objects[f"{RUN}{file}"]
    operator.run = RunFacts(RunStatus.SCHEDULED)
    again = start()
    again.write(dumps(accuracy=0.875))
    wait_until(lambda: len(read_values(store)) == 3)
    assert list_files(store) == [file]
    assert store.objects[f"{RUN}{file}"].startswith(before), "who reads it goes on where it was"


def test_old_files_go_but_the_first(
    start: Any, store: MemoryStore, operator: StubOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "MAX_EVENT_BYTES", 16 << 10)
    operator.run = RunFacts(RunStatus.FINISHED)
    agent = start()
    for step in range(1, 1001):
        agent.write(dumps(accuracy=step / 1000, training_iteration=step))
    agent.end()
    size = sum(len(content) for key, content in store.objects.items() if key.startswith(RUN))
    assert size < 24 << 10
    shown = read_values(store)
    assert (shown[0][0], shown[-1][0]) == (1, 1000)
    assert 1 < len(list_files(store)) < 6


@pytest.mark.parametrize("status", [RunStatus.SCHEDULED, RunStatus.FAILED])
def test_of_an_attempt_that_another_may_follow_no_end_is_told(
    start: Any, store: MemoryStore, operator: StubOperator, status: RunStatus
) -> None:
    agent = start()
    agent.write(dumps(accuracy=0.5))
    operator.run = RunFacts(status)
    agent.end()
    (file,) = list_files(store)
    assert b"session_end_info" not in store.objects[f"{RUN}{file}"]


def fail_for_good(store: MemoryStore, attempt: int) -> int:
    """A storage pod hears that the trial has failed."""
    failed = StoredTrial("digits-7", uid="trial-7", run=RunFacts(RunStatus.FAILED), attempt=attempt)
    address = parse_store_address(STORE["PODTUNE_STORE"])
    return store_failed_ends(store, address, "experiment-1", [failed], 99.0)


def run_attempt(start: Any, operator: StubOperator, attempt: int, status: RunStatus) -> None:
    operator.run = RunFacts(status)
    agent = start(PODTUNE_ATTEMPT=str(attempt), PODTUNE_POD_UID=f"pod-{attempt}")
    agent.write(dumps(accuracy=0.5, training_iteration=attempt))
    agent.end()
    (agent.directory / "results.jsonl").unlink()


def test_a_trial_that_failed_for_good_and_is_retried_later_has_not_failed(
    start: Any, store: MemoryStore, operator: StubOperator
) -> None:
    run_attempt(start, operator, 1, RunStatus.FAILED)
    assert fail_for_good(store, 1) == 1
    assert [b"session_end_info" in store.objects[f"{RUN}{name}"] for name in list_files(store)] == [False, True]
    run_attempt(start, operator, 2, RunStatus.FINISHED)
    first, second = (store.objects[f"{RUN}{name}"] for name in list_files(store))
    assert b"session_end_info" not in first
    assert b"session_end_info" in second


def test_a_wrong_table_is_said(environ: dict[str, str]) -> None:
    for text in (
        "{",
        "{}",
        '{"metrics": [], "parameters": [{"interval": [1, 2]}]}',
        '{"metrics": [], "parameters": [1]}',
    ):
        with pytest.raises(AgentSettingsError, match="PODTUNE_TENSORBOARD is"):
            Settings.from_environ(environ | {"PODTUNE_TENSORBOARD": text})


ATTEMPTS = st.integers(1, 10**6)
NAMES = st.builds(SegmentName, st.integers(0, 10**9), st.integers(0, LATEST))


@given(st.lists(st.tuples(ATTEMPTS, NAMES), min_size=2, max_size=2))
def test_names_sort_by_attempt_and_say_whose_they_are(files: list[tuple[int, SegmentName]]) -> None:
    texts = [EventFileNaming(attempt).format(name) for attempt, name in files]
    assert (texts[0] < texts[1]) == (files[0] < files[1])
    for (attempt, name), text in zip(files, texts, strict=True):
        assert EventFileNaming(attempt).parse(text) == name
        assert EventFileNaming(attempt + 1).parse(text) is None
        assert "tfevents" in text


@pytest.mark.long
@pytest.mark.timeout(LONGEST + 60)
def test_tensorboard_shows_a_retried_trial_once(
    start: Any, store: MemoryStore, operator: StubOperator, tmp_path: Path
) -> None:
    test_a_retried_trial_is_one_run_and_no_result_is_there_twice(start, store, operator)
    found = run_tensorboard(synchronize(store, tmp_path / "synced"))
    assert dict(found["digits-7"]["scalars"]["accuracy"]) == pytest.approx({1: 0.5, 2: 0.6, 3: 0.65, 4: 0.8})
    sessions = found["digits-7"]["sessions"]
    assert 'key: "lr"' in sessions["_hparams_/session_start_info"]
    assert "STATUS_SUCCESS" in sessions["_hparams_/session_end_info"]
    assert "domain_interval" in found["."]["sessions"]["_hparams_/experiment"]


@pytest.mark.long
@pytest.mark.timeout(LONGEST + 60)
def test_tensorboard_shows_a_trial_that_failed_for_good_as_failed(
    start: Any, store: MemoryStore, operator: StubOperator, tmp_path: Path
) -> None:
    for attempt in (1, 2):
        run_attempt(start, operator, attempt, RunStatus.FAILED)
    assert fail_for_good(store, 2) == 1
    synchronize(store, tmp_path / "synced" / "failed")
    run_attempt(start, operator, 3, RunStatus.FINISHED)
    synchronize(store, tmp_path / "synced" / "retried")
    found = run_tensorboard(tmp_path / "synced")
    ends = {run: found[f"{run}/digits-7"]["sessions"]["_hparams_/session_end_info"] for run in ("failed", "retried")}
    assert "STATUS_FAILURE" in ends["failed"]
    assert "STATUS_SUCCESS" in ends["retried"]


def synchronize(store: MemoryStore, directory: Path) -> Path:
    """Copies the experiment's event files, as a person does."""
    for key, content in store.objects.items():
        if key.startswith(TOP):
            file = directory / key.removeprefix(TOP)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    return directory
