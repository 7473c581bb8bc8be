"""Replays recorded histories through the reference implementations: `make replay`, or `python -m tests.golden`.

Each golden file in tests/golden/histories holds histories and what the reference decided on them. This command makes
the histories again, asks the reference again, and fails where a golden file says something else; with `--write` it
writes the files instead. The plain test run compares Podtune with the golden files and needs none of the references.

A reference comes with many packages, and one that another one can't stand, so none is a dependency of the development
environment. For each the command runs itself in an environment of its own, made by uv from the file in requirements/
that belongs to it, and kept in uv's cache.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
REQUIREMENTS = {"ray": "replay.txt", "syne_tune": "replay-syne-tune.txt"}
"""The references' packages, with what is installed to import each."""
REPLAYS = {
    "asha": "ray",
    "asha_promotion": "syne_tune",
    "hyperband": "ray",
    "bohb": "ray",
    "median": "ray",
    "pbt": "ray",
    "stoppers": "ray",
}
"""The modules of this package that make histories, with the reference that each asks."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description="Replays histories through references.")
    parser.add_argument("--write", action="store_true", help="write the golden files instead of comparing them")
    parser.add_argument("--reference", choices=REQUIREMENTS, help="replay what asks this one only")
    parser.add_argument("replays", nargs="*", metavar="replay", help=f"of {', '.join(REPLAYS)}; all when none is named")
    arguments = parser.parse_args()
    names = arguments.replays or list(REPLAYS)
    if unknown := set(names) - REPLAYS.keys():
        parser.error(f"no such replay: {', '.join(sorted(unknown))}; there are {', '.join(REPLAYS)}")
    status = 0
    for reference in REQUIREMENTS:
        asked = [name for name in names if REPLAYS[name] == reference]
        if not asked or arguments.reference not in (None, reference):
            continue
        if importlib.util.find_spec(reference) is None:
            flags = ["--write"] if arguments.write else []
            status |= run_with_reference(reference, [*flags, "--reference", reference, *asked])
        else:
            status |= replay(asked, write=arguments.write)
    return status


def run_with_reference(reference: str, arguments: list[str]) -> int:
    """Runs this command again where a reference implementation is installed."""
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        sys.exit(f"uv is neither beside {sys.executable} nor on the PATH; install it: pip install uv")
    requirements = REPOSITORY / "requirements" / REQUIREMENTS[reference]
    command = [uv, "run", "--quiet", "--no-project", "--isolated", "--python", sys.executable]
    command += ["--with-requirements", str(requirements), "python", "-m", "tests.golden", *arguments]
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "operator")])
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False).returncode


def replay(names: list[str], *, write: bool) -> int:
    """Replays histories; 1 where a golden file differs."""
    from tests.golden import files

    failed = False
    for name in names:
        replayed = importlib.import_module(f"tests.golden.replays.{name}").replay()
        file = files.path(name).relative_to(REPOSITORY)
        if write:
            files.write(name, replayed)
            print(f"{name}: {len(replayed)} histories written to {file}")
        elif files.encode(replayed) == files.encode(files.read(name)):
            print(f"{name}: {len(replayed)} histories replayed, every decision is as in {file}")
        else:
            failed = True
            print(f"{name}: the reference decides otherwise than {file} says; find out why, then run with --write")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
