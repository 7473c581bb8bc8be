"""What is stored after the program's end, and in which order."""

import threading
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from podtune.agent.checkpoints import ledger_upload
from podtune.agent.checkpoints.upload_task import TaskContext
from podtune.agent.checkpoints.uploader import Uploader
from podtune.agent.sidecar import drain
from podtune.protocol.messages import LedgerLine, Unstored, parse_final_commit
from podtune.storage.content import Content
from podtune.storage.errors import BucketNotFound, StoreError, Unreachable
from tests.unit.agent.running_agent import ROOT, STORE, RunningAgent, StartAgent, TakeCheckpoint
from tests.unit.agent.stub_operator import FENCED, StubOperator, dumps, wait_until
from tests.unit.storage.memory_store import MemoryStore


@pytest.fixture
def finishing(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once the uploader knows that the program has ended."""
    told = threading.Event()
    finish = Uploader.finish

    def finish_and_tell(uploader: Uploader) -> None:
        finish(uploader)
        told.set()

    monkeypatch.setattr(Uploader, "finish", finish_and_tell)
    return told


@pytest.fixture
def backlog(
    agent: RunningAgent, report: TakeCheckpoint, store: MemoryStore, operator: StubOperator, finishing: threading.Event
) -> None:
    """Three checkpoints that the bucket takes no earlier than at the program's end."""
    real = store.put_content

    def put_content(key: str, content: Content) -> None:
        assert finishing.wait(60)
        return real(key, content)

    store.put_content = put_content
    for step in (1, 2, 3):
        report(f"w{step}", accuracy=step)
    operator.wait_for(lambda: operator.acked_seq == 3)


def test_all_that_wait_when_the_program_ends_are_stored(
    agent: RunningAgent, backlog: None, operator: StubOperator
) -> None:
    agent.end()
    assert [commit.step for commit in operator.commits.values()] == [1, 2, 3]


def test_of_those_that_wait_only_the_newest_is_stored_when_the_trial_was_told_to_end(
    agent: RunningAgent, backlog: None, operator: StubOperator, report: TakeCheckpoint
) -> None:
    operator.decision = "PAUSE"
    agent.write(dumps(accuracy=4))  # its answer brings the decision
    wait_until(agent.is_told_to_stop)
    agent.end()
    assert [commit.step for commit in operator.commits.values()] == [1, 3]
    assert "checkpoint given up" in agent.log.getvalue()


def test_none_of_those_that_wait_is_stored_when_the_trial_keeps_none(
    agent: RunningAgent, backlog: None, operator: StubOperator, store: MemoryStore, report: TakeCheckpoint
) -> None:
    with operator.changed:
        operator.decision, operator.kept, operator.discards = "STOP", (), True
    agent.write(dumps(accuracy=4))  # its answer brings the decision
    wait_until(agent.is_told_to_stop)
    late = report("w5", accuracy=5)
    final = agent.end()
    assert (operator.commits, final.checkpoints, final.unstored, final.store_problem) == ({}, (), None, None)
    assert not [key for key in store.objects if key.endswith("manifest.json")]
    assert not (agent.directory / "checkpoints" / late).exists()
    assert "checkpoint discarded" in agent.log.getvalue(), "that which was on its way"


@pytest.mark.usefixtures("patient_collection")
def test_those_that_are_stored_leave_the_bucket_when_the_trial_keeps_none(
    agent: RunningAgent, operator: StubOperator, store: MemoryStore, report: TakeCheckpoint
) -> None:
    for step in (1, 2):
        report(f"w{step}", accuracy=step)
    operator.wait_for_commits(2)
    with operator.changed:
        operator.decision, operator.kept, operator.discards = "STOP", (), True
    agent.end()  # it asks once more for what was decided
    assert not [key for key in store.objects if key.startswith((f"{ROOT}/1/", f"{ROOT}/2/"))]


@pytest.mark.parametrize("drain_seconds", [12])  # a slow machine needs some for the newest
def test_older_ones_leave_time_for_the_newest(
    agent: RunningAgent, backlog: None, store: MemoryStore, operator: StubOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = store.put_content

    def put_content(key: str, content: Content) -> None:
        if "/2/data" in key:
            raise Unreachable("bucket 'models' does not answer")
        return real(key, content)

    monkeypatch.setattr(store, "put_content", put_content)
    agent.end()
    assert [commit.step for commit in operator.commits.values()] == [1, 3]


@pytest.mark.parametrize("drain_seconds", [1])
def test_a_store_that_stays_away_is_told_in_the_final_commit(
    agent: RunningAgent, report: TakeCheckpoint, store: MemoryStore
) -> None:
    store.failure = Unreachable("bucket 'models' does not answer")
    report("w1", accuracy=0.5)
    agent.wait_for_acks(1)
    commit = agent.end()
    assert commit.store_problem.reason == "Unreachable"
    assert commit.checkpoints == ()
    assert commit.acked_seq == 1


def test_a_fenced_attempt_stores_nothing(
    operator: StubOperator, agent: RunningAgent, report: TakeCheckpoint, store: MemoryStore
) -> None:
    operator.wait_for(lambda: operator.reports)
    operator.faults = [FENCED]
    agent.write(dumps(accuracy=0))
    wait_until(lambda: "fenced" in agent.log.getvalue())
    report("w1", accuracy=0.5)
    agent.end()
    assert store.objects == {}


class TestTheEnd:
    def write_checkpoint(self, agent: RunningAgent, accuracy: float = 0.5) -> None:
        directory = agent.directory / "checkpoints" / "last"
        directory.mkdir(parents=True)
        (directory / "weights").write_text("w")
        agent.write(dumps(_checkpoint="last", accuracy=accuracy))

    @pytest.mark.parametrize(
        "problem", [BucketNotFound("bucket 'models' does not exist"), Unreachable("bucket 'models' does not answer")]
    )
    def test_a_bucket_that_comes_back_within_the_drain_gets_the_last_checkpoint(
        self,
        start_agent: StartAgent,
        store: MemoryStore,
        operator: StubOperator,
        finishing: threading.Event,
        problem: StoreError,
    ) -> None:
        """Somebody may mend it by then, and this is the last time that the checkpoint can be stored."""
        agent = start_agent(STORE | {"PODTUNE_DRAIN_SECONDS": "60"}, make_store=lambda _: store)
        real = store.put_content
        failures: list[str] = []

        def put_content(key: str, content: Content) -> None:
            if not finishing.is_set() or len(failures) < 3:
                failures.append(key)
                raise problem
            return real(key, content)

        store.put_content = put_content
        self.write_checkpoint(agent)
        commit = agent.end()
        assert commit.store_problem is None
        assert f"{ROOT}/1/manifest.json" in store.objects

    def test_time_that_is_over_names_the_field_that_gives_more(
        self, start_agent: StartAgent, store: MemoryStore, operator: StubOperator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        is_over = threading.Event()
        monkeypatch.setattr(store, "put_content", lambda *_: is_over.wait(60))  # no other problem is told
        monkeypatch.setattr(drain, "ABORT_SECONDS", 0.1)
        agent = start_agent(STORE | {"PODTUNE_DRAIN_SECONDS": "1"}, make_store=lambda _: store)
        self.write_checkpoint(agent)
        final = agent.end()
        is_over.set()
        assert final.store_problem.message == "the last checkpoint could not be stored in 1 s; raise checkpoints.drain"
        assert (final.unstored.seq, final.unstored.waits) == (1, True), "the operator says what is lost"

    def test_an_agent_that_is_killed_later_has_said_that_the_last_checkpoint_is_stored(
        self, start_agent: StartAgent, store: MemoryStore, operator: StubOperator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Storing the rest takes its time, too: what its last word calls lost would be told to people."""
        monkeypatch.setattr(ledger_upload, "LAST_WORD", 60.0)
        agent = start_agent(STORE | {"PODTUNE_DRAIN_SECONDS": "60"}, make_store=lambda _: store)
        weights = f"{ROOT}/1/data/weights"
        said: dict[str, Unstored | None] = {}

        def hear(method: Callable[..., None]) -> Callable[..., None]:
            def store_and_hear(key: str, *content: object) -> None:
                text = ""
                while not text:  # until the program has ended
                    wait_until(agent.settings.termination_log.exists)
                    text = agent.settings.termination_log.read_text()
                if key == weights:  # known earlier, the decision would be stored first
                    operator.ledger.append(LedgerLine(1, "2026-01-01T00:00:00Z", 1, 1, "STOP", "the last", {}))
                said[key] = parse_final_commit(text).unstored
                return method(key, *content)

            return store_and_hear

        for method in ("put_bytes", "put_content"):
            monkeypatch.setattr(store, method, hear(getattr(store, method)))
        self.write_checkpoint(agent)
        agent.end()
        assert said[weights] == Unstored(since=1, seq=1, step=1, waits=True)
        assert said[f"{ROOT}/ledger.jsonl"] is None


def test_the_final_commit_names_a_checkpoint_that_the_operator_has_not_acknowledged(
    agent: RunningAgent, report: TakeCheckpoint, operator: StubOperator
) -> None:
    operator.acks_commits = False
    report("w1", accuracy=0.5)
    assert [commit.checkpoint.uri for commit in agent.end().checkpoints] == [f"s3://models/{ROOT}/1"]


def test_checkpoints_come_first_then_all_that_says_what_the_trial_has_done(
    context: TaskContext, take: Callable[[int, bytes], Path], store: MemoryStore
) -> None:
    take(1, b"w1")
    context.attempt.ledger.append(LedgerLine(1, "2026-01-01T00:00:00Z", 1, 1, "STOP", "the last", {}))
    uploader = Uploader(
        context.attempt,
        settings=context.settings,
        address=context.address,
        store=store,
        log=context.log,
        rng=Random(1),
    )
    uploader.finish()
    uploader.run()
    assert uploader.is_finished
    assert store.operations == [
        f"put {ROOT}/1/data/weights",
        f"put {ROOT}/1/manifest.json",
        f"put {ROOT}/ledger.jsonl",
    ]
