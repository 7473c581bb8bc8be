"""Every decision on recorded histories is Ray Tune's; `python -m tests.golden median` makes the histories."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import pytest

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.scheduler import MedianSettings
from podtune.tuning.schedulers.median import Median
from tests.golden import files

HISTORIES = files.read("median")


def median_of(history: dict[str, Any]) -> Median:
    settings = MedianSettings(
        time_attribute="t",
        grace_period=history["grace_period"],
        min_samples=history["min_samples"],
        min_time=history["min_time"],
        soft_stop=history["soft_stop"],
    )
    return Median(settings, Objective(metric="m", mode=history["mode"]))


def answer(median: Median, event: list[Any]) -> str | int | None:
    """What our scheduler says to an event, in the words of a history."""
    match event:
        case ["add", trial]:
            median.on_trial_add(trial, {})
            return None
        case ["choose", waiting]:
            chosen = median.choose(waiting)
            return None if chosen is None else chosen.trial
        case ["result", trial, time, value, waiting]:
            return median.on_result(trial, {"t": time, "m": value}, waiting=waiting).action.value
        case ["complete", trial, time, value]:
            median.on_trial_complete(trial, {"t": time, "m": value})
            return None
        case ["remove", trial]:
            median.on_trial_remove(trial)
            return None
        case _:
            raise AssertionError(event)


def answers(history: dict[str, Any]) -> Iterator[str | int | None]:
    median = median_of(history)
    return (answer(median, event) for event in history["events"])


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: str(history["seed"]))
def test_decides_as_ray_does(history: dict[str, Any]) -> None:
    assert list(answers(history)) == history["answers"]


@pytest.mark.parametrize("history", HISTORIES[::10], ids=lambda history: str(history["seed"]))
def test_decides_as_ray_does_though_it_restarts_now_and_then(history: dict[str, Any]) -> None:
    draw = random.Random(history["seed"])
    median = median_of(history)
    trials: list[int] = []
    for event, expected in zip(history["events"], history["answers"], strict=True):
        if draw.random() < 0.05:
            restarted = median_of(history)
            for trial in draw.sample(trials, len(trials)):
                restarted.restore(trial, median.record(trial), {})
            median = restarted
        assert answer(median, event) == expected
        if event[0] == "add":
            trials.append(event[1])


def test_histories_cover_what_matters() -> None:
    """A golden file that held only easy cases would prove little."""
    decisions = [answer for history in HISTORIES for answer in history["answers"]]
    assert len(HISTORIES) >= 200
    assert decisions.count("STOP") > 800
    assert decisions.count("PAUSE") > 1000
    assert decisions.count("CONTINUE") > 10_000
    assert {history["mode"] for history in HISTORIES} == {"max", "min"}
    assert sum(stops_for_nan(history) for history in HISTORIES) > 10


def stops_for_nan(history: dict[str, Any]) -> bool:
    """Whether a trial is stopped whose first value was NaN."""
    first: dict[int, float] = {}
    for event, decision in zip(history["events"], history["answers"], strict=True):
        if event[0] == "result":
            first.setdefault(event[1], event[3])
            if decision == "STOP" and math.isnan(first[event[1]]):
                return True
    return False
