"""What a run has come to: for people, for programs, and as JUnit's XML, which CI systems read."""

from __future__ import annotations

import re
import textwrap
import xml.etree.ElementTree as xml
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from podtune import __version__
from podtune.cli.commands.conformance.checks import ConformanceCheck
from podtune.cli.commands.conformance.running import CheckReport, CheckState
from podtune.cli.commands.conformance.site import InstalledOperator
from podtune.cli.errors import CliError
from podtune.cli.views.columns import INDENT, MIN_MESSAGE, align_with_message

MARKS = {CheckState.PASSED: "passed ", CheckState.FAILED: "FAILED ", CheckState.SKIPPED: "skipped"}
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no document of XML may hold, such as the colours of a program's log."""
_SUITE = "podtune.conformance"


@dataclass(slots=True)
class RunReport:
    """A run.

    Attributes:
        operator: What was examined.
        kubernetes: Version of the cluster; empty where it does not say.
        namespace: Where the checks were run.
        begun: When.
        reports: Of the checks: first those that were skipped.
        seconds: How long all took.
    """

    operator: InstalledOperator
    kubernetes: str
    namespace: str
    begun: datetime
    reports: list[CheckReport] = field(default_factory=list)
    seconds: float = 0.0

    def count(self, state: CheckState) -> int:
        """How many checks have come to this."""
        return Counter(report.state for report in self.reports)[state]

    @property
    def heading(self) -> str:
        """What is examined, in a sentence."""
        version = self.operator.version or "unknown"
        cluster = f" on Kubernetes {self.kubernetes}" if self.kubernetes else ""
        return f"podtune {version}{cluster}, agents of {self.operator.image.name}; checks in namespace {self.namespace}"

    @property
    def summary(self) -> str:
        """What it has come to, in a line."""
        counts = ", ".join(f"{self.count(state)} {state}" for state in CheckState)
        return f"{counts} in {self.seconds:.0f} s"

    def collect_facts(self) -> dict[str, Any]:
        """For programs."""
        return {
            "passed": not self.count(CheckState.FAILED),
            "summary": {str(state): self.count(state) for state in CheckState},
            "startTime": self.begun.isoformat(timespec="seconds"),
            "seconds": round(self.seconds, 1),
            "operator": {
                "version": self.operator.version,
                "namespace": self.operator.home,
                "agentImage": self.operator.image.name,
            },
            "clientVersion": __version__,
            "kubernetesVersion": self.kubernetes,
            "namespace": self.namespace,
            "checks": [_collect_check(report) for report in self.reports],
        }


def _collect_check(report: CheckReport) -> dict[str, Any]:
    return {
        "name": report.check.name,
        "proves": report.check.proves,
        "state": str(report.state),
        "seconds": round(report.seconds, 1),
        "deadlineSeconds": report.check.deadline,
        "message": report.words,
        "evidence": list(report.evidence),
    }


def render_check(report: CheckReport, name_width: int, width: int | None) -> Iterator[str]:
    """The lines about one check.

    Args:
        report: How it went.
        name_width: Characters of the longest name of a check.
        width: Of the terminal; None for lines without an end.
    """
    left = f"{MARKS[report.state]}  {report.check.name.ljust(name_width)}  {report.seconds:3.0f} s  "
    yield from _hang(left, report.check.proves, width)
    for text in (report.words, *report.evidence):
        if text:
            yield from _hang(INDENT * 2 if text == report.words else INDENT * 3, text, width)


def _hang(left: str, text: str, width: int | None) -> list[str]:
    """A text behind the beginning of its first line; its next lines stand below it."""
    text = " ".join(text.split())
    if width is None:
        return [f"{left}{text}"]
    lines = textwrap.wrap(text, max(width - len(left), MIN_MESSAGE))
    return [f"{left if number == 0 else ' ' * len(left)}{line}" for number, line in enumerate(lines)]


def list_checks(checks: Sequence[ConformanceCheck], width: int | None) -> list[str]:
    """A table of what can be checked."""
    rows = [(check.name, f"{check.deadline:.0f} s", f"{check.proves}{_tell_needs(check)}") for check in checks]
    return align_with_message(("NAME", "DEADLINE", "PROVES"), rows, width)


def _tell_needs(check: ConformanceCheck) -> str:
    needs = sorted(str(need) for need in check.needs)
    return f" Needs {' and '.join(needs)}." if needs else ""


def collect_checks(checks: Sequence[ConformanceCheck]) -> Mapping[str, Any]:
    """The same for programs."""
    return {
        "items": [
            {
                "name": check.name,
                "proves": check.proves,
                "deadlineSeconds": check.deadline,
                "needs": sorted(str(need) for need in check.needs),
            }
            for check in checks
        ]
    }


def write_junit(run: RunReport, file: Path) -> None:
    """Writes a run as a test suite, each check a test case.

    Raises:
        CliError: The file can't be written.
    """
    counts = {"failures": run.count(CheckState.FAILED), "skipped": run.count(CheckState.SKIPPED), "errors": 0}
    numbers = {name: str(count) for name, count in {"tests": len(run.reports), **counts}.items()}
    began = run.begun.isoformat(timespec="seconds")
    suite = xml.Element("testsuite", {"name": _SUITE, **numbers, "time": f"{run.seconds:.1f}", "timestamp": began})
    properties = xml.SubElement(suite, "properties")
    told = {"podtune": run.operator.version, "agent image": run.operator.image.name, "kubernetes": run.kubernetes}
    for name, value in told.items():
        xml.SubElement(properties, "property", {"name": name, "value": value})
    for report in run.reports:
        facts = {"classname": _SUITE, "name": report.check.name, "time": f"{report.seconds:.1f}"}
        case = xml.SubElement(suite, "testcase", facts)
        message = {"message": _NO_XML.sub("", report.words)}
        if report.state is CheckState.FAILED:
            xml.SubElement(case, "failure", message).text = _NO_XML.sub("", "\n".join(report.evidence))
        elif report.state is CheckState.SKIPPED:
            xml.SubElement(case, "skipped", message)
    root = xml.Element("testsuites")
    root.append(suite)
    xml.indent(root)
    try:
        xml.ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise CliError(f"--junit: {file} can't be written: {error.strerror}; name another file") from error
