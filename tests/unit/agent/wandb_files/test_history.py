"""The rows of a run's history, as releases of W&B's client have written them."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.agent.metric_files.logged_scalars import BadMessage
from podtune.agent.wandb_files.history import HistoryParser
from tests.unit.agent.wandb_files.wandb_writer import (
    encode_bytes,
    encode_number,
    make_history,
    make_item,
    make_row,
    make_run,
)


def parse(*records: bytes) -> list[tuple[int, dict[str, float]]]:
    parser = HistoryParser()
    events = filter(None, map(parser.parse, records))
    return [(event.step, {scalar.tag: scalar.value for scalar in event.scalars}) for event in events]


def test_a_row_has_the_step_that_stands_beside_it() -> None:
    assert parse(make_row({"loss": 0.5, "_step": 3, "_runtime": 2.5, "_timestamp": 1.7e9}, 3)) == [(3, {"loss": 0.5})]
    assert parse(make_row({"loss": 0.5}, 0), make_row({"loss": 0.4}, 5)) == [(0, {"loss": 0.5}), (5, {"loss": 0.4})]


def test_or_that_which_it_holds() -> None:
    assert parse(make_row({"loss": 0.5, "_step": 4})) == [(4, {"loss": 0.5})]


def test_or_the_one_after_the_last() -> None:
    rows = [make_row({"loss": n}) for n in (3, 2)]
    assert parse(make_run(), *rows) == [(0, {"loss": 3}), (1, {"loss": 2})]
    assert parse(make_run(starting_step=40), *rows) == [(40, {"loss": 3}), (41, {"loss": 2})]
    assert parse(make_row({"loss": 9}, 7), *rows) == [(7, {"loss": 9}), (8, {"loss": 3}), (9, {"loss": 2})]


def test_nested_values_are_called_as_on_the_pages_of_wandb() -> None:
    assert parse(make_row({"val/loss": 0.5})) == [(0, {"val/loss": 0.5})]
    assert parse(make_row({"val/loss": 0.5}, is_nested=False)) == [(0, {"val/loss": 0.5})]
    nested = [(0, {"val.loss": 0.5, "val.acc.top1": 0.9})]
    assert parse(make_row({"val": {"loss": 0.5, "acc": {"top1": 0.9}}})) == nested
    parts = make_item("val", "loss", value="0.5"), make_item("val", "acc", "top1", value="0.9")
    assert parse(make_history(*parts)) == nested


def test_what_is_no_number_is_left_out() -> None:
    picture = {"_type": "image-file", "width": 3, "path": "a.png"}
    values: dict[str, Any] = {"picture": picture, "name": "adam", "done": True, "none": None, "list": [1], "loss": 1}
    assert parse(make_row(values)) == [(0, {"loss": 1})]
    assert parse(make_row({"picture": picture})) == []


def test_so_are_the_sizes_of_an_image_whose_parts_stand_alone() -> None:
    parts = [
        make_item("val", "picture", name, value=json.dumps(value)) for name, value in (("width", 3), ("height", 4))
    ]
    kind = make_item("val", "picture", "_type", value='"image-file"')
    assert parse(make_history(*parts, kind, make_item("val", "loss", value="0.5"))) == [(0, {"val.loss": 0.5})]


@pytest.mark.parametrize("written", ["NaN", math.nan])
def test_not_a_number_is_one(written: object) -> None:
    ((_, values),) = parse(make_row({"loss": written}))
    assert math.isnan(values["loss"])


def test_the_time_of_a_row_is_known() -> None:
    event = HistoryParser().parse(make_row({"loss": 1, "_timestamp": 1.7e9}))
    assert event is not None
    assert event.time == 1.7e9


def test_records_of_other_kinds_and_fields_that_nobody_knows_are_passed_over() -> None:
    later = encode_bytes(4711, b"?") + encode_number(99, 1 << 63) + b"\x9d\x06abcd" + b"\x99\x06abcdefgh"
    assert parse(encode_number(1, 1) + encode_bytes(3, b"summary"), later, b"", make_row({"a": 1}) + later) == [
        (0, {"a": 1})
    ]


@pytest.mark.parametrize("record", [b"\x12\x05abc", b"\xff" * 12, b"\x0b", make_row({"loss": 1})[:8]])
def test_what_is_no_message_is_said_to_be_none(record: bytes) -> None:
    with pytest.raises(BadMessage):
        HistoryParser().parse(record)


@pytest.mark.parametrize("step", ["Infinity", "1e300", "-1e300", '"three"', "NaN"])
def test_a_step_that_can_be_none_does_no_harm(step: str) -> None:
    assert parse(make_history(make_item("_step", value=step), make_item("loss", value="1"))) == [(0, {"loss": 1})]


ROW = make_row({"loss": 0.5, "val": {"acc": 0.9}, "_step": 3, "_timestamp": 1.7e9}, 3)


@given(st.binary(), st.integers(0, len(ROW)))
def test_no_record_whatever_breaks_anything(noise: bytes, length: int) -> None:
    for record in (
        noise,
        ROW[:length] + noise,
        encode_bytes(2, noise),
        encode_bytes(17, noise),
        make_history(make_item("loss", value=noise.decode("latin-1"))),
        make_history(encode_bytes(1, noise), encode_bytes(2, noise)),
    ):
        with suppress(BadMessage):
            HistoryParser().parse(record)


@given(st.dictionaries(st.text(min_size=1, max_size=5), st.integers() | st.floats(allow_nan=False), max_size=4))
def test_numbers_are_what_was_logged(values: dict[str, float]) -> None:
    wanted = {name: value for name, value in values.items() if not name.startswith("_")}
    assert parse(make_row(values, 1)) == ([(1, wanted)] if wanted else [])
