"""What scanners have found, and the reasons why some of it is as it should be."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import yaml


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A check that has failed.

    Attributes:
        scanner: Which scanner has made it.
        check: Its id there.
        subject: The object, such as `Deployment/podtune`, or the file.
        words: What the scanner says.
    """

    scanner: str
    check: str
    subject: str
    words: str


@dataclass(frozen=True, slots=True)
class Exemption:
    """Why checks fail and nothing is wrong.

    Attributes:
        scanner: Which scanner's.
        check: The check.
        subjects: Patterns of the subjects that it is excused for.
        reason: Why, in a sentence.
    """

    scanner: str
    check: str
    subjects: Sequence[str]
    reason: str

    def excuses(self, finding: Finding) -> bool:
        """Whether a finding is one of those that are meant."""
        is_meant = (self.scanner, self.check) == (finding.scanner, finding.check)
        return is_meant and any(fnmatchcase(finding.subject, pattern) for pattern in self.subjects)


def read_exceptions(path: Path) -> list[Exemption]:
    """Reads the exemptions of a file.

    Raises:
        ValueError: One has no reason.
    """
    entries = [Exemption(**entry) for entry in yaml.safe_load(path.read_text(encoding="utf-8"))]
    for entry in entries:
        if not entry.reason.strip():
            raise ValueError(f"{path}: {entry.scanner} {entry.check} has no reason; write why it may fail")
    return entries


def compare(found: Collection[Finding], exemptions: Sequence[Exemption]) -> Iterator[str]:
    """Says what is wrong: findings that nothing excuses, and exemptions that excuse nothing."""
    for finding in sorted(found):
        if not any(exemption.excuses(finding) for exemption in exemptions):
            yield f"{finding.scanner} {finding.check} fails for {finding.subject}: {finding.words}"
    for exemption in exemptions:
        if not any(exemption.excuses(finding) for finding in found):
            yield f"exceptions.yaml: {exemption.scanner} {exemption.check} does not fail; take the exemption out"
