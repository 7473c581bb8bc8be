"""The decisions on a trial in the bucket."""

import json
from dataclasses import asdict

import pytest

from podtune.agent.checkpoints.ledger_upload import LedgerUpload
from podtune.agent.checkpoints.upload_task import TaskContext
from podtune.protocol.messages import LedgerLine, parse_ledger
from podtune.storage.errors import Unreachable
from tests.unit.agent.running_agent import ROOT, RunningAgent, TakeCheckpoint
from tests.unit.agent.stub_operator import StubOperator, wait_until
from tests.unit.storage.memory_store import MemoryStore


def decision(number: int, action: str = "CONTINUE") -> LedgerLine:
    inputs = {"rung": str(number)}
    return LedgerLine(number, "2026-01-01T00:00:00Z", 1, number, action, f"at rung {number} – ½", inputs)


def heard(operator: StubOperator) -> int:
    """Number of the last decision that the agent says it knows."""
    return operator.reports[-1].ledger if operator.reports else 0


def test_the_decisions_that_the_operator_tells_of_are_stored_once_each(
    agent: RunningAgent, report: TakeCheckpoint, store: MemoryStore, operator: StubOperator
) -> None:
    operator.ledger.append(decision(1))
    report("w1", accuracy=0.5)
    operator.wait_for(lambda: heard(operator) == 1)
    operator.ledger.append(decision(2))
    report("w2", accuracy=0.5)
    operator.wait_for(lambda: heard(operator) == 2)
    agent.end()
    stored = store.objects[f"{ROOT}/ledger.jsonl"].decode().splitlines()
    assert [json.loads(line) for line in stored] == [asdict(decision(1)), asdict(decision(2))]


def test_the_decision_that_ended_the_attempt_is_among_them(
    agent: RunningAgent, report: TakeCheckpoint, store: MemoryStore, operator: StubOperator
) -> None:
    """It was taken on the last result, so nothing else would be left to say."""
    report("w1", accuracy=0.5)
    operator.wait_for(lambda: operator.commits)
    wait_until(lambda: f"{ROOT}/1/manifest.json" in store.objects)
    operator.ledger.append(decision(1, "STOP"))
    agent.end()
    assert json.loads(store.objects[f"{ROOT}/ledger.jsonl"])["action"] == "STOP"


def test_decisions_are_stored_as_they_come_and_the_last_word_says_how_far(
    agent: RunningAgent, report: TakeCheckpoint, store: MemoryStore, operator: StubOperator
) -> None:
    """An agent whose node is lost has no time to store anything."""
    operator.ledger.append(decision(1))
    report("w1", accuracy=0.5)
    wait_until(lambda: f"{ROOT}/ledger.jsonl" in store.objects)
    operator.ledger.append(decision(2, "STOP"))
    commit = agent.end()
    assert [entry.number for entry in parse_ledger(store.objects[f"{ROOT}/ledger.jsonl"])] == [1, 2]
    assert commit.ledger == 2


def test_decisions_that_could_not_be_stored_are_not_said_to_be(
    agent: RunningAgent,
    report: TakeCheckpoint,
    store: MemoryStore,
    operator: StubOperator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put = store.put_bytes

    def refuse(key: str, data: bytes) -> None:
        if key.endswith("ledger.jsonl"):
            raise Unreachable("no answer")
        put(key, data)

    monkeypatch.setattr(store, "put_bytes", refuse)
    operator.ledger.append(decision(1))
    report("w1", accuracy=0.5)
    operator.wait_for(lambda: heard(operator) == 1)
    assert agent.end().ledger == 0


def test_an_operator_that_is_away_at_the_end_is_not_waited_for_long(
    agent: RunningAgent, report: TakeCheckpoint, store: MemoryStore, operator: StubOperator
) -> None:
    operator.ledger.append(decision(1))
    report("w1", accuracy=0.5)
    operator.wait_for(lambda: operator.commits and heard(operator) == 1)
    wait_until(lambda: operator.reports[-1].results == ())
    operator.close()
    agent.end(30.0)  # half of what its answer is waited for here
    assert json.loads(store.objects[f"{ROOT}/ledger.jsonl"])["number"] == 1


def test_a_trial_without_decisions_has_no_ledger(
    agent: RunningAgent, report: TakeCheckpoint, store: MemoryStore
) -> None:
    report("w1", accuracy=0.5)
    agent.end()
    assert f"{ROOT}/ledger.jsonl" not in store.objects


def test_what_could_not_be_stored_is_tried_again_with_the_next_decision_or_at_the_end(
    context: TaskContext, store: MemoryStore
) -> None:
    task, attempt = LedgerUpload(context), context.attempt
    assert task.due_in is None
    attempt.ledger.append(decision(1))
    assert task.due_in == 0
    store.failure = Unreachable("bucket 'models' does not answer")
    task.run()
    assert (task.due_in, attempt.ledger_stored, attempt.store_problem) == (None, 0, None)
    store.failure = None
    task.finish()
    assert attempt.ledger_stored == 1
    assert parse_ledger(store.objects[f"{ROOT}/ledger.jsonl"]) == (decision(1),)
