"""Findings of scanners are excused by a reason that still holds, or are errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.scans.findings import Exemption, Finding, compare, read_exceptions
from e2e.scans.scanners import read_checkov, read_kube_score

EXCEPTIONS = Path(__file__).parents[3] / "e2e" / "scans" / "exceptions.yaml"


def test_each_exception_is_for_one_of_the_scanners_and_says_why() -> None:
    exemptions = read_exceptions(EXCEPTIONS)
    assert {exemption.scanner for exemption in exemptions} <= {"checkov", "kube-score"}
    assert [e.check for e in exemptions if len(e.reason) < 30] == []
    assert [e.check for e in exemptions if "*" in e.subjects] == [], "name what is meant"


def test_an_exception_without_a_reason_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "exceptions.yaml"
    file.write_text("- {scanner: checkov, check: CKV_1, subjects: [a], reason: ''}\n")
    with pytest.raises(ValueError, match="CKV_1 has no reason"):
        read_exceptions(file)


def test_what_nothing_excuses_and_what_excuses_nothing_is_told() -> None:
    found = [Finding("checkov", "CKV_1", "Pod/a", "it is red"), Finding("checkov", "CKV_1", "Pod/b", "it is red")]
    assert list(compare(found, [Exemption("checkov", "CKV_1", ["Pod/*"], "red is meant")])) == []
    told = list(compare(found, [Exemption("checkov", "CKV_1", ["Pod/a"], "red"), Exemption("kube-score", "x", [], "")]))
    assert told == [
        "checkov CKV_1 fails for Pod/b: it is red",
        "exceptions.yaml: kube-score x does not fail; take the exemption out",
    ]


def test_answers_of_kube_score_are_read() -> None:
    judged = {
        "type_meta": {"kind": "Deployment"},
        "object_meta": {"name": "podtune"},
        "checks": [
            {"check": {"id": "good", "comment": ""}, "grade": 10, "skipped": False, "comments": None},
            {"check": {"id": "skipped", "comment": ""}, "grade": 1, "skipped": True, "comments": None},
            {"check": {"id": "bad", "comment": "c"}, "grade": 5, "skipped": False, "comments": [{"summary": "why"}]},
        ],
    }
    assert list(read_kube_score([judged])) == [Finding("kube-score", "bad", "Deployment/podtune", "why")]


def test_answers_of_checkov_are_read() -> None:
    failed = [
        {"check_id": "CKV_K8S_1", "check_name": "why", "resource": "Deployment.tuning.podtune"},
        {"check_id": "CKV_DOCKER_1", "check_name": "why", "resource": "/somewhere/Dockerfile.FROM"},
    ]
    assert list(read_checkov({"results": {"failed_checks": failed}})) == [
        Finding("checkov", "CKV_K8S_1", "Deployment/podtune", "why"),
        Finding("checkov", "CKV_DOCKER_1", "Dockerfile.FROM", "why"),
    ]
