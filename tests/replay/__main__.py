"""Replays recorded histories through the reference implementations: `make replay`, or `python -m tests.replay`.

Each golden file in tests/unit/tuning/golden holds histories and what the reference decided on them. This command makes
the histories again, asks the reference again, and fails where a golden file says something else; with `--write` it
writes the files instead. The plain test run compares Podtune with the golden files and needs none of the references.

Ray comes with many packages, so it is no dependency of the development environment:

    uv run --no-project --python 3.11 --with 'ray[tune]==2.60.0' --with pydantic python -m tests.replay
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "operator"))

from tests.replay import asha, golden

REPLAYS = {"asha": asha.replay}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.replay", description="Replays histories through Ray Tune.")
    parser.add_argument("--write", action="store_true", help="write the golden files instead of comparing them")
    arguments = parser.parse_args()
    failed = False
    for name, replay in REPLAYS.items():
        replayed = replay()
        if arguments.write:
            golden.write(name, replayed)
            print(f"{name}: {len(replayed)} histories written to {golden.path(name)}")
        elif golden.encode(replayed) == golden.encode(golden.read(name)):
            print(f"{name}: {len(replayed)} histories replayed, every decision as in {golden.path(name)}")
        else:
            failed = True
            print(
                f"{name}: the reference decides otherwise than {golden.path(name)} says; see what changed, then --write"
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
