"""Learning curves in tables: where there is room, and on terminals alone."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from podtune.cli.client.api_client import Change
from podtune.cli.client.resources import TrialView, read_trial
from podtune.cli.views import tables, watch_view
from podtune.cli.views.formats import SPARKLINE_WIDTH, format_sparkline
from podtune.cli.views.progress import EXPERIMENT_CHANGED, TRIALS_CHANGED, Progress
from tests.unit.cli.cli_fakes import RUNNING, TRAINING, experiment, trial

VALUES = [0.1, 0.5, 0.7, 0.75]
CURVE = {"results": 4, "every": 1, "steps": [1, 2, 3, 4], "seconds": [1, 2, 3, 4], "values": [VALUES]}
SHOWN = "▁▅▇▇"
NAMES = ("learning_rate", "hidden_units", "activation")


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([], ""),
        ([math.nan], ""),
        ([0.5], "▄"),
        (VALUES, SHOWN),
        ([3.0, math.nan, 1.0], "▇ ▁"),
        (list(range(64)), "▁▁▂▂▃▄▄▅▆▆▇▇"),
        ([-1.7e308, 1.7e308], "▁▇"),
    ],
)
def test_a_curve_is_drawn_from_its_lowest_to_its_highest_value(values: list[float], shown: str) -> None:
    assert format_sparkline(values) == shown


@given(st.lists(st.floats(), max_size=70))
def test_it_takes_few_columns_whatever_was_reported(values: list[float]) -> None:
    assert len(format_sparkline(values)) <= SPARKLINE_WIDTH


def list_trials(**status: Any) -> list[TrialView]:
    return [read_trial(trial(7, **TRAINING, **status)), read_trial(trial(8))]


@pytest.mark.parametrize(("width", "is_shown"), [(60, False), (200, True), (None, False)])
def test_a_table_of_trials_has_curves_where_a_terminal_is_wide_enough(width: int | None, is_shown: bool) -> None:
    lines = tables.render_trials(list_trials(curve=CURVE), NAMES, "accuracy", width)
    assert ("CURVE" in lines[0], SHOWN in lines[1]) == (is_shown, is_shown)
    assert width is None or max(map(len, lines)) <= width


def test_a_table_without_curves_has_no_column_for_them() -> None:
    assert "CURVE" not in tables.render_trials(list_trials(), NAMES, "accuracy", 200)[0]


@pytest.mark.parametrize("width", [60, 200])
def test_watch_shows_curves_on_a_narrow_terminal_too(width: int) -> None:
    progress = Progress()
    for source, item in (
        (EXPERIMENT_CHANGED, experiment("digits", **RUNNING)),
        (TRIALS_CHANGED, trial(7, **TRAINING, curve=CURVE)),
    ):
        for change in (Change("RELISTED", {}), Change("ADDED", item), Change("SYNCED", {})):
            progress.apply(source, change)
    console = Console(width=width, force_terminal=False, color_system=None)
    with console.capture() as capture:
        console.print(watch_view.render(progress, datetime(2026, 1, 1, 10, 5, tzinfo=UTC), width))
    assert "CURVE" in capture.get()
    assert SHOWN in capture.get()
    assert max(map(len, capture.get().splitlines())) <= width
