"""Compares what the operator may do with what it has done: `python -m e2e.scans.rights`, after the e2e tests.

The local cluster's audit log has each request of the operator's service account. A request that was refused is a right
that the chart lacks. With `--unused`, a right that nothing has used is an error, too: it is one too many, or a test is
missing. Some are used by long tests alone, or once in the life of a cluster.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from docs.generate_rights import SCOPES, TEMPLATES, rules
from e2e.devcluster import Cluster
from e2e.install import OPERATOR_NAMESPACE, RELEASE

OPERATOR = f"system:serviceaccount:{OPERATOR_NAMESPACE}:{RELEASE}"
"""The operator, as the API server knows it."""
WITHOUT_REQUESTS = {
    ("update", "experiments/finalizers"): "looked at by an admission plugin that the local cluster does not run",
    ("update", "trials/finalizers"): "looked at by an admission plugin that the local cluster does not run",
    ("update", "secrets"): "used when the operator is installed first, and then every other year",
    (
        "get",
        "controllerrevisions",
    ): "used where an operator ended after it had made one, before it wrote so down",
    ("delete", "persistentvolumeclaims"): "used by a long test, e2e/tests/checkpoints/test_scratch.py",
}
"""Rights that the requests of an everyday run need not show, each with the reason."""
RECEIVER_RECORDS = f"{RELEASE}-operator-webhook-"
"""What the names of the ConfigMaps begin with that keep how far receivers of webhooks have heard.

Where an upgrade takes a receiver out, its right goes before the operator that still serves it. That one is refused what
it writes last, and nobody needs it.
"""
OPTIONAL = frozenset({"podtune.webhookRules", "podtune.tracingRules", "podtune.optInRules"})
"""Lists of rules that the chart grants only where a value asks for them, which that of the tests does not."""


class Right(NamedTuple):
    """A verb on a resource, with its subresource behind a slash."""

    verb: str
    resource: str


class Rights(NamedTuple):
    """What was found in the audit log.

    Attributes:
        used: How often each right was used.
        refused: How often the operator was refused a request.
    """

    used: Counter[Right]
    refused: Counter[Right]


def list_granted() -> Iterator[Right]:
    """Lists the rights that the chart grants to the operator."""
    file = TEMPLATES / "_helpers.tpl"
    template = file.read_text(encoding="utf-8")
    for name in SCOPES[file].keys() - OPTIONAL:
        for _, rule in rules(template, name):
            for resource in rule.get("resources", ()):
                for verb in rule["verbs"]:
                    yield Right(verb, resource)


def read_rights(lines: Iterable[str], since: datetime) -> Rights:
    """Reads the operator's requests from an audit log, those from a moment on."""
    rights = Rights(Counter(), Counter())
    for line in lines:
        if OPERATOR not in line:
            continue
        event = json.loads(line)
        if event["user"]["username"] != OPERATOR or "objectRef" not in event:
            continue
        if datetime.fromisoformat(event["requestReceivedTimestamp"]) < since:
            continue
        if not is_missing_right(event):
            rights.used[find_right(event)] += 1
        elif not is_of_former_receiver(event):
            rights.refused[find_right(event)] += 1
    return rights


def find_right(event: Mapping[str, Any]) -> Right:
    """The right that a request needs."""
    reference = event["objectRef"]
    subresource = reference.get("subresource")
    return Right(event["verb"], f"{reference['resource']}/{subresource}" if subresource else reference["resource"])


def is_missing_right(event: Mapping[str, Any]) -> bool:
    """Whether a request was refused for want of a right; quotas and admission refuse with the same status."""
    return bool(event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid")


def is_of_former_receiver(event: Mapping[str, Any]) -> bool:
    """Whether a request was about a receiver of webhooks that the release no longer has; see RECEIVER_RECORDS."""
    reference = event["objectRef"]
    return reference["resource"] == "configmaps" and str(reference.get("name")).startswith(RECEIVER_RECORDS)


def report(rights: Rights, *, with_unused: bool) -> list[str]:
    """Says what is wrong: a line for each refused request, and for each right without use if that counts."""
    granted = set(list_granted()) if with_unused else set()
    unused = sorted(granted - set(rights.used) - {Right(*right) for right in WITHOUT_REQUESTS})
    return [
        *(
            f"no test has the operator {right.verb} {right.resource}: take the right away, or test it"
            for right in unused
        ),
        *(
            f"the operator was refused to {right.verb} {right.resource} ({times} times): the chart lacks the right"
            for right, times in sorted(rights.refused.items())
        ),
    ]


def main() -> int:
    """Runs the comparison; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--since", type=datetime.fromisoformat, default=datetime.fromtimestamp(0, UTC))
    parser.add_argument("--unused", action="store_true", help="a right that was not used is an error, too")
    options = parser.parse_args()
    log = Cluster.connect().audit_log
    with log.open(encoding="utf-8") as lines:
        rights = read_rights(lines, options.since)
    problems = report(rights, with_unused=options.unused)
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"the operator has used {len(rights.used)} rights, and was refused nothing")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
