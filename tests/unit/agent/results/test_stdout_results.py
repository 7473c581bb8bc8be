"""Results that are read off the program's output."""

import re
import threading
import time
from collections.abc import Iterator, Mapping

import pytest

from podtune.agent.results.stdout_results import LogPosition, make_log_parser, match_line, parse_nanoseconds
from podtune.agent.sidecar import drain
from podtune.protocol.messages import MetricValue, Result, read_number
from tests.unit.agent.printed_log import Log, stamped
from tests.unit.agent.running_agent import StartAgent
from tests.unit.agent.stub_operator import StubOperator, wait_until

PATTERN = r"epoch=(?P<epoch>\d+) loss=(?P<loss>\S+)(?: note=(?P<note>\w+))?"


@pytest.mark.parametrize(
    ("text", "metrics"),
    [
        ("INFO epoch=3 loss=0.25 (better)", {"epoch": 3, "loss": 0.25}),
        ("epoch=3 loss=1e-3 note=warm", {"epoch": 3, "loss": 1e-3, "note": "warm"}),
        ("epoch=3 loss=diverged", {"epoch": 3, "loss": "diverged"}),
        ("nothing of the kind", None),
    ],
)
def test_named_groups_become_metrics(
    text: str, metrics: dict[str, float | int | str] | dict[str, float] | dict[str, int | str] | None
) -> None:
    line = match_line(re.compile(PATTERN), text)
    assert (line and line.metrics) == metrics


def test_a_group_named_like_nothing_finite_is_kept_as_a_number() -> None:
    assert str(match_line(re.compile(PATTERN), "epoch=1 loss=nan").metrics["loss"]) == "nan"


def test_an_endless_number_is_left_out() -> None:
    line = match_line(re.compile(PATTERN), f"epoch={'9' * 400} loss=1")
    assert line.metrics == {"loss": 1}
    assert "64 bits" in line.problems[0]


KATIB = r"(?P<name>[\w|-]+)\s*=\s*(?P<value>[+-]?\d*(\.\d+)?([Ee][+-]?\d+)?)"
"""Katib's default filter, with its groups named."""
WITH_EPOCH = rf"[Ee]poch (?P<epoch>\d+):|{KATIB}"


def read(pattern: str, text: str, last: str = "") -> list[Mapping[str, MetricValue]]:
    """All results of some output, in order."""
    lines = make_log_parser(re.compile(pattern), last)
    found = [line for text_line in text.splitlines() for line in lines.take(text_line)]
    return [line.metrics for line in [*found, *lines.finish()]]


@pytest.mark.parametrize(
    ("pattern", "text", "results"),
    [
        (KATIB, "loss=0.5\nacc=0.1\nloss=0.4\nacc=0.2", [{"loss": 0.5, "acc": 0.1}, {"loss": 0.4, "acc": 0.2}]),
        (KATIB, "loss=0.5\nloss=0.4", [{"loss": 0.5}, {"loss": 0.4}]),
        (
            KATIB,
            "epoch 1:\nloss = 5e-1\nval-loss=-1\n\nepoch 2:\nloss=.4",
            [{"loss": 0.5, "val-loss": -1}, {"loss": 0.4}],
        ),
        (KATIB, "INFO step=1 loss=0.5 acc=0.1 note=fine", [{"step": 1, "loss": 0.5, "acc": 0.1}]),
        (KATIB, "loss=nan\nnothing here\n= 3", []),
        (
            WITH_EPOCH,
            "epoch 1:\nloss=0.5\nacc=0.1\nepoch 2:\nloss=0.4\nEpoch 3:\nloss=0.3\nacc=0.3",
            [{"epoch": 1, "loss": 0.5, "acc": 0.1}, {"epoch": 2, "loss": 0.4}, {"epoch": 3, "loss": 0.3, "acc": 0.3}],
        ),
        (r"(?P<name>\w+): (?P<value>\S+)", "loss: 1e3\nstate: warm", [{"loss": 1000.0, "state": "warm"}]),
    ],
)
def test_lines_that_name_their_metrics_make_results(
    pattern: str, text: str, results: list[dict[str, MetricValue]]
) -> None:
    assert read(pattern, text) == results


