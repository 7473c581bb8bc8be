"""Compares what the chart grants with what has been asked for: `python -m e2e.scans.rights`, after the e2e tests.

The local cluster's audit log has each request of the accounts of a release: of its operator, its dashboard, and what
`helm test` runs. A request that was refused is a right that the chart lacks, and a log without any request of the
cluster's own operator tells nothing: both are errors.

With `--unused`, a right that nothing has used is an error, too: it is one too many, or a test is missing. Some rights
are used by long tests alone, so `make test-long` looks for these, in what `make e2e` before it and the long tests have
asked for.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from docs.generate_rights import SCOPES, TEMPLATES, rules
from e2e.devcluster import Cluster
from e2e.devcluster.node.control_plane import AUDIT_POLICY
from e2e.install import OPERATOR_NAMESPACE, RELEASE

OPERATOR = f"system:serviceaccount:{OPERATOR_NAMESPACE}:{RELEASE}"
"""The operator that the cluster has all the time, as the API server knows it."""
OWN_ACCOUNTS = f"system:serviceaccount:{OPERATOR_NAMESPACE}:"
"""What the accounts of the release begin with that the cluster has all the time."""
LAST_SECONDS = 60.0
"""How long before its last request another release's account may be refused.

Other releases come and go with a test. Their rights go before their pods do, and what these ask for in their last
moment is refused.
"""
OPTIONAL_RECORDS = re.compile("-operator-(webhook-.*|traces)")
"""What follows the release in names of ConfigMaps that an operator keeps only where there are webhooks or traces.

Where an upgrade takes these out, the right goes before the operator that still has it. That one is refused what it
writes last, and nobody needs it.
"""
_HELM_TEST = TEMPLATES / "tests" / "smoke-test.yaml"


class Right(NamedTuple):
    """A verb on a resource of an API group, with its subresource behind a slash."""

    verb: str
    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f" of {self.group}" if self.group else "")


_ASKED_ABOUT = "asked about by the admission plugin OwnerReferencesPermissionEnforcement, which is no request"
WITHOUT_REQUESTS = {
    Right("update", "podtune.dev", "experiments/finalizers"): _ASKED_ABOUT,
    Right("update", "podtune.dev", "trials/finalizers"): _ASKED_ABOUT,
    Right("delete", "podtune.dev", "trials"): _ASKED_ABOUT,
    Right(
        "get", "apps", "controllerrevisions"
    ): "used where an operator ended before it wrote down that it had made one",
    Right("get", "podtune.dev", "trials"): "used where somebody else writes a Trial in the moment in which it does",
}
"""Rights that the requests of all tests together need not show, each with the reason."""


@dataclass(frozen=True)
class Party:
    """Whose rights the chart grants.

    Attributes:
        name: Who it is, in messages.
        account: Its service account, of a release of any name.
        list_granted: Lists its rights.
    """

    name: str
    account: re.Pattern[str]
    list_granted: Callable[[], Iterator[Right]]


def list_rights_of(file: Path) -> Iterator[Right]:
    """Lists the rights that a file of the chart's templates grants by its lists of rules."""
    template = file.read_text(encoding="utf-8")
    for name in SCOPES[file]:
        for _, rule in rules(template, name):
            yield from _list_rights(rule)


def list_rights_of_helm_test() -> Iterator[Right]:
    """Lists the rights of what `helm test` runs."""
    template = re.sub(r"\{\{.*?\}\}", "podtune", _HELM_TEST.read_text(encoding="utf-8"))
    (found,) = re.findall(r"^rules:\n(?:  .*\n)+", template, re.MULTILINE)
    for rule in yaml.safe_load(found)["rules"]:
        yield from _list_rights(rule)


def _list_rights(rule: Mapping[str, list[str]]) -> Iterator[Right]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield Right(verb, group, resource)


def _make_party(name: str, suffix: str, list_granted: Callable[[], Iterator[Right]]) -> Party:
    account = re.compile(rf"system:serviceaccount:[a-z0-9-]+:(?:[a-z0-9-]+-)?podtune{suffix}")
    return Party(name, account, list_granted)


PARTIES = (
    _make_party("the operator", "", lambda: list_rights_of(TEMPLATES / "_helpers.tpl")),
    _make_party("the dashboard", "-dashboard", lambda: list_rights_of(TEMPLATES / "dashboard" / "_helpers.tpl")),
    _make_party("helm test", "-test", list_rights_of_helm_test),
)


