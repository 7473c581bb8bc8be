"""Content as the AWS SDK reads it."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from podtune.storage.content import PIECE, FileSlice
from podtune.storage.s3.client import ContentStream

DATA = bytes(range(256)) * ((PIECE * 2 + 1000) // 256)


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[ContentStream]:
    (tmp_path / "file").write_bytes(DATA)
    with (tmp_path / "file").open("rb") as file:
        yield ContentStream(FileSlice(file.fileno(), 0, len(DATA)))


def test_it_is_read_whole(stream: ContentStream) -> None:
    assert stream.read() == DATA
    assert stream.read() == b""


def test_it_is_read_in_small_pieces_and_again_from_the_front(stream: ContentStream) -> None:
    for _ in range(2):
        assert b"".join(iter(lambda: stream.read(16 << 10), b"")) == DATA
        assert stream.tell() == len(stream) == len(DATA)
        assert stream.seek(0) == 0


def test_what_is_left_of_it_is_read(stream: ContentStream) -> None:
    assert stream.read(1000) + stream.read() == DATA


def test_its_size_is_found_by_winding_on_to_its_end(stream: ContentStream) -> None:
    stream.read(10)
    assert stream.seek(0, io.SEEK_END) == len(DATA)
    assert stream.read(1) == b""
    stream.seek(0)
    assert stream.read(10) == DATA[:10]


def test_it_can_be_wound_to_no_other_place(stream: ContentStream) -> None:
    with pytest.raises(io.UnsupportedOperation):
        stream.seek(5)
