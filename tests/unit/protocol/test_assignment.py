"""What a warm pod is told to do next."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.protocol.assignment import Assignment, build_attempt_id, parse_attempt_number, parse_pod_uid
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.fields import ProtocolError
from podtune.protocol.messages import (
    NOT_RESTORABLE,
    FinalCommit,
    Reply,
    Report,
    RestoreFailure,
    parse_reply,
    parse_report,
)

NEXT = Assignment("digits-12", 3, "p-1/12.3", {"lr": 0.1, "layers": 2, "kind": "tanh", "bias": True}, seed=7)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"seed": None},
        {"display_name": "lr 0.1 (großes Netz)"},
        {"parameters": {"sizes": [64, 32], "augment": {"flip": True}}},
        {"restore_from": (CheckpointRef("s3://b/3", "sha256:0", 3),), "restore_or_fail": True},
    ],
)
def test_a_reply_says_what_is_next(changes: dict[str, object]) -> None:
    reply = Reply(1, 1, next=replace(NEXT, **changes))  # type: ignore[arg-type]
    assert parse_reply(reply.to_json()) == reply


def test_a_report_carries_the_final_commit() -> None:
    failure = RestoreFailure(NOT_RESTORABLE, "gone")
    report = Report("p-1/12.3", "Draining", final=FinalCommit("p-1/12.3", 4, 4, done=True), restore_failure=failure)
    assert parse_report(report.to_json()) == report


@pytest.mark.parametrize(
    "broken", [{"trial": ""}, {"number": -1}, {"attempt": None}, {"parameters": [1]}, {"parameters": {"lr": None}}]
)
def test_what_is_no_assignment_is_refused(broken: dict[str, object]) -> None:
    reply = json.loads(Reply(1, 1, next=NEXT).to_json())
    reply["next"] |= broken
    with pytest.raises(ProtocolError):
        parse_reply(json.dumps(reply).encode())


@given(st.uuids(), st.integers(0, 99_999), st.integers(1, 999))
def test_an_attempts_id_tells_its_pod_and_its_number(uid: object, index: int, number: int) -> None:
    attempt = build_attempt_id(str(uid), f"a-name-{index}", number)
    assert (parse_pod_uid(attempt), parse_attempt_number(attempt)) == (str(uid), number)
    assert len(attempt) <= 64


def test_an_attempt_with_a_pod_of_its_own_has_that_pods_uid() -> None:
    assert (parse_pod_uid("p-1"), parse_attempt_number("p-1")) == ("p-1", 0)
