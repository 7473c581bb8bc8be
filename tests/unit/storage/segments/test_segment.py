import pytest

from podtune.protocol.fields import ProtocolError
from podtune.storage.segments.segment import (
    LOG_STREAM,
    SegmentHeader,
    SegmentName,
    encode_header,
    parse_header,
    parse_segment_name,
)

HEADER = SegmentHeader("vision", "digits", "digits-7", "pod-1", 2, 1)


def test_what_a_segment_says_of_its_stream_comes_back() -> None:
    line = encode_header(HEADER)
    assert line.endswith(b"\n")
    assert parse_header(line) == HEADER


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b"no JSON", encode_header(HEADER).replace(b": 1,", b": 2,", 1)])
def test_a_first_line_of_something_else_is_refused(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_header(line)


def test_names_come_back_and_sort_as_their_records_do() -> None:
    names = [SegmentName(9, 5_000), SegmentName(10, 4_000), SegmentName(1_000_000_000, 10**13 - 1)]
    assert sorted(names) == names
    assert sorted(name.format() for name in names) == [name.format() for name in names]
    assert [parse_segment_name(name.format()) for name in names] == names


@pytest.mark.parametrize(
    "text", ["", "1-2.jsonl", "0000000001-0000000001000.json", "0000000001-0000000001000.jsonl.gz"]
)
def test_a_key_of_something_else_names_no_segment(text: str) -> None:
    assert parse_segment_name(text) is None


def test_a_segment_of_a_log_is_none_of_results() -> None:
    name = SegmentName(1, 2)
    assert parse_segment_name(name.format(LOG_STREAM), LOG_STREAM) == name
    assert parse_segment_name(name.format(LOG_STREAM)) is None
    assert parse_header(encode_header(HEADER, LOG_STREAM), LOG_STREAM) == HEADER
    with pytest.raises(ProtocolError):
        parse_header(encode_header(HEADER, LOG_STREAM))
