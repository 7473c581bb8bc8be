"""The page on sizes recommends more than was measured, and says what was."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from e2e.bench.figures import read
from e2e.bench.measurement import measured
from podtune.api.pods.quantities import parse_quantity

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "how-to" / "size-the-operator.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([\d,]+) \| (\d+) MB \| (\w+)[^|]* \| (\w+)[^|]* \|$", PAGE, re.MULTILINE)
FIGURES = {figure.name: figure for figure in measured(read(ROOT / "e2e/bench/figures/operator.json"), "growth")}


@pytest.mark.parametrize(("trials", "memory", "request_", "limit"), ROWS)
def test_what_is_recommended_is_more_than_was_measured(trials: str, memory: str, request_: str, limit: str) -> None:
    assert FIGURES[f"operator's memory at {trials} trials"].text == f"{memory} MB"
    requested, limited = parse_quantity(request_), parse_quantity(limit)
    assert requested is not None
    assert limited is not None
    assert float(requested) > float(memory) * 1e6
    assert float(limited) > float(memory) * 1e6 * 1.5


def test_there_are_sizes_of_four_orders() -> None:
    assert len(ROWS) == 4
