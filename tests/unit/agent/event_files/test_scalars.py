"""The scalars of an event, in the forms in which writers have written them."""

from __future__ import annotations

import math
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.programs.reporting.event_files import (
    VERSION,
    encode_bytes,
    encode_event,
    encode_number,
    encode_simple,
    encode_tensor,
)
from podtune.agent.event_files.scalars import ScalarParser
from podtune.agent.metric_files.logged_scalars import BadMessage, LoggedScalar


def read(*records: bytes) -> list[tuple[int, str, float]]:
    parser = ScalarParser()
    events = [event for event in map(parser.parse, records) if event is not None]
    return [(event.step, scalar.tag, scalar.value) for event in events for scalar in event.scalars]


def test_both_forms_of_a_scalar_are_read() -> None:
    event = ScalarParser().parse(encode_event(1.5, 7, encode_simple("loss/val", 0.1), encode_tensor("accuracy", 0.7)))
    assert event is not None
    assert (event.time, event.step) == (1.5, 7)
    assert event.scalars == (LoggedScalar("loss/val", 0.1), LoggedScalar("accuracy", 0.7))


def test_what_a_tag_is_for_is_said_where_it_comes_first() -> None:
    first, later = encode_tensor("loss", 0.5), encode_tensor("loss", 0.25, plugin="")
    assert read(encode_event(1, 1, first), encode_event(2, 2, later)) == [(1, "loss", 0.5), (2, "loss", 0.25)]
    assert read(encode_event(2, 2, later)) == [], "nobody knows what it is for"


def test_what_is_no_scalar_is_left_out() -> None:
    floats = encode_number(1 << 3) + encode_number(1) + encode_bytes(5, struct.pack("<ff", 1, 2))
    text = encode_number(1 << 3) + encode_number(7) + encode_bytes(8, b"text")
    plugin = encode_bytes(9, encode_bytes(1, encode_bytes(1, b"scalars")))
    two, words = (encode_bytes(1, b"tag") + encode_bytes(8, tensor) + plugin for tensor in (floats, text))
    histogram = encode_bytes(1, b"weights") + encode_bytes(5, b"\x09" + struct.pack("<d", 1.0))
    assert read(encode_event(1, 1, two, words, histogram, encode_tensor("lr", 0.1, "hparams"))) == []
    assert ScalarParser().parse(VERSION[12:-4]) is None


@pytest.mark.parametrize(
    "tensor",
    [
        encode_number(1 << 3) + encode_number(1) + encode_bytes(5, struct.pack("<f", 0.1)),
        encode_number(1 << 3) + encode_number(1) + struct.pack("<Bf", 5 << 3 | 5, 0.1),
        encode_number(1 << 3) + encode_number(2) + encode_bytes(4, struct.pack("<d", 0.1)),
        encode_number(1 << 3) + encode_number(2) + encode_bytes(6, struct.pack("<d", 0.1)),
        encode_number(1 << 3) + encode_number(2) + struct.pack("<Bd", 6 << 3 | 1, 0.1),
    ],
)
def test_a_tensor_may_hold_its_number_in_several_ways(tensor: bytes) -> None:
    plugin = encode_bytes(9, encode_bytes(1, encode_bytes(1, b"scalars")))
    assert read(encode_event(1, 1, encode_bytes(1, b"tag") + encode_bytes(8, tensor) + plugin)) == [(1, "tag", 0.1)]


@given(st.floats(width=32))
def test_a_number_of_32_bits_is_told_in_few_digits(value: float) -> None:
    ((_, _, found),) = read(encode_event(1, 1, encode_simple("loss", value)))
    assert struct.pack("<f", found) == struct.pack("<f", value) or math.isnan(value)
    is_largest = struct.pack("<f", abs(value)) == b"\xff\xff\x7f\x7f"  # with fewer digits, it would be larger still
    assert is_largest or len(repr(found).partition("e")[0].strip("-0.").replace(".", "")) <= 9


def test_steps_are_whole_numbers_of_either_sign() -> None:
    for step in (0, 1, 1 << 62, -1):
        assert read(encode_event(1, step, encode_simple("loss", 1))) == [(step, "loss", 1)]


EVENT = encode_event(1.5, 300, encode_simple("loss", 0.5), encode_tensor("accuracy", 0.25))


@pytest.mark.parametrize("length", range(len(EVENT)))
def test_what_is_cut_off_is_no_event_or_one_without_scalars(length: int) -> None:
    with suppress(BadMessage):
        assert ScalarParser().parse(EVENT[:length]) is None


@given(st.binary(), st.integers(0, len(EVENT)))
def test_no_record_whatever_breaks_anything(noise: bytes, length: int) -> None:
    for record in (
        noise,
        EVENT[:length] + noise,
        encode_event(1, 1, noise),
        encode_event(1, 1, encode_bytes(8, noise)),
    ):
        with suppress(BadMessage):
            ScalarParser().parse(record)
