"""How the agent beside a program here reads what it prints, and hears that its attempt is over."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

from podtune.agent.delivery.operator_client import Fenced, LogRequest, OperatorError
from podtune.agent.results.stdout_results import LogPosition
from podtune.local.agent_connection import AgentConnection
from podtune.protocol.messages import Reply, Report
from podtune.runner.experiment_machine import Unaccepted


class Bench:
    def __init__(self, path: Path, answer: Reply | Unaccepted = Unaccepted.FENCED) -> None:
        self.output = path / "output.log"
        self.output.touch()
        self.has_ended, self.is_over = threading.Event(), threading.Event()
        self.answer: Future[Reply | Unaccepted] = Future()
        self.answer.set_result(answer)
        self.connection = AgentConnection(lambda _: self.answer, self.output, self.has_ended, self.is_over)
        self.position = LogPosition()

    def print(self, text: str) -> None:
        with self.output.open("a") as file:
            file.write(text)

    def read(self, *, follow: bool = True, at_most: int = 99) -> list[str | None]:
        self.position.restart()
        read: list[str | None] = []
        with self.connection.stream_log(LogRequest(self.position.since, follow=follow), lambda: False) as lines:
            for line in lines:
                read.append(self.position.take(line))
                if len(read) == at_most:
                    break
        return read


def test_a_stream_goes_on_where_the_last_one_was_left(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.print("one\ntwo\nthr")
    assert bench.read(at_most=1) == ["one"]
    bench.print("ee\nfour")
    bench.has_ended.set()
    assert bench.read() == ["two", "three", "four"]
    assert bench.read() == []


def test_a_stream_lasts_as_long_as_the_program(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.print("one\n")
    read: list[str | None] = []
    reader = threading.Thread(target=lambda: read.extend(bench.read()))
    reader.start()
    bench.print("two\n")
    bench.has_ended.set()
    reader.join(60)
    assert read == ["one", "two"]


def test_what_was_printed_can_be_missing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.output.unlink()
    with pytest.raises(OperatorError, match="the program's output can't be read"):
        bench.read()


def test_an_attempt_that_is_over_is_fenced(tmp_path: Path) -> None:
    with pytest.raises(Fenced, match="not the trial's current one"):
        Bench(tmp_path).connection.post(Report("u-1"))
    bench = Bench(tmp_path, Reply(0, 0))
    assert bench.connection.post(Report("u-1")) == Reply(0, 0)
    bench.is_over.set()
    with pytest.raises(Fenced, match="the attempt is over"):
        bench.connection.post(Report("u-1"))
