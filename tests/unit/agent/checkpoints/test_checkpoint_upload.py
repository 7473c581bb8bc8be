"""One checkpoint's way into the bucket: stored, tried again, given up, kept on the scratch volume."""

import io
import json
import os
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from podtune.agent.checkpoints.checkpoint_upload import CheckpointUpload
from podtune.agent.checkpoints.restore import restore
from podtune.agent.checkpoints.store_retry import StoreRetry
from podtune.agent.checkpoints.upload_task import TaskContext
from podtune.agent.checkpoints.uploader import Uploader
from podtune.agent.event_log import EventLog
from podtune.agent.settings import Settings
from podtune.agent.sidecar import drain
from podtune.storage.checkpoint import file_upload
from podtune.storage.checkpoint.content_index import ContentIndex
from podtune.storage.checkpoint.shards import commit_alone
from podtune.storage.cleanup.garbage import GarbageCollector
from podtune.storage.content import PIECE, Content
from podtune.storage.errors import Unreachable
from podtune.storage.object_store import PartialUpload, StoredPart
from podtune.trial.checkpoint_copy import copy_checkpoint
from tests.unit.agent.running_agent import ROOT, STORE, RunningAgent, StartAgent, TakeCheckpoint, take_checkpoint
from tests.unit.agent.stub_operator import StubOperator, dumps, wait_until
from tests.unit.storage.memory_store import MemoryStore


def test_a_checkpoint_is_stored_with_its_manifest_last_and_reported(
    operator: StubOperator, agent: RunningAgent, report: TakeCheckpoint, store: MemoryStore
) -> None:
    name = report("w1", accuracy=0.5)
    operator.wait_for(lambda: operator.commits)
    (commit,) = operator.commits.values()
    assert (commit.uri, commit.step) == (f"s3://models/{ROOT}/1", 1)
    assert store.operations[-1] == f"put {ROOT}/1/manifest.json"
    assert store.objects[f"{ROOT}/1/data/sub/state"] == b"state"
    assert operator.results[1].checkpoint
    assert "_checkpoint" not in operator.results[1].metrics
    assert json.loads(store.objects[f"{ROOT}/1/manifest.json"])["metric"] == "0.5"
    wait_until(lambda: not (agent.directory / "checkpoints" / name).exists())


@pytest.fixture(params=["link", "link inside", "missing", "pipe"])
def bad_checkpoint(request: pytest.FixtureRequest, agent: RunningAgent, tmp_path: Path) -> Iterator[str]:
    """Name of a checkpoint that is none, and a secret that it may lead to."""
    trick = request.param
    (tmp_path / "token-of-the-agent").mkdir()
    (tmp_path / "token-of-the-agent" / "token").write_text("very secret")
    bad = agent.directory / "checkpoints" / "bad"
    wait_until(bad.parent.exists)
    if trick == "link":
        bad.symlink_to(tmp_path / "token-of-the-agent")
    elif trick != "missing":
        bad.mkdir()
        if trick == "pipe":
            os.mkfifo(bad / "weights")
        else:
            (bad / "weights").symlink_to(tmp_path / "token-of-the-agent" / "token")
    yield "bad"
    assert (tmp_path / "token-of-the-agent" / "token").exists()


def test_a_checkpoint_that_can_not_be_trusted_is_refused_and_the_next_one_stored(
    operator: StubOperator, agent: RunningAgent, report: TakeCheckpoint, store: MemoryStore, bad_checkpoint: str
) -> None:
    agent.write(dumps(accuracy=0.1, _checkpoint=bad_checkpoint))
    operator.wait_for(lambda: any(report.store_problem for report in operator.reports))
    report("good", accuracy=0.2)
    operator.wait_for(lambda: operator.commits)
    assert [commit.step for commit in operator.commits.values()] == [2]
    assert b"very secret" not in b"".join(store.objects.values())


def test_an_unchanged_file_is_stored_once_also_by_the_next_attempt(
    operator: StubOperator, agent: RunningAgent, report: TakeCheckpoint, store: MemoryStore, start_agent: StartAgent
) -> None:
    report("w1", accuracy=1)
    operator.wait_for(lambda: operator.commits)
    operator.kept = tuple(operator.commits)
    agent.end()
    store.operations.clear()
    again = start_agent(STORE | {"PODTUNE_POD_UID": "pod-2"}, make_store=lambda _: store)
    operator.wait_for(lambda: operator.reports and operator.reports[-1].attempt == "pod-2")
    again.write(dumps(accuracy=2))
    operator.wait_for(lambda: operator.acked_seq >= 2)
    report("w1", accuracy=3)
    again.end()
    stored = [operation for operation in store.operations if "pod-2" in operation and "/data/" in operation]
    assert stored == []


