"""What the project says of its security, for programs: in the formats that these read, and true."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import pytest
import yaml

from release.charts import ELSEWHERE
from release.shipped_packages import OURS, ROOT, list_packages

INSIGHTS: dict[str, Any] = yaml.safe_load((ROOT / "SECURITY-INSIGHTS.yml").read_text(encoding="utf-8"))
VEX: dict[str, Any] = json.loads((ROOT / "podtune.openvex.json").read_text(encoding="utf-8"))
# Of version 2.2 of Security Insights: the fields of each object, those that are required with a *.
FIELDS = {
    "": "header* project* repository*",
    "header": "schema-version* last-updated* last-reviewed* url* comment project-si-source",
    "project": "name* administrators* repositories* vulnerability-reporting* homepage roadmap funding"
    " steward documentation",
    "project.administrators": "name* primary* affiliation email social",
    "project.repositories": "name* url* comment*",
    "project.documentation": "design detailed-guide code-of-conduct quickstart-guide release-process support-policy"
    " signature-verification",
    "project.vulnerability-reporting": "reports-accepted* bug-bounty-available* bug-bounty-program contact comment"
    " policy pgp-key in-scope out-of-scope",
    "repository": "status* url* accepts-change-request* accepts-automated-change-request* core-team* license* security*"
    " bug-fixes-only no-third-party-packages documentation release",
    "repository.core-team": "name* primary* affiliation email social",
    "repository.license": "url* expression*",
    "repository.documentation": "contributing-guide dependency-management-policy governance review-policy"
    " security-policy",
    "repository.release": "automated-pipeline* distribution-points* changelog license attestations",
    "repository.release.distribution-points": "uri* comment*",
    "repository.security": "assessments* champions tools",
    "repository.security.assessments": "self* third-party",
    "repository.security.assessments.self": "comment* name evidence date",
    "repository.security.tools": "name* type* rulesets* integration* results* version comment",
    "repository.security.tools.integration": "adhoc* ci* release*",
    "repository.security.tools.results": "adhoc ci release",
}
STATUSES = {"not_affected", "affected", "fixed", "under_investigation"}
JUSTIFICATIONS = {
    "component_not_present",
    "vulnerable_code_not_present",
    "vulnerable_code_not_in_execute_path",
    "vulnerable_code_cannot_be_controlled_by_adversary",
    "inline_mitigations_already_exist",
}


def list_objects(value: object, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        yield path, value
        for name, below in value.items():
            yield from list_objects(below, f"{path}.{name}".removeprefix("."))
    elif isinstance(value, list):
        for below in value:
            yield from list_objects(below, path)


def test_security_insights_have_the_fields_of_their_format() -> None:
    for path, found in list_objects(INSIGHTS):
        assert path in FIELDS, f"{path} is no object of the format"
        words = FIELDS[path].split()
        assert {word.removesuffix("*") for word in words if word.endswith("*")} <= found.keys(), path
        assert found.keys() <= {word.removesuffix("*") for word in words}, path
    assert INSIGHTS["header"]["schema-version"].startswith("2.")
    assert date.fromisoformat(INSIGHTS["header"]["last-updated"])
    assert INSIGHTS["repository"]["status"] in {"active", "WIP"}
    assert [person["primary"] for person in INSIGHTS["project"]["administrators"]] == [True]


def test_security_insights_point_to_files_that_are_there() -> None:
    text = (ROOT / "SECURITY-INSIGHTS.yml").read_text(encoding="utf-8")
    named = re.findall(rf"{ELSEWHERE}/blob/main/([\w./-]+)", text)
    assert len(named) > 10
    for path in named:
        assert (ROOT / path).is_file(), path
    addresses = re.findall(r"https?://[^\s,}\]]+", text)
    others = [address for address in addresses if not address.startswith((ELSEWHERE, "https://github.com/ossf/"))]
    assert not others, "the project has no other address"


def test_statements_on_vulnerabilities_have_the_fields_of_openvex() -> None:
    assert VEX.keys() == {"@context", "@id", "author", "role", "timestamp", "version", "statements"}
    assert VEX["@context"] == "https://openvex.dev/ns/v0.2.0"
    assert datetime.fromisoformat(VEX["timestamp"]).tzinfo is not None
    assert VEX["version"] >= 1
    assert VEX["statements"]
    for statement in VEX["statements"]:
        assert {"vulnerability", "products", "status"} <= statement.keys()
        assert re.fullmatch(r"(CVE-\d{4}-\d{4,}|GHSA(-\w{4}){3})", statement["vulnerability"]["name"])
        assert statement["status"] in STATUSES
        if statement["status"] == "not_affected":
            assert statement["justification"] in JUSTIFICATIONS
            assert statement["impact_statement"]
        if statement["status"] == "affected":
            assert statement["action_statement"]


@pytest.mark.parametrize("statement", VEX["statements"], ids=lambda statement: statement["vulnerability"]["name"])
def test_a_package_that_is_said_to_be_absent_is_in_no_image(statement: dict[str, Any]) -> None:
    products = [product["@id"] for product in statement["products"]]
    assert products == [f"pkg:oci/podtune-{target}" for target in OURS]
    runtime = re.split(r"^FROM ", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)[2]
    for product in statement["products"]:
        for part in product["subcomponents"]:
            name = part["@id"].removeprefix("pkg:pypi/")
            target = product["@id"].removeprefix("pkg:oci/podtune-")
            assert name not in {package.name for package in list_packages(target)}
            assert re.search(rf"rm -rf .*site-packages/{name}\*", runtime), "it came with the base image"


def test_no_page_names_an_address_to_write_to() -> None:
    for name in ("SECURITY.md", "SUPPORT.md", "GOVERNANCE.md", "SECURITY-INSIGHTS.yml"):
        assert not re.search(r"[\w.]+@[\w-]+\.\w+", (ROOT / name).read_text(encoding="utf-8"))
