"""Draws docs/pictures/algorithms: how each search algorithm and scheduler decides, from simulated experiments.

`--write` writes them, as `make generate` does; tests/unit/docs/guides/test_algorithm_pages.py says which are stale.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
for source in (ROOT / "operator", ROOT):
    sys.path.insert(0, str(source))

from docs.algorithm_pictures import schedulers, searchers  # noqa: E402
from docs.algorithm_pictures.svg import Drawing  # noqa: E402
from docs.generated_pages import write_or_check  # noqa: E402

FOLDER = ROOT / "docs" / "pictures" / "algorithms"
DRAWN: Mapping[str, Callable[[], Drawing]] = {
    "asha": schedulers.draw_asha,
    "asha-promotion": schedulers.draw_asha_promotion,
    "median": schedulers.draw_median,
    "hyperband": schedulers.draw_hyperband,
    "pbt": schedulers.draw_pbt,
    "pb2": schedulers.draw_pb2,
    "bohb": searchers.draw_bohb,
    "even-searches": searchers.draw_even_searches,
    "tpe": searchers.draw_tpe,
    "gp": searchers.draw_gp,
    "cmaes": searchers.draw_cmaes,
    "nsga": searchers.draw_nsga,
}
"""The pictures by the name of their file."""


def main() -> int:
    """Writes or checks the pictures; returns the exit code."""
    pictures = {FOLDER / f"{name}.svg": draw().render() for name, draw in DRAWN.items()}
    return write_or_check("Pictures of how algorithms decide.", pictures)


if __name__ == "__main__":
    sys.exit(main())
