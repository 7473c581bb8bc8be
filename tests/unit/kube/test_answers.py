from __future__ import annotations

import pytest

from podtune.api.resources.experiment import ExperimentStatus
from podtune.api.resources.trial import TrialStatus
from podtune.kube import paths
from podtune.kube.answers import MAX_SERVER_MESSAGE, check_answer, parse_refusal, read_status
from podtune.kube.errors import ResourceExists, WrongObject

TRIAL = {"kind": "Trial", "metadata": {"namespace": "team-a", "name": "digits-0"}}


def test_the_object_that_was_asked_for_will_do() -> None:
    check_answer(paths.trial("team-a", "digits-0"), TRIAL)


@pytest.mark.parametrize(
    "answer",
    [
        {**TRIAL, "kind": "TrialList"},
        {**TRIAL, "kind": "Pod"},
        {**TRIAL, "metadata": {"namespace": "team-b", "name": "digits-0"}},
        {**TRIAL, "metadata": {"namespace": "team-a", "name": "digits-1"}},
        {"kind": "Trial", "metadata": None},
        {},
    ],
)
def test_another_one_will_not(answer: dict[str, object]) -> None:
    with pytest.raises(WrongObject, match="Trial team-a/digits-0 was asked for"):
        check_answer(paths.trial("team-a", "digits-0"), answer)


@pytest.mark.parametrize("path", [paths.trials("team-a"), paths.trials(), paths.TOKEN_REVIEWS])
def test_lists_and_reviews_are_no_single_objects(path: str) -> None:
    check_answer(path, {"kind": "TrialList"})


def test_a_refusal_has_the_servers_own_words() -> None:
    body = b'{"kind": "Status", "reason": "AlreadyExists", "message": "pods \\"a\\" already exists"}'
    refusal = parse_refusal(409, body, "3")
    assert isinstance(refusal, ResourceExists)
    assert (refusal.reason, refusal.message, refusal.retry_after) == ("AlreadyExists", 'pods "a" already exists', 3.0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>\n  blocked </html>", "<html> blocked </html>"),
        (b"[]", "[]"),
        (b"", "Bad Gateway"),
        (b"\xff", "\ufffd"),
    ],
)
def test_what_is_no_status_is_told_in_one_line(body: bytes, message: str) -> None:
    refusal = parse_refusal(502, body)
    assert (refusal.reason, refusal.message, refusal.retry_after) == ("Bad Gateway", message, None)


def test_of_a_long_sentence_the_beginning_is_kept() -> None:
    body = b'{"message": "%s"}' % (b"x" * 5000)
    assert len(parse_refusal(422, body).message) == MAX_SERVER_MESSAGE


def test_a_field_that_cannot_be_read_is_as_if_it_were_not_there() -> None:
    status = read_status(TrialStatus, {"state": "HIBERNATING", "reason": "Training", "attempt": 2, "mood": "good"})
    assert (status.state, status.reason, status.attempt) == (None, "Training", 2)


def test_an_entry_that_cannot_be_read_does_not_hide_the_others() -> None:
    complete = {
        "type": "Complete",
        "status": "True",
        "reason": "Completed",
        "lastTransitionTime": "2024-05-01T12:00:00Z",
    }
    later = {**complete, "status": "Maybe"}
    status = read_status(ExperimentStatus, {"conditions": [later, complete], "best": 3, "message": "done"})
    assert [condition.reason for condition in status.conditions] == ["Completed"]
    assert (status.best, status.message) == (None, "done")


def test_a_list_that_is_none_is_as_if_it_were_not_there() -> None:
    status = read_status(ExperimentStatus, {"conditions": {"type": "Complete"}, "message": "done"})
    assert (status.conditions, status.message) == ([], "done")
