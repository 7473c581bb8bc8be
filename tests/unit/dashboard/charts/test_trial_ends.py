"""What ended a trial, on its own curve: the cut and the numbers, whatever scheduler decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from podtune.dashboard.charts.learning.trial_curve import TrialCurvePlot, draw_trial_curve
from podtune.dashboard.trial_rows import collect_rows
from tests.unit.dashboard.archives import (
    BASE,
    Manifest,
    done,
    experiment_body,
    make_source,
    read_page,
    serve,
    trial_body,
)


def decide(number: int, action: str, step: int, message: str = "", **inputs: str) -> Manifest:
    time = f"2026-01-01T10:{number:02}:00Z"
    entry = {"number": number, "time": time, "attempt": 1, "step": step, "action": action, "message": message}
    return entry | {"inputs": inputs}


def end(value: float, *ledger: Manifest, reason: str = "StoppedByScheduler", **status: Any) -> Manifest:
    curve = {"results": 3, "every": 1, "steps": [1, 2, 3], "seconds": [60, 120, 180], "values": [[0.1, 0.2, value]]}
    return done(value, reason=reason, curve=curve, ledger=list(ledger), **status)


def draw(*trials: Manifest, scheduler: str = "hyperband", name: str = "digits-0") -> TrialCurvePlot:
    settings = {"hyperband": {"maxTime": 9}, "ashaPromotion": {"maxTime": 9}, "pbt": {"interval": 2}}
    source = make_source(trials, experiment_body(scheduler={scheduler: settings[scheduler]}))
    (view,) = source.list_experiments()
    rows = collect_rows(view, source.list_trials("team", "digits"))
    plot = draw_trial_curve(rows, rows.by_name[name])
    assert plot is not None
    return plot


def list_sentences(plot: TrialCurvePlot) -> Sequence[tuple[str, bool]]:
    return [(each.sentence, each.is_end) for each in plot.comparisons]


def test_the_last_to_come_to_a_rung_of_hyperband_is_compared_with_the_line_in_its_record() -> None:
    stop = decide(1, "STOP", 3, rung="3", value="0.7", arrived="6", awaited="6", rank="3")
    remembered = {"bracket": {"band": "0", "s": "1", "round": "1"}, "rungs": {"3": "0.7"}}
    plot = draw(trial_body(0, **end(0.7, stop, scheduler=remembered | {"lines": {"3": "0.8 by trial 4 of 6"}})))
    assert list_sentences(plot) == [("accuracy 0.7 < cutoff 0.8, number 3 of 6", True)]
    assert (plot.verdict, plot.turns) == ("", [])


def test_a_trial_that_was_never_promoted_is_compared_with_the_latest_cutoff_at_its_rung() -> None:
    pause = decide(1, "PAUSE", 3, rung="3", value="0.4", rank="2", arrived="4")
    never = decide(2, "STOP", 3, "paused at iteration 3 and never promoted", iteration="3", paused="2")
    promoted = decide(1, "PROMOTE", 3, rung="3", value="0.9", cutoff="0.6", arrived="5")
    loser = trial_body(0, **end(0.4, pause, never, reason="NotPromoted", scheduler={"rungs": {"3": "0.4"}}))
    winner = trial_body(1, **end(0.9, promoted, reason="MaxTimeReached", scheduler={"rungs": {"3": "0.9"}}))
    plot = draw(loser, winner, scheduler="ashaPromotion")
    assert list_sentences(plot) == [("accuracy 0.4 < latest cutoff 0.6, number 2 of 4 when paused", True)]
    alone = draw(loser, scheduler="ashaPromotion")
    assert list_sentences(alone) == []
    assert alone.verdict == "paused at iteration 3 and never promoted"


@pytest.mark.parametrize(
    ("message", "verdict"),
    [
        ("stopped at training_iteration 9: maxTime 9 is reached", "maxTime 9 is reached"),
        ("stopped at rung 9: all trials of its bracket have reached it", "all trials of its bracket have reached it"),
        ("accuracy has not improved: 5 results", "accuracy has not improved: 5 results"),
    ],
)
async def test_an_end_without_a_comparison_is_a_line_and_a_sentence(message: str, verdict: str) -> None:
    trial = trial_body(0, **end(0.7, decide(1, "STOP", 3, message, time="9"), reason="MaxTimeReached"))
    plot = draw(trial)
    assert (plot.verdict, [turn.label for turn in plot.turns]) == (verdict, ["stopped"])
    async with serve(make_source([trial])) as client:
        assert f"Stopped: {verdict}</p>" in await read_page(client, f"{BASE}/trials/digits-0")


def test_an_exploit_is_compared_with_its_donor() -> None:
    exploit = decide(1, "EXPLOIT", 2, value="0.2", donorValue="0.9", donor="digits-1", checkpoint="2")
    plot = draw(trial_body(0, **end(0.7, exploit, reason="Completed")), scheduler="pbt")
    assert list_sentences(plot) == [("accuracy 0.2 < donor’s 0.9", False)]
    assert [turn.label for turn in plot.turns] == ["cloned another"]
    assert plot.verdict == ""


def test_what_a_user_stopped_later_is_not_laid_to_the_scheduler() -> None:
    pause = decide(1, "PAUSE", 3, rung="3", value="0.4", rank="2", arrived="4", cutoff="0.6")
    stop = decide(2, "STOP", 3, "stopped by its user")
    plot = draw(trial_body(0, **end(0.4, pause, stop, reason="StoppedByUser", scheduler={"rungs": {"3": "0.4"}})))
    assert not any(is_end for _, is_end in list_sentences(plot))
    assert plot.verdict == "stopped by its user"