@dataclass(slots=True)
class Requests:
    """What a party was found to have asked for in the audit log.

    Attributes:
        used: How often each right was used.
        refused: How often a request was refused.
    """

    used: Counter[Right] = field(default_factory=Counter)
    refused: Counter[Right] = field(default_factory=Counter)


def find_party(user: str) -> Party | None:
    """Whose account it is; None for somebody else's."""
    return next((party for party in PARTIES if party.account.fullmatch(user)), None)


def read_requests(lines: Iterable[str], since: datetime) -> dict[str, Requests]:
    """Reads what each party has asked for from an audit log, from a moment on, by the party's name."""
    requests = {party.name: Requests() for party in PARTIES}
    refused: list[tuple[Party, str, datetime, Right]] = []
    last: dict[str, datetime] = {}
    for line in lines:
        if "system:serviceaccount:" not in line or "podtune" not in line:
            continue
        event = json.loads(line)
        user = event["user"]["username"]
        party = find_party(user)
        moment = datetime.fromisoformat(event["requestReceivedTimestamp"])
        if party is None or "objectRef" not in event or moment < since:
            continue
        last[user] = max(moment, last.get(user, moment))
        if not is_missing_right(event):
            requests[party.name].used[find_right(event)] += 1
        elif not is_of_optional_record(event):
            refused.append((party, user, moment, find_right(event)))
    for party, user, moment, right in refused:
        if user.startswith(OWN_ACCOUNTS) or (last[user] - moment).total_seconds() > LAST_SECONDS:
            requests[party.name].refused[right] += 1
    return requests


def find_right(event: Mapping[str, Any]) -> Right:
    """The right that a request needs."""
    reference = event["objectRef"]
    subresource = reference.get("subresource")
    resource = f"{reference['resource']}/{subresource}" if subresource else reference["resource"]
    return Right(event["verb"], reference.get("apiGroup", ""), resource)


def is_missing_right(event: Mapping[str, Any]) -> bool:
    """Whether a request was refused for want of a right; quotas and admission refuse with the same status."""
    return bool(event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid")


def is_of_optional_record(event: Mapping[str, Any]) -> bool:
    """Whether a request was about a record that the release may no longer keep; see OPTIONAL_RECORDS."""
    release = event["user"]["username"].rpartition(":")[2]
    reference = event["objectRef"]
    name = str(reference.get("name")).removeprefix(release)
    return reference["resource"] == "configmaps" and bool(OPTIONAL_RECORDS.fullmatch(name))


def report(requests: Mapping[str, Requests], *, with_unused: bool) -> list[str]:
    """Says what is wrong: a line for each refused request, and for each right without use if that counts."""
    problems = []
    for party in PARTIES:
        found = requests[party.name]
        unused = set(party.list_granted()) - set(found.used) - set(WITHOUT_REQUESTS) if with_unused else set()
        problems += [f"no test has {party.name} {right}: take the right away, or test it" for right in sorted(unused)]
        problems += [
            f"{party.name} was refused to {right} ({times} times): the chart lacks the right"
            for right, times in sorted(found.refused.items())
        ]
    if not requests["the operator"].used:
        problems.append(
            "the operator has used 0 rights: the audit log has none of its requests; run this after make e2e"
        )
    return problems


def is_policy_current(log: Path) -> bool:
    """Whether the API server that writes an audit log was started with today's policy, and logs what is looked for."""
    return bool(json.loads((log.parent / "policy.json").read_text(encoding="utf-8")) == AUDIT_POLICY)


def main() -> int:
    """Runs the comparison; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--since", type=datetime.fromisoformat, default=datetime.fromtimestamp(0, UTC))
    parser.add_argument("--unused", action="store_true", help="a right that was not used is an error, too")
    options = parser.parse_args()
    log = Cluster.connect().audit_log
    with log.open(encoding="utf-8") as lines:
        requests = read_requests(lines, options.since)
    problems = report(requests, with_unused=options.unused)
    if options.unused and not is_policy_current(log):
        problems.append(
            "the cluster's audit policy is an earlier one, which logs less: make down, and run the tests anew"
        )
    for problem in problems:
        print(problem, file=sys.stderr)
    for name, found in requests.items():
        print(f"{name} has used {len(found.used)} rights, and was refused {len(found.refused)}")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
