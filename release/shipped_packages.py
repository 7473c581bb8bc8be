"""Which packages each image holds: those of the locks that its stages install, less those that they remove again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from release.dockerfile import select_stages, split_stages

ROOT = Path(__file__).resolve().parents[1]
OURS = ("operator", "operator-gp", "agent", "dashboard", "dashboard-gp")
"""The targets of the Dockerfile that are released; the examples are for the local cluster."""

_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)
_INSTALLED = re.compile(r"^COPY requirements/([\w-]+\.txt) ", re.MULTILINE)
_REMOVED = re.compile(r"\brm -r ((?:[\w*-]+ ?)+)")


@dataclass(frozen=True, order=True)
class Package:
    """A Python package of one version."""

    name: str
    version: str

    @property
    def url(self) -> str:
        """Its package URL, by which scanners know it."""
        return f"pkg:pypi/{self.name}@{self.version}"


def read_lock(path: Path) -> list[Package]:
    """Reads what a file of `requirements/` pins."""
    pinned = _PINNED.findall(path.read_text(encoding="utf-8"))
    return sorted(Package(normalize(name), version) for name, version in pinned)


def normalize(name: str) -> str:
    """Writes a package's name as indexes do."""
    return re.sub(r"[-_.]+", "-", name).lower()


def list_packages(target: str, root: Path = ROOT) -> list[Package]:
    """Lists the packages that an image holds besides those of its base.

    Args:
        target: The image's target in the Dockerfile.
        root: The repository.
    """
    packages: dict[str, Package] = {}
    for stage in split_stages(select_stages((root / "Dockerfile").read_text(encoding="utf-8"), target)):
        for lock in _INSTALLED.findall(stage):
            packages |= {package.name: package for package in read_lock(root / "requirements" / lock)}
        for removed in _REMOVED.findall(stage):
            # Folders are removed together with what says that they are installed: `mako mako-*`.
            for name in (word.removesuffix("-*") for word in removed.split() if word.endswith("-*")):
                packages.pop(normalize(name), None)
    return sorted(packages.values())
