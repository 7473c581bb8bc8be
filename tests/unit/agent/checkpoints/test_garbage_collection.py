"""Checkpoints that are not kept any more leave the bucket."""

import io
from pathlib import Path

import pytest

from podtune.agent.checkpoints import garbage_collection
from podtune.agent.checkpoints.garbage_collection import GarbageCollection
from podtune.agent.checkpoints.upload_task import TaskContext
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.messages import CheckpointCommit
from podtune.storage.cleanup.garbage import GarbageCollector
from podtune.storage.errors import Unreachable
from tests.unit.agent.running_agent import ROOT, TRIAL, RunningAgent, StartAgent, TakeCheckpoint, take_checkpoint
from tests.unit.agent.stub_operator import StubOperator, dumps, wait_until
from tests.unit.storage.memory_store import MemoryStore


def test_only_kept_checkpoints_stay(
    operator: StubOperator, agent: RunningAgent, report: TakeCheckpoint, store: MemoryStore
) -> None:
    for step in range(1, 5):
        report(f"w{step}", accuracy=step)
        operator.wait_for_commits(step)
    operator.kept = (f"s3://models/{ROOT}/3", f"s3://models/{ROOT}/4")
    agent.write(dumps(accuracy=5))
    gone = [f"{ROOT}/{step}/{name}" for step in (1, 2) for name in ("manifest.json", "data/weights")]
    wait_until(lambda: not any(key in store.objects for key in gone))
    assert store.objects[f"{ROOT}/1/data/sub/state"], "the kept ones refer to it"
    assert {f"{ROOT}/3/manifest.json", f"{ROOT}/4/manifest.json"} <= set(store.objects)


@pytest.mark.usefixtures("patient_collection")
def test_what_the_last_checkpoint_makes_superfluous_goes_before_the_end(
    operator: StubOperator, agent: RunningAgent, report: TakeCheckpoint, store: MemoryStore
) -> None:
    report("w1", accuracy=1)
    operator.wait_for(lambda: len(operator.commits) == 1)
    operator.kept = (f"s3://models/{ROOT}/2",)
    report("w2", accuracy=2)
    agent.end()
    assert f"{ROOT}/1/manifest.json" not in store.objects
    assert f"{ROOT}/2/manifest.json" in store.objects


def test_uploads_that_an_earlier_attempt_left_are_aborted(
    start: StartAgent, store: MemoryStore, operator: StubOperator, tmp_path: Path
) -> None:
    store.start_upload(f"{TRIAL}/pod-0/1/data/a", 5 << 20)
    other = store.start_upload(f"{TRIAL}0/pod-0/1/data/a", 5 << 20)
    agent = start({})
    operator.kept = (f"s3://models/{ROOT}/1",)
    take_checkpoint(agent, {"a": b"1"}, tmp_path, accuracy=1)
    wait_until(lambda: list(store.uploads) == [other])


OLD, NEW = f"s3://models/{ROOT}/1", f"s3://models/{ROOT}/2"


@pytest.fixture
def task(context: TaskContext, store: MemoryStore) -> GarbageCollection:
    for step in (1, 2):
        store.put_bytes(f"{ROOT}/{step}/manifest.json", b"{}")
    return GarbageCollection(context, GarbageCollector(store, context.address, context.settings.attempt))


def test_it_is_due_once_whenever_others_are_kept(
    task: GarbageCollection, context: TaskContext, store: MemoryStore, log: io.StringIO
) -> None:
    assert task.due_in is None
    context.attempt.kept = (NEW,)
    assert task.due_in == 0
    store.failure = Unreachable("bucket 'models' does not answer")
    task.run()
    assert (task.due_in, context.attempt.store_problem) == (None, None)
    assert "old checkpoints not deleted" in log.getvalue()
    store.failure, context.attempt.kept = None, (NEW, "s3://elsewhere/3")
    task.run()
    assert set(store.objects) == {f"{ROOT}/2/manifest.json"}


def test_where_none_is_kept_all_go(task: GarbageCollection, context: TaskContext, store: MemoryStore) -> None:
    context.attempt.kept = ()
    task.run()
    assert len(store.objects) == 2, "what is kept may not be recorded yet"
    context.attempt.kept, context.attempt.discards = None, True
    task.run()
    assert store.objects == {}


def test_what_was_stored_before_none_was_kept_goes_with_what_is_stored_after_it(
    context: TaskContext, store: MemoryStore
) -> None:
    collector = GarbageCollector(store, context.address, context.settings.attempt)
    task = GarbageCollection(context, collector)
    context.attempt.kept = ()
    task.run()
    for step, uri in ((1, OLD), (2, NEW)):
        store.put_bytes(f"{ROOT}/{step}/manifest.json", b"{}")
        collector.known.add(context.address.checkpoint(context.settings.attempt, str(step)))
        context.attempt.checkpoints.succeed(CheckpointCommit(CheckpointRef(uri, "sha256:1", step), step))
        assert task.due_in == (None if step == 1 else 0.0)
        context.attempt.discards = True
        assert task.due_in == 0
        task.run()
        assert (store.objects, task.due_in) == ({}, None)


def test_at_the_end_nothing_is_deleted_before_the_newest_is_recorded(
    task: GarbageCollection, context: TaskContext, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage_collection, "LAST_WORD", 0.01)
    context.attempt.kept = (NEW,)
    context.attempt.checkpoints.succeed(CheckpointCommit(CheckpointRef(NEW, "sha256:2", 2), 2))
    task.finish()
    assert len(store.objects) == 2
    context.attempt.checkpoints.acknowledge([NEW])
    task.finish()
    assert set(store.objects) == {f"{ROOT}/2/manifest.json"}
