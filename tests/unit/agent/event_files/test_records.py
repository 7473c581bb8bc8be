"""The framing of event files: what is written in part is read later, and what is broken harms nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from e2e.programs.reporting.event_files import frame
from podtune.agent.event_files.records import MAX_EVENT_RECORD, RecordFile
from podtune.agent.metric_files.logged_scalars import CorruptFile
from podtune.storage.event_files.checksums import compute_crc32c, mask_checksum

LONG = bytes(range(256)) * (MAX_EVENT_RECORD // 256 + 1)

ReadRecords = Callable[[bytes], tuple[list[bytes], int]]


@pytest.fixture
def read(tmp_path: Path) -> ReadRecords:
    path = tmp_path / "events"

    def read_all(data: bytes, position: int = 0) -> tuple[list[bytes], int]:
        path.write_bytes(data)
        file = os.open(path, os.O_RDONLY)
        try:
            records = RecordFile(file, position)
            return [record.data for record in records.read() if record.is_intact], records.position
        finally:
            os.close(file)

    return read_all


def test_the_checksum_is_castagnolis() -> None:
    # The examples of RFC 3720, B.4, and the usual check value.
    assert compute_crc32c(bytes(32)) == 0x8A9136AA
    assert compute_crc32c(b"\xff" * 32) == 0x62A8AB43
    assert compute_crc32c(b"123456789") == 0xE3069283
    assert compute_crc32c(b"") == 0
    assert mask_checksum(0) == 0xA282EAD8


def test_records_of_any_length_are_read(read: ReadRecords) -> None:
    contents = [b"", b"a", b"b" * 1000, LONG[:MAX_EVENT_RECORD], b"c" * (1 << 17)]
    data = b"".join(map(frame, contents))
    assert read(data) == (contents, len(data))


def test_a_record_that_is_too_long_is_passed_over_unread(read: ReadRecords) -> None:
    data = frame(b"first") + frame(LONG) + frame(b"last")
    assert read(data) == ([b"first", b"last"], len(data))


def test_a_file_that_grows_is_read_on(tmp_path: Path) -> None:
    path, contents = tmp_path / "events", [b"one", b"", b"three" * 10]
    data, found, position = b"".join(map(frame, contents)), [], 0
    with path.open("wb", buffering=0) as writer, path.open("rb") as reader:
        for byte in data:
            writer.write(bytes([byte]))
            records = RecordFile(reader.fileno(), position)
            found += [(record.data, record.end) for record in records.read()]
            position = records.position
    assert [content for content, _ in found] == contents
    assert position == found[-1][1] == len(data)


def test_a_broken_length_ends_a_file_and_broken_data_does_not(read: ReadRecords) -> None:
    first, second, third = frame(b"first"), frame(b"second"), frame(b"third")
    for place in range(len(second)):
        broken = bytearray(second)
        broken[place] ^= 0x10
        data = first + bytes(broken) + third
        if place < 12:
            with pytest.raises(CorruptFile, match=f"at byte {len(first)}, the checksum of a record's length"):
                read(data)
        else:
            assert read(data) == ([b"first", b"third"], len(data))


@given(st.binary(max_size=200), st.integers(0, 60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_file_whatever_breaks_anything(read: ReadRecords, noise: bytes, length: int) -> None:
    data = (frame(b"first") + frame(b"second"))[:length] + noise
    try:
        found, position = read(data)
    except CorruptFile:
        return
    assert position <= len(data)
    assert found[:1] == ([b"first"] if length >= len(frame(b"first")) else found[:1])
