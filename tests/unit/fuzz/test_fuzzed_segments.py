"""Segments are read from a bucket that others may write to: nothing in there breaks the reader."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from podtune.protocol.fields import ProtocolError
from podtune.storage.segments.reader import read_results
from podtune.storage.segments.segment import SegmentHeader, SegmentName, encode_header, parse_header, parse_segment_name
from tests.unit.fuzz.junk import data, fuzzed
from tests.unit.storage.memory_store import MemoryStore

HEADER = encode_header(SegmentHeader("ml", "digits", "digits-0", "pod-1", 1))


@fuzzed
@given(data)
def test_a_first_line_is_read_or_refused(line: bytes) -> None:
    with suppress(ProtocolError):
        parse_header(line)


@fuzzed
@given(st.text(max_size=40))
def test_a_name_is_read_or_none(text: str) -> None:
    name = parse_segment_name(text)
    assert name is None or name.format() == text


@fuzzed
@given(st.lists(data, max_size=4), st.booleans())
def test_lines_of_any_kind_are_passed_over(lines: list[bytes], has_header: bool) -> None:
    store = MemoryStore()
    key = f"uid/digits-0/pod-1/results/0/{SegmentName(1, 1000).format()}"
    store.objects[key] = (HEADER if has_header else b"") + b"\n".join(lines)
    for stored in read_results(store, "uid/"):
        assert stored.trial == "digits-0"
