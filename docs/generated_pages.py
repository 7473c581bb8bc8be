"""Pages that are made of something else: written, or compared with what they would be."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def dump_yaml(document: object) -> str:
    """A document as YAML, in which texts of several lines, such as scripts, can be read."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=110)


def write_or_check(description: str, pages: Mapping[Path, str]) -> int:
    """Does what the command line says, --write or --check; returns the exit code.

    Args:
        description: What the pages are.
        pages: The text that each should have.
    """
    parser = argparse.ArgumentParser(description=description)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", action="store_true", help="write the pages")
    mode.add_argument("--check", action="store_true", help="fail when a page is not what it is made of")
    write = parser.parse_args().write
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if write:
            path.write_text(pages[path], encoding="utf-8")
        else:
            script = Path(sys.argv[0]).name
            print(f"{path.relative_to(ROOT)} is out of date; run python docs/{script} --write", file=sys.stderr)
    return 0 if write else int(bool(stale))
