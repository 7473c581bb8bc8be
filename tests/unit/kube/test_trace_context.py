"""Ids of traces and spans: the same from every operator, told apart, and such as W3C Trace Context allows."""

from __future__ import annotations

import re
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from podtune.kube.trace_context import (
    format_traceparent,
    make_attempt_span_id,
    make_experiment_span_id,
    make_start_span_id,
    make_trace_id,
    make_trial_span_id,
)

UIDS = st.uuids().map(str) | st.text(max_size=40)
NUMBERS = st.integers(min_value=0, max_value=10**6)


def test_a_trace_is_found_by_the_uid_of_its_experiment() -> None:
    assert make_trace_id("6c5f0cf2-3f8e-4a70-9f4e-3f3b6a4d8d11").hex() == "6c5f0cf23f8e4a709f4e3f3b6a4d8d11"


def test_ids_of_all_releases_are_these() -> None:
    assert make_experiment_span_id("e-1", 0).hex() == "62ffa8751f76c616"
    assert make_trial_span_id("t-1", 0).hex() == "882dd8b81963f48d"
    assert make_attempt_span_id("t-1", 2).hex() == "ac8dcd50900fdd60"
    assert make_start_span_id("t-1", 2).hex() == "d0a90bb007a6c082"


def test_another_process_gives_the_same_ids() -> None:
    code = "from podtune.kube.trace_context import format_traceparent; print(format_traceparent('e', 't', 3))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert other.stdout.strip() == format_traceparent("e", "t", 3)


@given(experiment=UIDS, trial=UIDS, attempt=NUMBERS)
def test_a_program_is_given_a_valid_traceparent_that_is_sampled(experiment: str, trial: str, attempt: int) -> None:
    match = re.fullmatch("00-([0-9a-f]{32})-([0-9a-f]{16})-01", format_traceparent(experiment, trial, attempt))
    assert match is not None
    assert match[1] == make_trace_id(experiment).hex() != "0" * 32
    assert match[2] == make_attempt_span_id(trial, attempt).hex() != "0" * 16


@given(uid=UIDS, number=NUMBERS, other=NUMBERS)
def test_spans_of_a_kind_and_of_other_kinds_are_told_apart(uid: str, number: int, other: int) -> None:
    makers = (make_experiment_span_id, make_trial_span_id, make_attempt_span_id, make_start_span_id)
    assert len({make(uid, number) for make in makers}) == len(makers)
    assert (make_attempt_span_id(uid, number) == make_attempt_span_id(uid, other)) == (number == other)


def test_a_uid_that_is_all_zero_has_a_trace_too() -> None:
    assert any(make_trace_id("00000000-0000-0000-0000-000000000000"))
