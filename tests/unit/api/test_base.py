from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from podtune.api.base import Duration, parse_duration
from podtune.api.conditions import clip, set_condition
from podtune.api.names import ConditionType
from podtune.api.tuning.search_space import Parameter, format_value, parse_value

DURATION = TypeAdapter(Duration)


@pytest.mark.parametrize(("text", "length"), [("90s", 90), ("10m", 600), ("1h30m", 5400), ("2h1m1s", 7261), ("0s", 0)])
def test_durations_are_read(text: str, length: float) -> None:
    assert parse_duration(DURATION.validate_python(text)) == length


@pytest.mark.parametrize("text", ["", "5", "1.5h", "2 hours", "30m1h", "-5s", "10s\n", "٣s"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValidationError, match="write it like 90s, 10m or 1h30m"):
        DURATION.validate_python(text)
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@given(st.from_regex(r"[0-9hms]{1,8}", fullmatch=True))
def test_the_model_and_the_reader_agree_on_what_a_duration_is(text: str) -> None:
    try:
        parse_duration(text)
    except ValueError:
        with pytest.raises(ValidationError):
            DURATION.validate_python(text)
    else:
        assert DURATION.validate_python(text) == text


@given(st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=20)))
def test_a_choice_reads_back_as_what_was_written(value: bool | int | float | str) -> None:
    parameter = Parameter.model_validate({"name": "p", "choice": {"values": [value]}})
    read = parse_value(parameter, format_value(value))
    assert (type(read), read) == (type(value), value)


def test_a_value_outside_a_choice_is_refused() -> None:
    parameter = Parameter.model_validate({"name": "p", "choice": {"values": ["relu"]}})
    with pytest.raises(ValueError, match=re.escape("'tanh' is not one of the values of parameter 'p'")):
        parse_value(parameter, "tanh")


def test_a_conditions_time_moves_only_with_its_status() -> None:
    ready = ConditionType.READY
    first = set_condition((), ready, False, "InProgress", "no", now="t1", generation=1)
    same = set_condition(first, ready, False, "Other", "still no", now="t2", generation=2)
    assert (same[0].last_transition_time, same[0].reason, same[0].observed_generation) == ("t1", "Other", 2)
    turned = set_condition(same, ready, None, "Unknown", "?", now="t3", generation=2)
    assert (turned[0].status, turned[0].last_transition_time) == ("Unknown", "t3")


def test_a_long_message_ends_in_an_ellipsis() -> None:
    assert clip("x" * 2000) == "x" * 1023 + "…"