def test_a_result_is_complete_with_the_metric_that_comes_last() -> None:
    lines = make_log_parser(re.compile(KATIB), "acc")
    assert [line.metrics for line in lines.take("loss=0.5")] == []
    assert [line.metrics for line in lines.take("acc=0.1")] == [{"loss": 0.5, "acc": 0.1}]
    assert [line.metrics for line in lines.take("acc=0.2")] == [{"acc": 0.2}]
    assert list(lines.finish()) == []


def test_lines_that_name_too_many_metrics_or_bad_ones_lose_those_alone() -> None:
    many = [f"m{number}=1" for number in range(100)]
    (metrics,) = read(KATIB, "\n".join([*many, f"{'n' * 300}=1", "loss=2"]), last="loss")
    assert metrics["loss"] == 2
    assert len(metrics) == 63
    lines = make_log_parser(re.compile(KATIB), "loss")
    assert not list(lines.take(f"{'n' * 300}=1"))
    (line,) = lines.take("loss=2")
    assert line.metrics == {"loss": 2}
    assert line.problems
    (line,) = lines.take(" ".join([*many, "loss=2"]))
    assert line.problems[0] == "'m62' was left out: a result has 63 values at most"


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("1970-01-01T00:00:01Z", 10**9),
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("1970-01-01T01:00:01.000000001+01:00", 1_000_000_001),
        ("1970-13-01T00:00:01Z", None),
        ("now", None),
        ("", None),
    ],
)
def test_timestamps_are_read_to_the_nanosecond(stamp: str, expected: int | None) -> None:
    assert parse_nanoseconds(stamp) == expected


def test_a_stream_that_starts_over_gives_each_line_once() -> None:
    position = LogPosition()
    lines = [stamped(1, "a"), stamped(1, "b"), stamped(2, "c")]
    position.restart()
    assert [position.take(line) for line in lines[:2]] == ["a", "b"]
    position.restart()
    assert [position.take(line) for line in lines] == [None, None, "c"]
    position.restart()
    assert position.take(b"no timestamp\n") is None
    assert position.since.startswith("2026-01-01T00:00:02")


@pytest.fixture
def log(operator: StubOperator) -> Iterator[Log]:
    log = Log(operator)
    yield log
    log.end()


def metrics_of(result: Result) -> dict[str, MetricValue]:
    """A result's metrics without its times, which are there."""
    metrics = dict(result.metrics)
    this, total = (read_number(metrics, name) for name in ("time_this_iter_s", "time_total_s"))
    assert this is not None
    assert total is not None
    assert 0 <= this <= total
    del metrics["time_this_iter_s"], metrics["time_total_s"]
    return metrics


def test_results_come_as_they_are_printed(operator: StubOperator, start_agent: StartAgent, log: Log) -> None:
    agent = start_agent({"PODTUNE_STDOUT_PATTERN": PATTERN})
    log.print("starting")
    log.print("epoch=1 loss=0.5")
    operator.wait_for(lambda: operator.acked_seq == 1)
    log.print("epoch=2 loss=0.25")
    operator.wait_for(lambda: operator.acked_seq == 2)
    log.end()
    commit = agent.end()
    assert commit.complete
    assert metrics_of(operator.results[2]) == {"epoch": 2, "loss": 0.25, "training_iteration": 2}


def test_lines_that_name_their_metrics_come_as_results(
    operator: StubOperator, start_agent: StartAgent, log: Log
) -> None:
    agent = start_agent({"PODTUNE_STDOUT_PATTERN": KATIB})
    log.print("loss=0.5")
    log.print("acc=0.1")
    log.print("loss=0.25")
    operator.wait_for(lambda: operator.acked_seq == 1)
    log.print("acc=0.2")
    log.end()
    commit = agent.end()
    assert (commit.complete, commit.seq) == (True, 2)
    assert metrics_of(operator.results[1]) == {"loss": 0.5, "acc": 0.1, "training_iteration": 1}
    assert metrics_of(operator.results[2]) == {"loss": 0.25, "acc": 0.2, "training_iteration": 2}


