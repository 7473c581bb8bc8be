"""Lists and maps as values: one text for each, and what can't be one."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given

from podtune.api.json_values import JsonText, canonicalize, decode_value, read_json_text, read_parameter_value
from podtune.testing.spaces import json_values


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([64, 32], "[64,32]"),
        ({"b": [1, 2.5], "a": {"deep": None, "on": True}}, '{"a":{"deep":null,"on":true},"b":[1,2.5]}'),
        (["ü", '"', 1e-5], '["ü","\\"",1e-05]'),
        ([], "[]"),
    ],
)
def test_a_list_or_map_has_one_text(value: Any, text: str) -> None:
    read = read_parameter_value(value)
    assert read == text
    assert isinstance(read, JsonText)
    assert decode_value(read) == value


@pytest.mark.parametrize("value", [True, 3, 0.5, "sgd", "[1,2]", ""])
def test_other_values_stay_what_they_are(value: Any) -> None:
    read = read_parameter_value(value)
    assert read is value
    assert decode_value(read) is value


@given(json_values())
def test_every_value_comes_back_and_equal_ones_are_equal_texts(value: Any) -> None:
    assert decode_value(read_parameter_value(value)) == value
    shuffled = dict(reversed(value.items())) if isinstance(value, dict) else value
    assert canonicalize(shuffled) == canonicalize(value)


NESTED = json.loads("[" * 9 + "]" * 9)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, "a null can't be a value; use another one, or a text"),
        (float("inf"), "inf is not a finite number"),
        ([1, float("nan")], "nan is not a finite number; write one, or a string"),
        ({"sizes": {1: 2}}, "has the key 1, which is not a string; put it in quotes"),
        ([b"\0"], "a bytes can't be a value; use a string, number, boolean, list or map"),
        (NESTED, "nests more than 8 lists and maps in each other; make it flatter"),
        ("x" * 1025, "a string of 1025 characters; shorten it to 1024"),
        (["x" * 1024], "a list or map whose JSON has 1028 characters; shorten it to 1024"),
    ],
)
def test_what_cant_be_a_value_is_refused_with_the_remedy(value: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        read_parameter_value(value)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("[64, 32]", "[64,32]"),
        ('{"b": 1, "a": 2}', '{"a":2,"b":1}'),
        ("[64, 32", "[64, 32"),
        ("[" * 100_000, "[" * 100_000),
        ("sgd", "sgd"),
    ],
)
def test_what_a_person_writes_for_one_is_recognised(text: str, read: str) -> None:
    assert read_json_text(text) == read