def test_two_checkpoints_at_one_iteration_do_not_overwrite_each_other(
    operator: StubOperator, agent: RunningAgent, report: TakeCheckpoint, store: MemoryStore
) -> None:
    report("w1", training_iteration=3)
    operator.wait_for(lambda: len(operator.commits) == 1)
    report("w2", training_iteration=3)
    operator.wait_for(lambda: len(operator.commits) == 2)
    assert store.objects[f"{ROOT}/3/data/weights"] == b"w1"
    assert store.objects[f"{ROOT}/3.2/data/weights"] == b"w2"


def test_a_program_that_counts_back_overwrites_no_checkpoint(
    operator: StubOperator, agent: RunningAgent, report: TakeCheckpoint, store: MemoryStore
) -> None:
    for number, step in enumerate((7, 3, 5, 3, 7), start=1):
        report(f"w{number}", training_iteration=step)
        operator.wait_for_commits(number)
    names = ("7", "3", "5", "3.4", "7.5")
    assert [store.objects[f"{ROOT}/{name}/data/weights"] for name in names] == [b"w1", b"w2", b"w3", b"w4", b"w5"]


def test_a_restarted_agent_tells_of_checkpoints_that_it_stored_before(
    operator: StubOperator, agent: RunningAgent, report: TakeCheckpoint, start_agent: StartAgent, store: MemoryStore
) -> None:
    report("w1", accuracy=0.5)
    operator.wait_for(lambda: operator.commits)
    before = dict(operator.commits)
    agent.end()
    operator.commits.clear()
    again = start_agent(STORE, make_store=lambda _: store)
    operator.wait_for(lambda: operator.commits)
    again.end()
    assert operator.commits == before
    assert operator.taken == [1]