def test_with_the_last_metric_known_nothing_is_held_back(
    operator: StubOperator, start_agent: StartAgent, log: Log
) -> None:
    agent = start_agent({"PODTUNE_STDOUT_PATTERN": KATIB, "PODTUNE_STDOUT_LAST": "acc"})
    log.print("loss=0.5")
    log.print("acc=0.1")
    operator.wait_for(lambda: operator.acked_seq == 1)
    log.end()
    assert agent.end().seq == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_broken_stream_is_taken_up_where_it_broke(operator: StubOperator, start_agent: StartAgent, log: Log) -> None:
    log.breaks_after = 2
    for epoch in range(1, 5):
        log.print(f"epoch={epoch} loss=0")
    agent = start_agent({"PODTUNE_STDOUT_PATTERN": PATTERN})
    operator.wait_for(lambda: operator.acked_seq == 4)
    log.end()
    assert agent.end().complete
    assert [operator.results[seq].metrics["epoch"] for seq in range(1, 5)] == [1, 2, 3, 4]
    assert log.requests[1].startswith("2026-01-01T00:00:02")


@pytest.mark.parametrize("status", [429, 503])
def test_where_there_is_no_room_for_the_log_it_is_asked_for_again_when_the_operator_says(
    operator: StubOperator, start_agent: StartAgent, log: Log, status: int
) -> None:
    asked = list[float]()
    operator.before_log = lambda _: asked.append(time.monotonic())
    operator.log_refusals = [status]
    log.print("epoch=1 loss=0.5")
    agent = start_agent({"PODTUNE_STDOUT_PATTERN": PATTERN})
    operator.wait_for(lambda: operator.acked_seq == 1)
    assert asked[1] - asked[0] >= 1
    log.end()
    assert agent.end().complete


def test_what_is_printed_last_is_waited_for(operator: StubOperator, start_agent: StartAgent, log: Log) -> None:
    agent = start_agent({"PODTUNE_STDOUT_PATTERN": PATTERN})
    wait_until(lambda: log.requests)
    ending = threading.Thread(target=agent.end)
    ending.start()
    log.print("epoch=1 loss=0.5")
    log.end()
    ending.join(60)
    assert operator.acked_seq == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_stream_that_breaks_after_the_end_of_the_program_is_not_its_end(
    operator: StubOperator, start_agent: StartAgent, log: Log
) -> None:
    log.breaks_after = 1
    log.print("epoch=1 loss=0.5")
    log.print("epoch=2 loss=0.5")
    log.end()
    commit = start_agent({"PODTUNE_STDOUT_PATTERN": PATTERN}).end()
    assert (commit.seq, commit.acked_seq, commit.complete) == (2, 2, True)


def test_a_stream_that_was_begun_before_the_end_of_the_program_may_lack_the_last_lines(
    operator: StubOperator, start_agent: StartAgent, log: Log
) -> None:
    agent = start_agent({"PODTUNE_STDOUT_PATTERN": PATTERN})
    log.print("epoch=1 loss=0.5")
    operator.wait_for(lambda: operator.acked_seq == 1)
    ending = threading.Thread(target=agent.end)
    ending.start()
    wait_until(agent.settings.termination_log.exists)
    log.rotate()
    wait_until(lambda: len(log.requests) == 2)
    log.print("epoch=2 loss=0.5")
    log.end()
    ending.join(60)
    assert operator.acked_seq == 2


def test_a_stream_that_does_not_end_makes_the_results_incomplete(
    operator: StubOperator, start_agent: StartAgent, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain, "LOG_SECONDS", 0.2)
    agent = start_agent({"PODTUNE_STDOUT_PATTERN": PATTERN})
    log.print("epoch=1 loss=0.5")
    operator.wait_for(lambda: operator.acked_seq == 1)
    commit = agent.end()
    assert not commit.complete
    assert commit.acked_seq == 1
