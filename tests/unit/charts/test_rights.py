"""Rights that no test uses, and requests that were refused, are found in an audit log."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from docs.generate_rights import SCOPES
from e2e.devcluster.node.control_plane import AUDIT_POLICY
from e2e.scans.rights import (
    OPERATOR,
    PARTIES,
    WITHOUT_REQUESTS,
    Right,
    find_party,
    is_policy_current,
    list_rights_of,
    read_requests,
    report,
)

START = datetime(2026, 11, 1, tzinfo=UTC)
ACCOUNTS = {
    "the operator": OPERATOR,
    "the dashboard": "system:serviceaccount:e2e-1234:podtune-dashboard",
    "helm test": "system:serviceaccount:podtune-system:podtune-test",
}
GET_SECRETS = Right("get", "", "secrets")


def event(right: Right, *, name: str = "", user: str = OPERATOR, decision: str = "allow", later: float = 1.0) -> str:
    """A line of an audit log."""
    kind, _, subresource = right.resource.partition("/")
    given = {"subresource": subresource, "apiGroup": right.group, "name": name}
    return json.dumps(
        {
            "verb": right.verb,
            "user": {"username": user},
            "objectRef": {"resource": kind, **{key: value for key, value in given.items() if value}},
            "annotations": {"authorization.k8s.io/decision": decision},
            "requestReceivedTimestamp": (START + timedelta(seconds=later)).isoformat().replace("+00:00", "Z"),
        }
    )


def events_of_all_rights() -> list[str]:
    return [
        event(right, user=ACCOUNTS[party.name])
        for party in PARTIES
        for right in sorted(set(party.list_granted()) - set(WITHOUT_REQUESTS))
    ]


def check(lines: list[str], *, with_unused: bool = True) -> list[str]:
    return report(read_requests(lines, START), with_unused=with_unused)


def test_where_all_rights_are_used_nothing_is_said() -> None:
    assert check(events_of_all_rights()) == []


@pytest.mark.parametrize("party", PARTIES, ids=lambda party: party.name)
def test_a_right_that_nothing_uses_is_named(party: object) -> None:
    (found,) = (one for one in PARTIES if one is party)
    right = min(set(found.list_granted()) - set(WITHOUT_REQUESTS))
    used = [line for line in events_of_all_rights() if line != event(right, user=ACCOUNTS[found.name])]
    assert check(used) == [f"no test has {found.name} {right}: take the right away, or test it"]


def test_the_same_resource_of_another_group_is_another_right() -> None:
    asked = event(Right("create", "events.k8s.io", "events"))
    in_core = event(Right("create", "", "events"))
    lines = [in_core if line == asked else line for line in events_of_all_rights()]
    assert check(lines) == ["no test has the operator create events of events.k8s.io: take the right away, or test it"]


def test_an_empty_log_tells_nothing_and_is_an_error() -> None:
    (problem,) = check([], with_unused=False)
    assert problem.startswith("the operator has used 0 rights")
    assert check([event(GET_SECRETS, later=-1.0)], with_unused=False) == [problem]
    assert check([event(GET_SECRETS, user="kubernetes-admin")], with_unused=False) == [problem]


def test_accounts_of_any_release_are_known() -> None:
    names = {name: find_party(f"system:serviceaccount:e2e-1:{name}") for name in (
        "podtune", "upgraded-podtune", "upgraded-podtune-dashboard", "podtune-test", "podtune-s3", "default",
    )}  # fmt: skip
    assert {name: party.name if party else "" for name, party in names.items()} == {
        "podtune": "the operator",
        "upgraded-podtune": "the operator",
        "upgraded-podtune-dashboard": "the dashboard",
        "podtune-test": "helm test",
        "podtune-s3": "",
        "default": "",
    }


def test_what_is_granted_only_by_a_value_counts_as_well() -> None:
    """The long tests set each of these values."""
    (file, _) = SCOPES
    granted = set(list_rights_of(file))
    assert Right("create", "authorization.k8s.io", "selfsubjectaccessreviews") in granted
    assert Right("update", "", "configmaps") in granted


def test_a_request_without_the_right_is_named() -> None:
    refused = [*events_of_all_rights(), event(Right("delete", "", "secrets"), decision="forbid")]
    assert check(refused, with_unused=False) == [
        "the operator was refused to delete secrets (1 times): the chart lacks the right"
    ]


def test_a_release_that_a_test_takes_away_may_be_refused_what_it_asks_for_last() -> None:
    """Its rights go before its pod does."""
    user = "system:serviceaccount:e2e-1:upgraded-podtune"
    refused = event(GET_SECRETS, user=user, decision="forbid", later=100.0)
    last = event(Right("list", "", "pods"), user=user, later=130.0)
    assert check([*events_of_all_rights(), refused, last], with_unused=False) == []


def test_a_release_that_goes_on_after_a_refusal_lacks_a_right() -> None:
    user = "system:serviceaccount:e2e-1:upgraded-podtune"
    refused = event(GET_SECRETS, user=user, decision="forbid", later=100.0)
    last = event(Right("list", "", "pods"), user=user, later=200.0)
    assert check([*events_of_all_rights(), refused, last], with_unused=False) == [
        "the operator was refused to get secrets (1 times): the chart lacks the right"
    ]


@pytest.mark.parametrize("record", ["podtune-operator-webhook-tracker", "podtune-operator-traces"])
def test_what_was_taken_out_of_the_release_may_be_refused_what_it_asks_for_last(record: str) -> None:
    right = Right("update", "", "configmaps")
    refused = [
        event(right, name=record, decision="forbid"),
        event(right, name="of-a-tenant", decision="forbid"),
    ]
    assert check([*events_of_all_rights(), *refused], with_unused=False) == [
        "the operator was refused to update configmaps (1 times): the chart lacks the right"
    ]


@pytest.mark.parametrize(
    ("user", "verb", "is_logged"),
    [
        (OPERATOR, "watch", True),
        (ACCOUNTS["the dashboard"], "list", True),
        ("system:serviceaccount:kube-system:coredns", "list", False),
        ("system:serviceaccount:kube-system:namespace-controller", "delete", True),
        ("podtune-e2e-admin", "get", False),
        ("podtune-e2e-admin", "create", True),
    ],
)
def test_what_is_compared_is_in_the_log_and_little_else(user: str, verb: str, *, is_logged: bool) -> None:
    groups = {"system:serviceaccounts", ":".join(("system:serviceaccounts", *user.split(":")[2:3]))}
    groups = groups if user.startswith("system:serviceaccount:") else set()
    rules: list[dict[str, object]] = AUDIT_POLICY["rules"]  # type: ignore[assignment]
    level = next(
        rule["level"]
        for rule in rules
        if verb in rule.get("verbs", [verb])  # type: ignore[operator]
        and ("userGroups" not in rule or groups & set(rule["userGroups"]))  # type: ignore[call-overload]
    )
    assert (level == "Metadata") is is_logged


def test_a_cluster_that_logs_by_an_earlier_policy_is_told_from_one_of_today(tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(AUDIT_POLICY))
    assert is_policy_current(tmp_path / "audit.log")
    policy.write_text(json.dumps({**AUDIT_POLICY, "rules": []}))
    assert not is_policy_current(tmp_path / "audit.log")
