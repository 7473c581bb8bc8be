from __future__ import annotations

import pytest

from podtune.kube.errors import ApiRefusal, ResourceConflict, ResourceExists, ResourceNotFound, make_refusal


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (404, "NotFound", ResourceNotFound),
        (404, "", ResourceNotFound),
        (409, "AlreadyExists", ResourceExists),
        (409, "Conflict", ResourceConflict),
        (409, "", ResourceConflict),
        (403, "Forbidden", ApiRefusal),
        (500, "InternalError", ApiRefusal),
    ],
)
def test_a_refusal_is_of_the_kind_that_status_and_reason_say(status: int, reason: str, kind: type[ApiRefusal]) -> None:
    refusal = make_refusal(status, reason, "so it is", 3.0)
    assert type(refusal) is kind
    assert (refusal.status, refusal.reason, refusal.message, refusal.retry_after) == (status, reason, "so it is", 3.0)
    assert str(refusal) == f"{status} {reason}: so it is"


@pytest.mark.parametrize(
    ("status", "message", "retry_after", "transient"),
    [
        (503, "busy", None, True),
        (429, "slow down", None, True),
        (403, "later", 5.0, True),
        (403, "no", None, False),
        (413, "too large", 5.0, False),
        (500, "etcdserver: request is too large", None, False),
    ],
)
def test_what_may_succeed_later_is_transient(
    status: int, message: str, retry_after: float | None, transient: bool
) -> None:
    assert make_refusal(status, "", message, retry_after).is_transient is transient
