"""The framing of `.wandb` files: what is written in part is read later, and nothing is read that nobody wrote."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podtune.agent.metric_files.logged_scalars import CorruptFile
from podtune.agent.wandb_files import run_log
from podtune.agent.wandb_files.run_log import RunLog
from tests.unit.agent.wandb_files.wandb_writer import BLOCK, HEADER, frame

Test = TypeVar("Test", bound=Callable[..., None])
GOLDEN = bytes.fromhex("3a572642e1be00bb095d410200010801")
"""A file's header and one record of two bytes."""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "run-abc.wandb", os.O_RDWR | os.O_CREAT)
    yield descriptor
    os.close(descriptor)


def read(file: int, content: bytes, position: int = 0) -> list[bytes]:
    os.ftruncate(file, 0)
    os.pwrite(file, content, 0)
    return [record.data for record in RunLog(file, position).read()]


def test_a_file_is_read_as_wandb_writes_it(file: int) -> None:
    assert read(file, GOLDEN) == [b"\x08\x01"]


@pytest.mark.parametrize("size", [0, 1, BLOCK - 15, BLOCK - 14, BLOCK - 13, BLOCK - 7, BLOCK, 3 * BLOCK + 5])
def test_records_of_any_length_are_read(file: int, size: int) -> None:
    records = [b"a" * size, b"b", b"c" * size, b"d" * 40]
    assert read(file, frame(*records)) == records


def test_what_is_there_in_part_is_read_when_all_of_it_is(file: int) -> None:
    records = [b"first", b"x" * (BLOCK + 99), b"last"]
    whole = frame(*records)
    assert feed(file, whole, [*range(40), BLOCK - 1, BLOCK + 3, BLOCK + 8, len(whole) - 1]) == records


def test_a_reader_goes_on_behind_the_record_that_it_has_read(file: int) -> None:
    log = RunLog(file)
    os.pwrite(file, frame(b"one", b"two"), 0)
    ends = [record.end for record in log.read()]
    assert read(file, frame(b"one", b"two", b"three"), ends[0]) == [b"two", b"three"]
    assert read(file, frame(b"one", b"two", b"three"), ends[1]) == [b"three"]


def test_zeros_are_space_that_is_not_written_yet(file: int) -> None:
    assert read(file, frame(b"one") + bytes(500)) == [b"one"]


def test_long_records_are_passed_over(file: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_log, "MAX_RUN_RECORD", BLOCK)
    assert read(file, frame(b"one", b"x" * (2 * BLOCK), b"two")) == [b"one", b"two"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"SQLite format 3", "begins with b'SQLite "),
        (b":W&B\xe1\xbe\x01", "begins with"),
        (frame(b"one", b"two")[:-1] + b"!", "at byte 17, a checksum is wrong"),
        (HEADER + b"\x01\x02\x03\x04\x02\x00\x04ab", "at byte 7, there is no part of a record"),
        (HEADER + b"\x01\x02\x03\x04\xff\xff\x01ab", "at byte 7, there is no part of a record"),
    ],
)
def test_what_is_no_log_is_said_to_be_none(file: int, content: bytes, problem: str) -> None:
    os.pwrite(file, content, 0)
    with pytest.raises(CorruptFile, match=problem):
        list(RunLog(file).read())


RECORDS = st.lists(st.binary(max_size=60) | st.integers(1, BLOCK + 99).map(bytes), min_size=1, max_size=6)


def feed(file: int, content: bytes, cuts: list[int]) -> list[bytes]:
    """What is read of a file that grows: at each cut, by the reader of a new look."""
    found: list[bytes] = []
    position = 0
    for end in [*sorted(cuts), len(content)]:
        os.ftruncate(file, 0)
        os.pwrite(file, content[:end], 0)
        log = RunLog(file, position)
        found += [record.data for record in log.read()]
        position = log.position
    return found


def at_any_time() -> Callable[[Test], Test]:
    return settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@at_any_time()
@given(RECORDS, st.lists(st.integers(0, 7 * BLOCK), max_size=4))
def test_whenever_it_is_looked_at_nothing_is_lost_or_doubled(file: int, records: list[bytes], cuts: list[int]) -> None:
    content = frame(*records)
    assert feed(file, content, [cut % (len(content) + 1) for cut in cuts]) == records


@at_any_time()
@given(RECORDS, st.integers(0, 7 * BLOCK), st.integers(1, 255))
def test_of_a_file_with_a_wrong_byte_nothing_wrong_is_read(
    file: int, records: list[bytes], place: int, change: int
) -> None:
    content = bytearray(frame(*records))
    content[place % len(content)] ^= change
    os.ftruncate(file, 0)
    os.pwrite(file, bytes(content), 0)
    found: list[bytes] = []
    with suppress(CorruptFile):
        found.extend(record.data for record in RunLog(file).read())
    assert found == records[: len(found)]


@at_any_time()
@given(st.binary(max_size=200))
def test_no_file_whatever_breaks_anything(file: int, noise: bytes) -> None:
    for content in (noise, HEADER + noise, frame(b"one") + noise):
        os.ftruncate(file, 0)
        os.pwrite(file, content, 0)
        with suppress(CorruptFile):
            list(RunLog(file).read())
