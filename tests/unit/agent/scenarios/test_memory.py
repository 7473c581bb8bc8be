"""What an agent holds in memory does not grow with what its program reports, prints and stores, however long.

The operator and the store keep nothing in memory that grows, so that what is measured is the agent's own.
"""

from __future__ import annotations

import gc
import json
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from random import Random

import pytest

from podtune.agent.delivery.operator_client import LogRequest
from podtune.agent.event_log import EventLog
from podtune.agent.settings import Settings
from podtune.agent.sidecar.run import Sidecar
from podtune.protocol.messages import Reply, Report
from tests.unit.agent.running_agent import STORE
from tests.unit.agent.stub_operator import dumps, wait_until
from tests.unit.storage.memory_store import MemoryStore

CHECKPOINTS = (400, 1900)
"""Of the program when memory is looked at first, and last."""
REPORTS = 10
"""Results that it reports with each checkpoint."""
MOST_BYTES = 60
"""By how much the agent may grow with each checkpoint, and the reports, lines and decisions that come with it. It has
to remember the checkpoint's step, in eight bytes; the rest is for what is bounded, as the interpreter's free lists."""
KEPT = {"results": 64 << 10, "logs": 64 << 10, "segmentPeriod": 0.01, "snapshotPeriod": 0}


class ForgetfulOperator:
    """Takes everything in and keeps the two latest checkpoints; changes its mind with each report."""

    def __init__(self) -> None:
        self.lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._acked_seq = 0
        self._kept: tuple[str, ...] = ()
        self._wants = False

    def post(self, report: Report) -> Reply:
        for result in report.results:
            self._acked_seq = max(self._acked_seq, result.seq)
        uris = tuple(commit.checkpoint.uri for commit in report.checkpoints)
        self._kept = tuple(dict.fromkeys((*self._kept, *uris)))[-2:]
        self._wants = not self._wants
        return Reply(
            acked_seq=self._acked_seq,
            durable_seq=self._acked_seq,
            acked_checkpoints=uris,
            should_checkpoint=self._wants,
            kept=self._kept or None,
        )

    @contextmanager
    def stream_log(self, request: LogRequest, is_over: Callable[[], bool]) -> Iterator[Iterator[bytes]]:
        yield iter(self.lines.get, None)

    def interrupt_log(self) -> None:
        self.lines.put(None)


class ForgetfulStore(MemoryStore):
    """Does not keep account of what was done, nor what segments hold: it may be the agent's own bytes."""

    def put_bytes(self, key: str, data: bytes) -> None:
        super().put_bytes(key, b"" if "/results/" in key or "/logs/" in key else data)
        self.operations.clear()


class Program:
    """Reports, prints and takes checkpoints, and waits until each has been stored, recorded and made room for."""

    def __init__(self, directory: Path, operator: ForgetfulOperator, store: MemoryStore, sidecar: Sidecar) -> None:
        self._directory = directory
        self._operator = operator
        self._store = store
        self._attempt = sidecar.attempt
        self._checkpoints = 0

    def train(self, checkpoints: int) -> None:
        """Goes on until it has taken so many checkpoints."""
        while self._checkpoints < checkpoints:
            self._checkpoints += 1
            self._take_checkpoint(str(self._checkpoints))
            wait_until(self._is_recorded)

    def _is_recorded(self) -> bool:
        checkpoints, outbox = self._attempt.checkpoints, self._attempt.outbox
        is_told = outbox.acked_seq == self._checkpoints * REPORTS and not checkpoints.commits
        return is_told and checkpoints.is_stored and sum("/data/" in key for key in self._store.objects) <= 2

    def _take_checkpoint(self, name: str) -> None:
        checkpoint = self._directory / "checkpoints" / name
        checkpoint.mkdir()
        (checkpoint / "weights").write_text(name)
        number = self._checkpoints
        self._operator.lines.put(f"2026-01-01T00:00:00.{number:09d}Z epoch {number}".encode())
        plain = b"".join(dumps(accuracy=number / at) for at in range(1, REPORTS))
        with (self._directory / "results.jsonl").open("ab") as file:
            file.write(plain + dumps(accuracy=number, _checkpoint=name))


@pytest.fixture
def program(environ: dict[str, str]) -> Iterator[Program]:
    settings = Settings.from_environ(environ | STORE | {"PODTUNE_SYNC": json.dumps(KEPT)})
    operator, store, ended = ForgetfulOperator(), ForgetfulStore(), threading.Event()
    with Path("/dev/null").open("w", encoding="utf-8") as nowhere:
        sidecar = Sidecar(
            settings,
            EventLog(lambda: 1.0, stream=nowhere),
            Random(1),
            nowhere,
            lambda _: store,
            client=operator,
            connect=lambda _: operator,
        )
        thread = threading.Thread(target=sidecar.run, args=(lambda _: ended.wait(0.001),), daemon=True)
        thread.start()
        directory = settings.directory.root
        wait_until((directory / "results.jsonl").exists)
        yield Program(directory, operator, store, sidecar)
        ended.set()
        thread.join(60)
        sidecar.close()


@pytest.fixture
def measure_memory() -> Iterator[Callable[[], int]]:
    """Tells how many bytes are in use."""

    def measure() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    yield measure
    tracemalloc.stop()


@pytest.mark.long
def test_memory_does_not_grow_with_reports_checkpoints_lines_and_decisions(
    program: Program, measure_memory: Callable[[], int]
) -> None:
    first, last = CHECKPOINTS
    program.train(first)
    before = measure_memory()
    program.train(last)
    assert measure_memory() - before < MOST_BYTES * (last - first)
