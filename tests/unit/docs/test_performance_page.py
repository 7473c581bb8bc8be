"""The page on performance says what was measured, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docs import generate_performance
from e2e.bench.figures import read

ROOT = Path(__file__).parents[3]
FIGURES = ROOT / "e2e" / "bench" / "figures"


def measured(value: float, broken: list[str]) -> dict[str, Any]:
    machine = {"date": "2026-01-02", "processors": "2 processors, busy with other work", "python": "3.12"}
    figure = {"name": "results taken in a second", "value": value, "unit": "results/s"}
    found = {"setting": "9 agents", "figures": [figure]}
    return {"results": {"machine": machine, "figures": found, "broken": broken}}


def test_the_page_is_made_of_the_figures() -> None:
    """Otherwise run `python docs/generate_performance.py --write`."""
    beyond = (ROOT / "e2e" / "bench" / "beyond_one_operator.md").read_text(encoding="utf-8")
    page = generate_performance.page(read(FIGURES / "operator.json"), read(FIGURES / "tuner.json"), beyond)
    assert (ROOT / "docs" / "performance.md").read_text(encoding="utf-8") == page


def test_a_figure_stands_beside_its_target() -> None:
    text = generate_performance.page(measured(6123, []), {}, "")
    assert "| results taken in a second | ≥ 5,000 results/s | 6,123 results/s | held |" in text
    assert "9 agents. Measured on 2026-01-02 with 2 processors, busy with other work, Python 3.12." in text


def test_what_misses_its_target_is_said_and_so_is_what_was_not_measured() -> None:
    text = generate_performance.page(measured(4000, ["results: 4,000"]), {}, "")
    assert "| 4,000 results/s | not held |" in text
    assert "- not held: results: 4,000" in text
    assert "| first decision after SIGKILL | ≤ 15 s | not in the latest recorded run |" in text
