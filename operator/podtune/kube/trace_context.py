"""Ids of traces and spans: they follow from UIDs and numbers, so every operator gives the same ones.

They have the form of W3C Trace Context (https://www.w3.org/TR/trace-context/): 16 and 8 bytes, never all zero.
"""

from __future__ import annotations

import uuid
from hashlib import sha256

ENV_TRACEPARENT = "TRACEPARENT"
"""The variable of the program, as OpenTelemetry has it in "Environment Variables as Context Propagation Carriers"."""
_VERSION, _SAMPLED = "00", "01"


def make_trace_id(experiment_uid: str) -> bytes:
    """The id of an experiment's trace: its UID without the dashes, so that people find the one by the other."""
    try:
        trace_id = uuid.UUID(experiment_uid).bytes
    except ValueError:
        trace_id = b""
    return trace_id if any(trace_id) else _digest("trace", experiment_uid, size=16)


def make_experiment_span_id(uid: str, run_generation: int) -> bytes:
    """The id of an experiment's span: it has another one each time that it resumes after an end."""
    return _digest("experiment", uid, run_generation)


def make_trial_span_id(uid: str, run_generation: int) -> bytes:
    """The id of a trial's span in one run of its experiment."""
    return _digest("trial", uid, run_generation)


def make_attempt_span_id(trial_uid: str, attempt: int) -> bytes:
    """The id of an attempt's span, which is the parent of what the program itself traces."""
    return _digest("attempt", trial_uid, attempt)


def make_start_span_id(trial_uid: str, attempt: int) -> bytes:
    """The id of the span from when an attempt's pod was created until its program started."""
    return _digest("start", trial_uid, attempt)


def format_traceparent(experiment_uid: str, trial_uid: str, attempt: int) -> str:
    """What an attempt's program is given, so that its spans are the children of the attempt's."""
    span_id = make_attempt_span_id(trial_uid, attempt)
    return f"{_VERSION}-{make_trace_id(experiment_uid).hex()}-{span_id.hex()}-{_SAMPLED}"


def _digest(kind: str, uid: str, number: int = 0, size: int = 8) -> bytes:
    digest = sha256(f"podtune/{kind}/{uid}/{number}".encode()).digest()[:size]
    return digest if any(digest) else b"\x01" * size
