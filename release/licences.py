"""Under which licences the packages are that our images hold.

`python -m release.licences --write` reads them from the packages that are installed here, and writes them to
`requirements/licences.json`; after `make lock` that is to be done again. What a release says of licences is read from
there, so that it needs nothing installed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from release.shipped_packages import OURS, ROOT, Package, list_packages, read_lock

FILE = ROOT / "requirements" / "licences.json"
ACCEPTED = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "ISC",
        "MIT",
        "MIT-0",
        "MPL-2.0",
        "PSF-2.0",
        "Zlib",
    }
)
"""Whoever distributes our images under Apache-2.0 may distribute what is under these, too."""
STATED = {
    "google-re2": "BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "python-dateutil": "Apache-2.0 OR BSD-3-Clause",
    "requests-oauthlib": "ISC",
    "scipy": "BSD-3-Clause",
    "tzdata": "Apache-2.0",
}
"""Read in the licence files of packages whose metadata leave it open."""
_SPELLINGS = {
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "isc license": "ISC",
    "mit license": "MIT",
    "python software foundation license": "PSF-2.0",
}


def find_licence(name: str) -> str | None:
    """Finds a package's licence, as an SPDX expression; None where it is neither stated nor installed here.

    Raises:
        ValueError: Its metadata leave open which one it is.
    """
    if name in STATED:
        return STATED[name]
    try:
        found = metadata(name)
    except PackageNotFoundError:
        return None
    classifiers = [text for text in found.get_all("Classifier") or () if text.startswith("License ::")]
    named: list[str] = [*(found.get_all("License-Expression") or ()), *(found.get_all("License") or ())]
    named += [text.rpartition(" :: ")[2] for text in classifiers]
    for text in named:
        expression = _SPELLINGS.get(text.strip().lower(), text.strip())
        if list_ids(expression) <= ACCEPTED:
            return expression
    raise ValueError(f"{name} says of its licence {named}: read its licence file, and add it to STATED")


def list_ids(expression: str) -> set[str]:
    """Lists the licences that an expression names."""
    words = expression.replace("(", " ").replace(")", " ").split()
    return {word for word in words if word not in ("AND", "OR")} if words else {expression}


def list_shipped(root: Path = ROOT) -> set[str]:
    """Lists the names of all packages that images hold, or that come with the command line."""
    images = {package.name for target in OURS for package in list_packages(target, root)}
    return images | {package.name for package in read_lock(root / "requirements" / "cli.txt")}


def find_all(names: Iterable[str]) -> dict[str, str]:
    """Finds the licences of packages.

    Raises:
        ValueError: One of them is not to be found.
    """
    licences = {name: find_licence(name) for name in sorted(names)}
    missing = [name for name, licence in licences.items() if licence is None]
    if missing:
        raise ValueError(f"not installed here, and not among STATED: {', '.join(missing)}; run make install")
    return {name: licence for name, licence in licences.items() if licence}


def read_licences(file: Path = FILE) -> dict[str, str]:
    """Reads the licences that were found, by package."""
    licences: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return licences


def write_list(packages: Iterable[Package], licences: Mapping[str, str]) -> str:
    """Writes packages with their licences as a page for people."""
    rows = [f"| {package.name} | {package.version} | {licences[package.name]} |" for package in sorted(packages)]
    return "\n".join(["| package | version | licence |", "|---|---|---|", *rows]) + "\n"


def main() -> int:
    """Writes the file, or compares it."""
    parser = argparse.ArgumentParser(prog="python -m release.licences", description="Finds licences of packages.")
    parser.add_argument("--write", action="store_true", help=f"write {FILE.name} instead of comparing it")
    arguments = parser.parse_args()
    text = json.dumps(find_all(list_shipped()), indent=1) + "\n"
    if arguments.write:
        FILE.write_text(text, encoding="utf-8")
    elif text != FILE.read_text(encoding="utf-8"):
        print(f"{FILE.relative_to(ROOT)} is not up to date: run python -m release.licences --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
