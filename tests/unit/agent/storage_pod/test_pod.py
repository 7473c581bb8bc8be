"""The command `podtune-agent storage`, with a store in memory."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from podtune.agent.event_log import EventLog
from podtune.agent.settings import AgentSettingsError
from podtune.agent.storage_pod.pod import STORE_PATIENCE, StoragePodSettings, run_storage
from podtune.agent.trackers.event_file_names import EventFileNaming, format_failure_file
from podtune.agent.trackers.tracker_settings import TrackerSettings
from podtune.protocol import agent_environment as env
from podtune.protocol.snapshot import SnapshotRecord
from podtune.protocol.storage_job import (
    StoragePurpose,
    StorageReport,
    StorageTask,
    StoredTrial,
    encode_chunks,
    parse_storage_report,
)
from podtune.protocol.tracking import RunFacts, RunStatus
from podtune.storage.errors import BucketNotFound, Unreachable
from podtune.storage.segments.segment import SegmentName
from tests.unit.storage.memory_store import MemoryStore

STORE = json.dumps({"bucket": "b", "prefix": "demo"})


class Waits:
    def __init__(self, store: MemoryStore | None = None) -> None:
        self.now = 0.0
        self.store = store

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.store is not None and self.now > 20:
            self.store.failure = None


def pod(
    tmp_path: Path, trials: Iterable[StoredTrial] = (), purpose: StoragePurpose = StoragePurpose.PRUNE
) -> StoragePodSettings:
    chunks = list(encode_chunks(trials))
    for number, data in enumerate(chunks):
        (tmp_path / f"{number}.gz").write_bytes(data)
    task = StorageTask(purpose, "team", "digits", "uid", len(chunks))
    environ = {env.STORAGE_JOB: task.to_json(), env.STORE: STORE, env.TERMINATION_LOG: str(tmp_path / "log")}
    return StoragePodSettings.from_environ(environ, tmp_path)


def run(pod: StoragePodSettings, store: MemoryStore, waits: Waits | None = None) -> tuple[int, StorageReport]:
    waits = waits or Waits()
    code = run_storage(
        pod, EventLog(lambda: 0.0), Random(1), lambda address: store, clock=waits.clock, sleep=waits.sleep
    )
    return code, parse_storage_report(pod.termination_log.read_text())


def test_a_job_is_done_and_reported(tmp_path: Path) -> None:
    store = MemoryStore()
    store.objects = {f"demo/uid/digits-0/a/{step}/manifest.json": b"" for step in (1, 2)}
    code, report = run(pod(tmp_path, [StoredTrial("digits-0", ("s3://b/demo/uid/digits-0/a/2",))]), store)
    assert code == 0
    assert report.ok
    assert report.deleted == 1
    assert list(store.objects) == ["demo/uid/digits-0/a/2/manifest.json"]


def test_of_stopped_trials_what_is_kept_stays_and_nothing_of_others_is_touched(tmp_path: Path) -> None:
    store = MemoryStore()
    running = "demo/uid/digits-1/a/1/manifest.json"
    store.objects = dict.fromkeys((*(f"demo/uid/digits-0/a/{step}/manifest.json" for step in (1, 2)), running), b"")
    upload = store.start_upload("demo/uid/digits-1/a/2/data/weights", 5 << 20)
    stopped = [StoredTrial("digits-0", ("s3://b/demo/uid/digits-0/a/2",))]
    code, report = run(pod(tmp_path, stopped, StoragePurpose.PRUNE_STOPPED), store)
    assert (code, report.ok, report.deleted) == (0, True, 1)
    assert report.message == "1 checkpoints that are not kept, 1 objects in all, were deleted"
    assert set(store.objects) == {"demo/uid/digits-0/a/2/manifest.json", running}
    assert list(store.list_uploads("")) == [upload]


def test_ten_thousand_trials_go_into_a_few_config_maps(tmp_path: Path) -> None:
    trials = [
        StoredTrial(f"digits-{i}", tuple(f"s3://b/demo/{Random(i).random()}/digits-{i}/{step}" for step in range(4)))
        for i in range(10_000)
    ]
    told = pod(tmp_path, trials)
    assert list(told.read_trials()) == trials
    assert told.task.chunks <= 10
    assert all((tmp_path / f"{number}.gz").stat().st_size <= 700_000 for number in range(told.task.chunks))


def test_a_store_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    store = MemoryStore()
    store.failure = Unreachable("it does not answer")
    code, report = run(pod(tmp_path), store, Waits(store))
    assert (code, report.ok) == (0, True)


def test_and_in_the_end_left_to_the_next_pod(tmp_path: Path) -> None:
    store = MemoryStore()
    store.failure = Unreachable("it does not answer")
    waits = Waits()
    code, report = run(pod(tmp_path), store, waits)
    assert (code, report.ok, report.message) == (1, False, "it does not answer")
    assert STORE_PATIENCE / 2 < waits.now <= STORE_PATIENCE


def test_what_somebody_has_to_mend_is_said_at_once(tmp_path: Path) -> None:
    waits = Waits()
    code, report = run(pod(tmp_path), MemoryStore(bucket_exists=False), waits)
    assert (code, report.ok, waits.now) == (1, False, 0.0)
    assert BucketNotFound("").reason == "BucketNotFound"
    assert "there is no bucket" in report.message


def test_a_list_of_trials_that_is_cut_off_deletes_nothing(tmp_path: Path) -> None:
    told = pod(tmp_path, [StoredTrial("digits-0")])
    (tmp_path / "0.gz").write_bytes((tmp_path / "0.gz").read_bytes()[:-6])
    store = MemoryStore()
    store.objects = {"demo/uid/digits-0/a/1/manifest.json": b""}
    code, report = run(told, store)
    assert (code, report.ok) == (1, False)
    assert store.objects


@pytest.mark.parametrize("job", ["", "{}", "[]", '{"purpose": "Dance"}', '{"purpose": "Prune", "chunks": "no"}'])
def test_a_job_that_can_not_be_read_is_refused(job: str, tmp_path: Path) -> None:
    with pytest.raises(AgentSettingsError, match=env.STORAGE_JOB):
        StoragePodSettings.from_environ({env.STORAGE_JOB: job, env.STORE: STORE}, tmp_path)


def test_what_can_not_be_exported_is_named_and_the_rest_is_exported(tmp_path: Path) -> None:
    from podtune.protocol.storage_job import ExportedCheckpoint
    from podtune.storage.checkpoint.manifest import CheckpointManifest, digest_of

    store = MemoryStore()
    manifest = CheckpointManifest("a", 1, 1, "0.5", "2026-01-01T00:00:00+00:00", ()).to_bytes()
    store.objects["demo/uid/digits-1/a/1/manifest.json"] = manifest
    card = json.dumps({"experiment": {"namespace": "team", "name": "digits"}})
    trials = [
        StoredTrial(
            f"digits-{i}",
            export=ExportedCheckpoint(
                f"s3://b/demo/uid/digits-{i}/a/1", digest_of(manifest), f"digits-{i}", i == 1, card
            ),
        )
        for i in range(2)
    ]
    chunks = list(encode_chunks(trials))
    (tmp_path / "0.gz").write_bytes(chunks[0])
    task = StorageTask(StoragePurpose.EXPORT, "team", "digits", "uid", 1, "s3://b/models")
    environ = {env.STORAGE_JOB: task.to_json(), env.STORE: STORE, env.TERMINATION_LOG: str(tmp_path / "log")}
    code, report = run(StoragePodSettings.from_environ(environ, tmp_path), store)
    assert (code, report.ok, report.uri) == (1, False, "s3://b/models/digits-1")
    assert "1 checkpoints, 0 bytes, were exported" in report.message
    assert "1 could not be: the manifest of s3://b/demo/uid/digits-0/a/1 is missing" in report.message
    assert "models/digits-1/manifest.json" in store.objects


def test_a_snapshot_stores_the_records_that_it_was_given(tmp_path: Path) -> None:
    store = MemoryStore()
    trials = [
        StoredTrial("digits-1", record=SnapshotRecord("digits-1", 4, '{"kind":"Trial"}')),
        StoredTrial("digits", record=SnapshotRecord("", 7, '{"kind":"Experiment"}')),
    ]
    code, report = run(pod(tmp_path, trials, StoragePurpose.SNAPSHOT), store)
    assert (code, report.ok, report.message) == (0, True, "2 records of the snapshot were stored")
    assert store.objects == {
        f"demo/uid/_snapshot/trials/digits-1/{4:020d}.json": b'{"kind":"Trial"}',
        f"demo/uid/_snapshot/experiment/{7:020d}.json": b'{"kind":"Experiment"}',
    }


def test_a_pruning_stores_the_last_records_and_leaves_those_that_are_there(tmp_path: Path) -> None:
    store = MemoryStore()
    earlier = StoredTrial("digits-0", record=SnapshotRecord("digits-0", 3, '{"kind":"Trial"}'))
    run(pod(tmp_path, [earlier], StoragePurpose.SNAPSHOT), store)
    for step in (1, 2):
        store.objects[f"demo/uid/digits-1/a/{step}/manifest.json"] = b"{}"
    trials = [
        StoredTrial("digits-0"),
        StoredTrial("digits-1", ("s3://b/demo/uid/digits-1/a/2",), record=SnapshotRecord("digits-1", 4, "{}")),
        StoredTrial("digits", record=SnapshotRecord("", 7, '{"kind":"Experiment"}')),
    ]
    code, report = run(pod(tmp_path, trials, StoragePurpose.PRUNE), store)
    assert (code, report.ok, report.deleted) == (0, True, 1)
    assert report.message.startswith("2 records of the snapshot were stored; 1 checkpoints that are not kept, ")
    assert sorted(store.objects) == [
        f"demo/uid/_snapshot/experiment/{7:020d}.json",
        f"demo/uid/_snapshot/trials/digits-0/{3:020d}.json",
        f"demo/uid/_snapshot/trials/digits-1/{4:020d}.json",
        "demo/uid/digits-1/a/2/manifest.json",
    ]


def test_what_a_tracking_server_says_is_in_the_report_and_fails_no_job(tmp_path: Path) -> None:
    trials = [StoredTrial("digits-0", uid="t-0", run=RunFacts(RunStatus.FAILED), attempt=1)]
    told = replace(pod(tmp_path, trials), tracker=TrackerSettings("http://127.0.0.1:1", "digits"))
    code, report = run(told, MemoryStore())
    assert (code, report.ok) == (0, True)
    assert "; runs in MLflow may not be up to date: no answer from MLflow at http://127.0.0.1:1" in report.message


@pytest.mark.parametrize("purpose", [StoragePurpose.PRUNE, StoragePurpose.SNAPSHOT])
def test_trials_that_failed_for_good_are_shown_so_in_event_files(tmp_path: Path, purpose: StoragePurpose) -> None:
    failed, done = RunFacts(RunStatus.FAILED), RunFacts(RunStatus.FINISHED)
    store, folder = MemoryStore(), "demo/uid/_tensorboard"
    attempts = {"digits-0": (1, 3), "digits-1": (1,), "digits-2": (2,), "digits-3": (4,)}
    for trial, numbers in attempts.items():
        for number in numbers:
            store.objects[f"{folder}/{trial}/{EventFileNaming(number).format(SegmentName(1, 1))}"] = b""
    trials = [
        StoredTrial("digits-0", uid="t-0", run=failed, attempt=3),
        StoredTrial("digits-1", uid="t-1", run=done, attempt=1),
        StoredTrial("digits-2", uid="t-2", run=failed, attempt=5),  # its last attempts have reported nothing
        StoredTrial("digits-3", uid="t-3", run=failed, attempt=3),  # it has been retried since
        StoredTrial("digits-4", uid="t-4", run=failed, attempt=1),  # it has never reported anything
    ]
    told = pod(tmp_path, trials, purpose)
    told = replace(told, task=replace(told.task, ends_event_files=True))
    code, report = run(told, store)
    assert (code, report.ok) == (0, True)
    assert report.message.endswith("; 2 trials are shown as failed in TensorBoard")
    marks = {f"{folder}/digits-{trial}/{format_failure_file(number)}" for trial, number in ((0, 3), (2, 5))}
    assert {key for key in store.objects if key.endswith("failed")} == marks
    assert all(b"session_end_info" in store.objects[key] for key in marks)
    assert max(key for key in store.objects if "digits-0" in key) in marks, "it is read after the attempts' files"
    assert "TensorBoard" not in run(told, store)[1].message, "nothing is stored twice"


def test_without_event_files_none_are_looked_for(tmp_path: Path) -> None:
    store = MemoryStore()
    run(pod(tmp_path, [StoredTrial("digits-0", run=RunFacts(RunStatus.FAILED), attempt=1)]), store)
    assert not any("_tensorboard" in done for done in store.operations)
