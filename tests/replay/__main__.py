"""Replays recorded histories through the reference implementations: `make replay`, or `python -m tests.replay`.

Each golden file in tests/unit/tuning/golden holds histories and what the reference decided on them. This command makes
the histories again, asks the reference again, and fails where a golden file says something else; with `--write` it
writes the files instead. The plain test run compares Podtune with the golden files and needs none of the references.

Ray comes with many packages, so it is no dependency of the development environment. Where it is missing, the command
runs itself in an environment of its own, made by uv from requirements/replay.txt and kept in uv's cache.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
REQUIREMENTS = REPOSITORY / "requirements" / "replay.txt"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.replay", description="Replays histories through Ray Tune.")
    parser.add_argument("--write", action="store_true", help="write the golden files instead of comparing them")
    arguments = parser.parse_args()
    if importlib.util.find_spec("ray") is None:
        return run_with_references(sys.argv[1:])
    return replay(write=arguments.write)


def run_with_references(arguments: list[str]) -> int:
    """Runs this command again where the reference implementations are installed."""
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        sys.exit(f"uv is neither beside {sys.executable} nor on the PATH; install it: pip install uv")
    command = [uv, "run", "--quiet", "--no-project", "--isolated", "--python", sys.executable]
    command += ["--with-requirements", str(REQUIREMENTS), "python", "-m", "tests.replay", *arguments]
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "operator")])
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False).returncode


def replay(*, write: bool) -> int:
    """Replays all histories; 1 where a golden file differs."""
    from tests.replay import asha, golden

    replays = {"asha": asha.replay}
    failed = False
    for name, histories in replays.items():
        replayed = histories()
        file = golden.path(name).relative_to(REPOSITORY)
        if write:
            golden.write(name, replayed)
            print(f"{name}: {len(replayed)} histories written to {file}")
        elif golden.encode(replayed) == golden.encode(golden.read(name)):
            print(f"{name}: {len(replayed)} histories replayed, every decision is as in {file}")
        else:
            failed = True
            print(f"{name}: the reference decides otherwise than {file} says; find out why, then run with --write")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
