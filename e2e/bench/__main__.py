"""`make bench` and `make bench-full`.

python -m e2e.bench [lifecycle] [results] … [tuner] [--full] [--json FILE]

Without --full all parts together take ten minutes, with it an hour. What is found is compared with the figures that
were committed last, e2e/bench/figures/operator.json; to commit new ones, have them written there, and have
docs/generate_performance.py make docs/performance.md of them. Parts that were not run stay as they are.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from e2e.bench.figures import DIRECTORY, Found, run_parts
from e2e.bench.fresh_process import in_fresh_process
from e2e.bench.measurement import Part, headlines
from e2e.bench.tuner import __main__ as tuner

COMMITTED = DIRECTORY / "operator.json"
CONSOLE = Console(width=None if sys.stdout.isatty() else 130, highlight=False)
PARTS = {
    "lifecycle": "on_cluster.lifecycle",
    "results": "operator.results",
    "growth": "operator.growth",
    "profile": "operator.profile",
    "kept": "operator.kept",
    "restart": "operator.restart",
    "reaction": "operator.reaction",
    "fairness": "operator.fairness",
    "agent": "sync.agent",
    "sync": "sync.sync",
    "short": "on_cluster.short",
    "start": "on_cluster.start",
    "dashboard": "dashboard.viewing",
    "local": "local.comparison",
}
"""Modules below this folder, each with a function `measure`."""
OUTSIDE = ("local",)
"""Parts that run when they are named: they install from a package index, which the cluster's network doesn't reach."""
TUNER = "tuner"
TUNER_ARGUMENTS = ["cost", "--ray-trials", "0", "--trials", "3000", "--asks", "5"]
"""Of the tuner's own benchmark, what takes a minute; in full it takes ten."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark; returns the exit code, 1 where a promise is not held."""
    options = _parser().parse_args(arguments)
    named = options.parts or [*(name for name in PARTS if name not in OUTSIDE), TUNER]
    parts = {name: partial(_measure, name, options.full) for name in named if name != TUNER}
    code = run_parts(parts, CONSOLE, committed=COMMITTED, headlines=headlines, file=options.json) if parts else 0
    if TUNER in named:
        code = max(code, tuner.main([] if options.full else TUNER_ARGUMENTS))
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.bench", description="What the operator and its parts cost.")
    parser.add_argument(
        "parts", nargs="*", choices=[*PARTS, TUNER, []], help=f"which; all but {', '.join(OUTSIDE)} when none is named"
    )
    parser.add_argument("--full", action="store_true", help="an hour in place of ten minutes")
    parser.add_argument("--json", type=Path, help="where to write the figures, those of the tuner aside")
    return parser


def _measure(name: str, full: bool) -> Found:
    CONSOLE.print(f"{name} …")
    begun = time.monotonic()
    part: Part = importlib.import_module(f"e2e.bench.{PARTS[name]}").measure
    found = in_fresh_process(part, full)
    CONSOLE.print(found.table())
    CONSOLE.print(f"{name} took {time.monotonic() - begun:.0f} s")
    return found.to_json(), found.problems


if __name__ == "__main__":
    sys.exit(main())
