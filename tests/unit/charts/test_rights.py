"""Rights that no test uses, and requests that were refused, are found in an audit log."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from e2e.scans.rights import OPERATOR, WITHOUT_REQUESTS, Right, list_granted, read_rights, report

START = datetime(2026, 11, 1, tzinfo=UTC)


def event(
    verb: str, resource: str, *, name: str = "", user: str = OPERATOR, decision: str = "allow", later: float = 1.0
) -> str:
    """A line of an audit log."""
    kind, _, subresource = resource.partition("/")
    reference = {"resource": kind, **({"subresource": subresource} if subresource else {})}
    return json.dumps(
        {
            "verb": verb,
            "user": {"username": user},
            "objectRef": reference | ({"name": name} if name else {}),
            "annotations": {"authorization.k8s.io/decision": decision},
            "requestReceivedTimestamp": (START + timedelta(seconds=later)).isoformat().replace("+00:00", "Z"),
        }
    )


def events_of_all_rights() -> list[str]:
    return [event(*right) for right in set(list_granted()) - {Right(*right) for right in WITHOUT_REQUESTS}]


def test_where_all_rights_are_used_nothing_is_said() -> None:
    assert report(read_rights(events_of_all_rights(), START), with_unused=True) == []


def test_a_right_that_nothing_uses_is_named() -> None:
    used = [line for line in events_of_all_rights() if line != event("deletecollection", "pods")]
    assert report(read_rights(used, START), with_unused=True) == [
        "no test has the operator deletecollection pods: take the right away, or test it"
    ]


def test_what_others_do_and_what_was_before_does_not_count() -> None:
    others = [event("get", "secrets", user="kubernetes-admin"), event("get", "secrets", later=-1.0)]
    assert read_rights(others, START).used == {}


def test_a_request_without_the_right_is_named() -> None:
    refused = [*events_of_all_rights(), event("get", "secrets", decision="forbid")]
    assert report(read_rights(refused, START), with_unused=False) == [
        "the operator was refused to get secrets (1 times): the chart lacks the right"
    ]


def test_a_receiver_that_was_taken_out_of_the_release_may_have_its_last_word_refused() -> None:
    refused = [
        event("update", "configmaps", name="podtune-operator-webhook-tracker", decision="forbid"),
        event("update", "configmaps", name="of-a-tenant", decision="forbid"),
    ]
    assert report(read_rights(refused, START), with_unused=False) == [
        "the operator was refused to update configmaps (1 times): the chart lacks the right"
    ]