def test_what_was_stored_of_a_checkpoint_that_was_given_up_is_not_taken_for_the_next_ones(
    start_agent: StartAgent, store: MemoryStore, operator: StubOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = start_agent(STORE | {"PODTUNE_DRAIN_SECONDS": "20"}, make_store=lambda _: store)
    real = store.put_bytes

    def put_bytes(key: str, data: bytes) -> None:
        if key.endswith("/1/manifest.json"):
            raise Unreachable("bucket 'models' does not answer")
        return real(key, data)

    monkeypatch.setattr(store, "put_bytes", put_bytes)
    for number in (1, 2):  # their files differ in nothing but what is in them
        directory = agent.directory / "checkpoints" / str(number)
        directory.mkdir(parents=True)
        (directory / "weights").write_text(f"w{number}")
        os.utime(directory / "weights", ns=(0, 0))
        agent.write(dumps(_checkpoint=str(number), accuracy=number))
    wait_until(lambda: f"{ROOT}/1/data/weights" in store.objects)
    operator.decision = "PAUSE"
    agent.write(dumps(accuracy=3))  # its answer brings the decision
    wait_until(agent.is_told_to_stop)
    final = agent.end()  # has what was not told in time
    told = {ref.step for ref in operator.commits.values()} | {commit.checkpoint.step for commit in final.checkpoints}
    assert told == {2}
    assert store.objects[f"{ROOT}/2/data/weights"] == b"w2"


def test_without_a_store_checkpoints_do_not_fill_the_disk(
    operator: StubOperator, start_agent: StartAgent, tmp_path: Path
) -> None:
    agent = start_agent()
    (tmp_path / "mine").mkdir()
    wait_until((agent.directory / "checkpoints").exists)
    name = copy_checkpoint(tmp_path / "mine", agent.directory / "checkpoints")
    agent.write(dumps(accuracy=1, _checkpoint=name))
    operator.wait_for(lambda: operator.acked_seq == 1)
    agent.end()
    assert not operator.results[1].checkpoint
    assert list((agent.directory / "checkpoints").iterdir()) == []
    assert "no checkpoints.store" in agent.log.getvalue()


def test_checkpoints_that_come_too_fast_do_not_fill_the_disk(
    agent: RunningAgent, report: TakeCheckpoint, store: MemoryStore, operator: StubOperator
) -> None:
    store.failure = Unreachable("bucket 'models' does not answer")
    names = [report(f"w{step}", accuracy=step) for step in range(1, 9)]
    wait_until(lambda: len(list((agent.directory / "checkpoints").iterdir())) <= 5)
    store.failure = None
    operator.wait_for(lambda: f"s3://models/{ROOT}/8" in operator.commits)
    assert not (agent.directory / "checkpoints" / names[1]).exists()
    assert "take them less often" in agent.log.getvalue()


def test_checkpoints_are_packed_and_left_out_of_as_was_asked(
    start: StartAgent, store: MemoryStore, operator: StubOperator, tmp_path: Path
) -> None:
    agent = start({"layout": "Packed", "exclude": ["*.tmp"]})
    take_checkpoint(agent, {"a": b"1", "b": b"2", "c.tmp": b"3"}, tmp_path, accuracy=1)
    operator.wait_for(lambda: operator.commits)
    assert set(store.objects) == {f"{ROOT}/1/packs/0-0", f"{ROOT}/1/manifest.json"}
    assert store.objects[f"{ROOT}/1/packs/0-0"] == b"12"


def test_a_checkpoint_is_given_up_after_as_many_retries_and_the_next_one_stored(
    start: StartAgent, store: MemoryStore, operator: StubOperator, tmp_path: Path
) -> None:
    agent = start({"retries": 2})
    store.failure = Unreachable("bucket 'models' does not answer")
    take_checkpoint(agent, {"a": b"1"}, tmp_path, accuracy=1)
    operator.wait_for(lambda: any("after 2 retries" in (r.store_problem.message if r.store_problem else "")
                                  for r in operator.reports))  # fmt: skip
    store.failure = None
    take_checkpoint(agent, {"a": b"2"}, tmp_path, accuracy=2)
    operator.wait_for(lambda: operator.commits)
    assert [commit.step for commit in operator.commits.values()] == [2]


def test_an_upload_that_takes_too_long_is_broken_off_and_goes_on_where_it_was(
    start: StartAgent, store: MemoryStore, operator: StubOperator, tmp_path: Path
) -> None:
    agent = start({"timeout": 0}, PODTUNE_DRAIN_SECONDS="1")
    take_checkpoint(agent, {"a": b"1"}, tmp_path, accuracy=1)
    operator.wait_for(lambda: any(report.store_problem for report in operator.reports))
    problem = next(report.store_problem for report in operator.reports if report.store_problem)
    assert problem.reason == "TimedOut"
    assert "checkpoints.sync.timeout of 0 s; raise it" in problem.message


def test_what_is_stored_in_parts_is_given_up_when_the_time_is_over(
    start: StartAgent, store: MemoryStore, operator: StubOperator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_upload, "WHOLE", 10)
    monkeypatch.setattr(file_upload, "CHUNK", 10)
    started, cancelled = threading.Event(), threading.Event()
    real, cancel = store.put_part, Uploader.cancel

    def cancel_and_tell(uploader: Uploader) -> None:
        cancel(uploader)
        cancelled.set()

    def slowly(upload: PartialUpload, number: int, content: Content) -> StoredPart:
        started.set()
        assert cancelled.wait(60)
        return real(upload, number, content)

    store.put_part = slowly
    monkeypatch.setattr(Uploader, "cancel", cancel_and_tell)
    monkeypatch.setattr(drain, "ABORT_SECONDS", 60.0)
    agent = start({}, PODTUNE_DRAIN_SECONDS="1")
    take_checkpoint(agent, {"a": b"x" * 100}, tmp_path, accuracy=1)
    assert started.wait(60)
    commit = agent.end()
    assert store.uploads == {}
    assert commit.checkpoints == ()
    assert commit.store_problem is not None
    wait_until(lambda: [key for key in store.objects if key.startswith(f"{ROOT}/results/0/")])


@pytest.mark.parametrize("layout", ["Plain", "Packed"])
def test_a_sparse_file_of_any_size_is_given_up_in_time_and_the_next_checkpoint_stored(
    start: StartAgent, store: MemoryStore, operator: StubOperator, tmp_path: Path, layout: str
) -> None:
    """It takes nothing on the disk, and would be a terabyte in the bucket."""
    sent = [0]
    pieces: set[int] = set()

    def send(content: Content) -> None:
        for piece in content.read_pieces():
            pieces.add(len(piece))
            sent[0] += len(piece)

    def put_part(upload: PartialUpload, number: int, content: Content) -> StoredPart:
        send(content)
        return StoredPart(number, f"etag-{number}", content.sha256)

    real = store.put_content

    def put_content(key: str, content: Content) -> None:
        if "/1/data/" in key:
            send(content)
        else:
            real(key, content)

    store.put_part, store.put_content = put_part, put_content
    agent = start({"timeout": 0.5, "retries": 0, "layout": layout})
    sparse = agent.directory / "checkpoints" / "sparse"
    wait_until(sparse.parent.exists)
    sparse.mkdir()
    with (sparse / "weights").open("wb") as file:
        file.truncate(1 << 40)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    agent.write(dumps(accuracy=1, _checkpoint="sparse"))
    operator.wait_for(lambda: any(report.store_problem for report in operator.reports))
    problem = next(report.store_problem for report in operator.reports if report.store_problem)
    assert problem.reason == "TimedOut"
    assert "checkpoints.sync.timeout of 0.5 s" in problem.message
    wait_until(lambda: not sparse.exists())
    assert 0 < sent[0] < 1 << 36
    assert max(pieces) <= PIECE
    assert store.uploads == {}, "what was begun is aborted"
    take_checkpoint(agent, {"a": b"2"}, tmp_path, accuracy=2)
    operator.wait_for(lambda: operator.commits)
    assert [commit.step for commit in operator.commits.values()] == [2]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 128 << 10, "KiB"


class TestScratch:
    def test_what_an_attempt_has_stored_is_there_for_the_next_one(
        self, start: StartAgent, store: MemoryStore, operator: StubOperator, tmp_path: Path, environ: dict[str, str]
    ) -> None:
        (tmp_path / "scratch").mkdir()
        scratch = {"PODTUNE_SCRATCH": str(tmp_path / "scratch")}
        agent = start({}, **scratch)
        take_checkpoint(agent, {"weights": b"w" * 1000}, tmp_path, accuracy=1)
        operator.wait_for(lambda: operator.commits)
        agent.end()
        (commit,) = operator.commits.values()
        candidates = [{"uri": commit.uri, "digest": commit.digest, "step": commit.step}]
        fetched: list[str] = []
        real = store.get

        def get(key: str, start: int = 0, size: int | None = None) -> Iterator[bytes]:
            fetched.append(key)
            return real(key, start, size)

        store.get = get
        variables = environ | STORE | scratch | {"PODTUNE_RESTORE_FROM": json.dumps(candidates)}
        log = io.StringIO()
        info = restore(
            Settings.from_environ(variables), EventLog(lambda: 0.0, stream=log), Random(1), make_store=lambda _: store
        )
        assert info.restored.step == 1
        assert fetched == []
        assert json.loads(log.getvalue())["local_bytes"] == 1000
        assert (agent.directory / "restored" / "weights").read_bytes() == b"w" * 1000

    def test_a_volume_that_can_not_be_written_to_is_told_and_does_no_harm(
        self, start: StartAgent, operator: StubOperator, tmp_path: Path
    ) -> None:
        agent = start({}, PODTUNE_SCRATCH=str(tmp_path / "nothing" / "here"))
        take_checkpoint(agent, {"weights": b"w"}, tmp_path, accuracy=1)
        operator.wait_for(lambda: operator.commits)
        wait_until(lambda: "checkpoint not kept on the scratch volume" in agent.log.getvalue())


@pytest.fixture
def task(context: TaskContext, store: MemoryStore) -> CheckpointUpload:
    index = ContentIndex(context.address.prefix)
    collector = GarbageCollector(store, context.address, context.settings.attempt, index)
    retry = StoreRetry(context, Random(1))
    return CheckpointUpload(context, retry, index, collector, commit=commit_alone, artifacts=None)


def test_one_that_is_stored_is_told_to_whoever_waits_and_deleted_here(
    task: CheckpointUpload, context: TaskContext, take: Callable[[int, bytes], Path]
) -> None:
    stored: list[tuple[str, ...]] = []
    commits = context.attempt.checkpoints
    task.call_when_stored(lambda: stored.append(tuple(commit.checkpoint.uri for commit in commits.commits)))
    assert task.due_in is None
    directory = take(1, b"w1")
    assert task.due_in == 0
    task.run()
    assert (task.due_in, stored, directory.exists()) == (None, [(f"s3://models/{ROOT}/1",)], False)


def test_failures_are_counted_for_each_anew_and_the_first_success_withdraws_the_problem(
    task: CheckpointUpload, context: TaskContext, take: Callable[[int, bytes], Path], store: MemoryStore
) -> None:
    store.failure = Unreachable("bucket 'models' does not answer")
    take(1, b"w1")
    take(2, b"w2")
    for _ in range(5):  # three times the first one, which is given up then, and twice the second
        task.run()
    problem = context.attempt.store_problem
    assert problem.reason == "Unreachable"
    assert task.due_in == 0
    store.failure = None
    task.run()
    assert [commit.seq for commit in context.attempt.checkpoints.commits] == [2]
    assert context.attempt.store_problem is None


def test_what_was_stored_before_a_failure_is_not_stored_again(
    task: CheckpointUpload, take: Callable[[int, bytes], Path], store: MemoryStore
) -> None:
    put_bytes = store.put_bytes

    def refuse_manifest(key: str, data: bytes) -> None:
        if key.endswith("manifest.json"):
            raise Unreachable("bucket 'models' does not answer")
        put_bytes(key, data)

    take(1, b"w1")
    store.put_bytes = refuse_manifest
    task.run()
    store.put_bytes = put_bytes
    task.run()
    assert store.operations == [f"put {ROOT}/1/data/weights", f"put {ROOT}/1/manifest.json"]
