"""Every decision on recorded histories is Ray Tune's; `python -m tests.golden` makes the histories."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.scheduler import AshaSettings
from podtune.tuning.schedulers.asha import Asha
from tests.golden import files

HISTORIES = files.read("asha")


def asha_of(history: dict[str, Any]) -> Asha:
    settings = AshaSettings(
        time_attribute="t",
        max_time=history["max_time"],
        grace_period=history["grace_period"],
        reduction_factor=history["reduction_factor"],
        brackets=history["brackets"],
    )
    return Asha(settings, Objective(metric="m", mode=history["mode"]), history["seed"])


def answers(asha: Asha, events: list[list[Any]]) -> Iterator[str | int | None]:
    """What our scheduler says to each event, in the words of a history."""
    for kind, trial, *result in events:
        metrics = dict(zip(("t", "m"), result, strict=False))
        match kind:
            case "add":
                asha.on_trial_add(trial, {})
                yield int(asha.record(trial).get("bracket", {}).get("index", 0))
            case "result":
                yield asha.on_result(trial, metrics).action.value
            case "complete":
                asha.on_trial_complete(trial, metrics)
                yield None
            case "remove":
                asha.on_trial_remove(trial)
                yield None
            case _:
                raise AssertionError(kind)


def rungs_of(asha: Asha, history: dict[str, Any]) -> list[dict[str, dict[str, str]]]:
    """What our records hold, by bracket, milestone and trial."""
    rungs: list[dict[str, dict[str, str]]] = [{} for _ in range(history["brackets"])]
    for kind, trial, *_ in history["events"]:
        if kind == "add":
            record = asha.record(trial)
            bracket = rungs[int(record.get("bracket", {}).get("index", 0))]
            for milestone, value in record.get("rungs", {}).items():
                bracket.setdefault(milestone, {})[str(trial)] = value
    return rungs


def rays_rungs(history: dict[str, Any]) -> list[dict[str, dict[str, str]]]:
    sign = 1.0 if history["mode"] == "max" else -1.0
    return [
        {
            str(milestone): {trial: repr(sign * reward) for trial, reward in recorded.items()}
            for milestone, recorded in bracket
            if recorded
        }
        for bracket in history["rungs"]
    ]


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: str(history["seed"]))
def test_decides_as_ray_does(history: dict[str, Any]) -> None:
    asha = asha_of(history)

    assert list(answers(asha, history["events"])) == history["answers"]
    assert rungs_of(asha, history) == rays_rungs(history)


def test_histories_cover_what_matters() -> None:
    """A golden file that held only easy cases would prove little."""
    decisions = [answer for history in HISTORIES for answer in history["answers"]]
    assert len(HISTORIES) >= 200
    assert decisions.count("STOP") > 2000
    assert decisions.count("CONTINUE") > 10_000
    assert {history["mode"] for history in HISTORIES} == {"max", "min"}
    assert {history["brackets"] for history in HISTORIES} == {1, 2, 3, 5}
    assert any(read_values(history) & {"nan"} for history in HISTORIES)
    assert any(skips_a_rung(history) for history in HISTORIES)


def read_values(history: dict[str, Any]) -> set[str]:
    return {repr(event[3]) for event in history["events"] if event[0] == "result"}


def skips_a_rung(history: dict[str, Any]) -> bool:
    milestones = sorted(milestone for milestone, _ in history["rungs"][0])
    times = [event[2] for event in history["events"] if event[0] == "result"]
    return any(time >= higher > lower > 1 for time in times[:1] for lower, higher in pairwise(milestones))
