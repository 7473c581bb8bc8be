"""Whatever is lost, doubled or forgotten on the way, each result is taken in once, in order."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.agent.state.attempt import HEARTBEAT, Attempt
from podtune.agent.state.outbox import Outbox
from podtune.agent.state.result_line import ResultLine
from podtune.protocol.messages import MetricValue, Reply, Result, parse_reply, parse_report

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("result"), st.integers(1, 4)),
        st.tuples(
            st.sampled_from(["exchange", "lose request", "lose reply", "send twice", "persist", "operator dies"])
        ),
        st.tuples(st.just("agent restarts")),
        st.tuples(st.just("late reply")),
    ),
    max_size=60,
)


class Operator:
    """The receiving half: takes the next result and no other; forgets what is not durable when it dies."""

    def __init__(self) -> None:
        self.durable: list[MetricValue] = []
        self.taken: list[MetricValue] = []

    def take(self, body: bytes) -> bytes:
        for result in parse_report(body).results:
            if result.seq == len(self.taken) + 1:
                self.taken.append(result.metrics["value"])
        return Reply(acked_seq=len(self.taken), durable_seq=len(self.durable)).to_json()

    def persist(self) -> None:
        self.durable = list(self.taken)

    def die(self) -> None:
        self.taken = list(self.durable)


class World:
    """The program's file, an agent, an operator, and what lies between."""

    def __init__(self) -> None:
        self.file: list[int] = []
        self.operator = Operator()
        self.agent = Attempt("pod-1", "value", has_store=False)
        self.now = 0.0
        self.late: bytes | None = None

    def write(self, count: int) -> None:
        for _ in range(count):
            self.file.append(len(self.file) + 1)
            self.agent.add(ResultLine({"value": self.file[-1]}), self.now)

    def exchange(self, *, request_arrives: bool = True, reply_arrives: bool = True, times: int = 1) -> None:
        body = self.agent.build_report(self.now).to_json()
        replies = [self.operator.take(body) for _ in range(times)] if request_arrives else []
        self.now += 0.01
        if replies and reply_arrives:
            self.agent.take_reply(parse_reply(replies[-1]), self.now)
        else:
            self.late = replies[-1] if replies else self.late
            self.agent.record_lost_report()

    def restart_agent(self) -> None:
        self.agent = Attempt("pod-1", "value", has_store=False)
        for value in self.file:
            self.agent.add(ResultLine({"value": value}), self.now)

    def do(self, event: str, *arguments: int) -> None:
        match event:
            case "result":
                self.write(*arguments)
            case "exchange":
                self.exchange()
            case "lose request":
                self.exchange(request_arrives=False)
            case "lose reply":
                self.exchange(reply_arrives=False)
            case "send twice":
                self.exchange(times=2)
            case "persist":
                self.operator.persist()
            case "operator dies":
                self.operator.die()
            case "agent restarts":
                self.restart_agent()
            case "late reply" if self.late is not None:
                self.agent.take_reply(parse_reply(self.late), self.now)

    def run_quietly(self) -> None:
        """Nothing fails any more: reports go out when they are due."""
        for _ in range(20):
            self.now = max(self.now, self.agent.compute_next_report_time())
            self.exchange()


@given(EVENTS)
@settings(max_examples=400, deadline=None)
def test_every_result_arrives_once_and_in_order(events: list[tuple[Any, ...]]) -> None:
    world = World()
    for event in events:
        world.do(*event)
        assert world.operator.taken == world.file[: len(world.operator.taken)]
    world.run_quietly()
    assert world.operator.taken == world.file
    assert world.agent.is_delivered
    commit = world.agent.build_final_commit()
    assert commit.seq == commit.acked_seq == len(world.file)


@given(EVENTS)
@settings(max_examples=200, deadline=None)
def test_killed_anywhere_the_agent_and_the_operator_hold_everything_between_them(events: list[tuple[Any, ...]]) -> None:
    world = World()
    for event in events:
        world.do(*event)
        world.operator.die()  # the worst moment: only what is durable is left
        printed = [result.metrics["value"] for result in world.agent.outbox.release()]
        assert sorted({*world.operator.durable, *printed}) == world.file
        assert world.agent.build_final_commit().seq == len(world.file)
        world.restart_agent()


@given(st.lists(st.integers(0, 30)), st.integers(1, 30))
def test_a_batch_always_starts_after_the_acknowledged(acks: list[int], count: int) -> None:
    outbox = Outbox()
    for seq in range(1, count + 1):
        outbox.add(Result(seq=seq, time=0.0, metrics={}, step=seq))
    for ack in acks:
        outbox.take_reply(ack, 0)
        assert [result.seq for result in outbox.build_batch()] == list(range(ack + 1, count + 1))


def test_batches_fit_into_a_report() -> None:
    outbox = Outbox()
    for seq in range(1, 2001):
        outbox.add(Result(seq=seq, time=0.0, metrics={f"m{n}": "x" * 200 for n in range(60)}, step=seq))
    batch = outbox.build_batch()
    assert 1 <= len(batch) < 500
    assert len(json.dumps([dict(result.metrics) for result in batch])) < 1 << 20


def test_a_full_outbox_asks_for_a_rest_until_results_are_durable() -> None:
    outbox = Outbox(capacity=2)
    for seq in (1, 2):
        outbox.add(Result(seq=seq, time=0.0, metrics={}, step=seq))
    outbox.take_reply(2, 0)
    assert outbox.is_full
    outbox.take_reply(2, 1)
    assert not outbox.is_full


def test_reports_are_due_when_there_is_something_to_say() -> None:
    attempt = Attempt("pod-1", "value", has_store=False)
    assert attempt.compute_next_report_time() < 0  # the first one says that the agent is there
    attempt.build_report(0.0)
    attempt.take_reply(Reply(0, 0), now=100.0)
    assert attempt.compute_next_report_time() == 100.0 + HEARTBEAT
    attempt.add(ResultLine({"value": 1}), 0.0)
    assert attempt.compute_next_report_time() < 0
    attempt.build_report(0.0)
    attempt.take_reply(Reply(0, 0), now=101.0)  # an answer that takes nothing in: no reason to ask at once again
    assert 101.0 < attempt.compute_next_report_time() < 101.0 + HEARTBEAT
