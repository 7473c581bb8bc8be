"""The ends of stored logs: the latest attempt first, and what is missing between lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from podtune.dashboard.stores import logs
from podtune.dashboard.stores.limits import LimitedStore, ReadLimits
from podtune.dashboard.stores.logs import StoredLogs, read_log_ends
from tests.unit.dashboard.stores.stored_trial import TRIAL, StoredTrial, store_locally


@pytest.fixture
def stored(tmp_path: Path) -> StoredTrial:
    return store_locally(tmp_path)


def read(stored: StoredTrial) -> StoredLogs:
    return read_log_ends(stored.store, stored.prefix, TRIAL)


def test_each_rank_of_each_attempt_has_its_own_the_latest_attempt_first(stored: StoredTrial) -> None:
    for attempt in (1, 2):
        for rank in (1, 0):
            stored.print_lines(f"attempt {attempt}, rank {rank}", attempt=attempt, rank=rank)
    found = [(log.number, log.rank, *log.lines) for log in read(stored).logs]
    assert found == [(number, rank, f"attempt {number}, rank {rank}") for number in (2, 1) for rank in (0, 1)]


def test_where_lines_were_not_kept_one_says_how_many(stored: StoredTrial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MOST_LOG_LINES", 100_000)
    stored.print_lines(*(f"{number:06} {'x' * 80}" for number in range(1, 60_001)), keep=1 << 20)
    (log,) = read(stored).logs
    (gap,) = (at for at, line in enumerate(log.lines) if line.startswith("[podtune: "))
    before, after = int(log.lines[gap - 1][:6]), int(log.lines[gap + 1][:6])
    assert log.lines[gap] == f"[podtune: {after - before - 1:,} lines are not kept here]"
    assert log.printed == 60_000
    assert log.lines[0].startswith("000001 ")
    assert log.lines[-1].startswith("060000 ")


def test_no_more_is_read_than_a_page_can_hold(stored: StoredTrial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MOST_LOGS", 2)
    for attempt in range(1, 6):
        stored.print_lines("y" * 3000, attempt=attempt)
    found = read(stored)
    assert [(log.number, len(log.lines[0])) for log in found.logs] == [(5, 2001), (4, 2001)]
    assert found.left_out == 3


def test_at_a_limit_the_latest_are_the_answer(stored: StoredTrial) -> None:
    for attempt in (1, 2):
        stored.print_lines("z" * 700, attempt=attempt)
    limited = LimitedStore(stored.store, ReadLimits(bytes=1200), lambda: 0.0)
    found = read_log_ends(limited, stored.prefix, TRIAL)
    assert [log.number for log in found.logs] == [2]
    assert "more than" in found.cut
