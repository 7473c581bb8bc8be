"""Every decision on recorded histories is Syne Tune's; `python -m tests.golden` makes the histories."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.scheduler import AshaPromotionSettings
from podtune.tuning.schedulers.asha_promotion import AshaPromotion
from tests.golden import files

HISTORIES = files.read("asha_promotion")


def scheduler_of(history: dict[str, Any]) -> AshaPromotion:
    settings = AshaPromotionSettings(
        time_attribute="t",
        max_time=history["max_time"],
        grace_period=history["grace_period"],
        reduction_factor=history["reduction_factor"],
        brackets=history["brackets"],
    )
    return AshaPromotion(settings, Objective(metric="m", mode=history["mode"]), history["seed"])


def answers(scheduler: AshaPromotion, events: list[list[Any]]) -> Iterator[str | int | None]:
    """What our scheduler says to each event, in the words of a history."""
    for kind, *about in events:
        match kind:
            case "add":
                scheduler.on_trial_add(about[0], {})
                yield int(scheduler.record(about[0]).get("bracket", {}).get("index", 0))
            case "choose":
                chosen = scheduler.choose(about[0])
                yield None if chosen is None else chosen.trial
            case "result":
                yield scheduler.on_result(about[0], {"t": about[1], "m": about[2]}).action.value
            case "complete":
                scheduler.on_trial_complete(about[0], {"t": about[1], "m": about[2]})
                yield None
            case _:
                raise AssertionError(kind)


def read_rungs(scheduler: AshaPromotion, history: dict[str, Any]) -> dict[int, list[tuple[str, str, bool]]]:
    """What our records hold, by trial: milestone, value, whether it was promoted there."""
    found = {}
    for kind, trial, *_ in history["events"]:
        if kind == "add":
            record = scheduler.record(trial)
            promoted = int(record.get("promoted", {}).get("from", -1))
            found[trial] = [
                (milestone, value, int(milestone) <= promoted) for milestone, value in record.get("rungs", {}).items()
            ]
    return found


def read_syne_tunes_rungs(history: dict[str, Any]) -> dict[int, list[tuple[str, str, bool]]]:
    found: dict[int, list[tuple[str, str, bool]]] = {event[1]: [] for event in history["events"] if event[0] == "add"}
    for milestone, entries in reversed(history["rungs"]):
        for trial, value, promoted in entries:
            found[trial].append((str(milestone), repr(float(value)), promoted))
    return found


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: str(history["seed"]))
def test_decides_as_syne_tune_does(history: dict[str, Any]) -> None:
    scheduler = scheduler_of(history)

    assert list(answers(scheduler, history["events"])) == history["answers"]
    assert read_rungs(scheduler, history) == read_syne_tunes_rungs(history)
    assert [level for level, _ in reversed(history["rungs"])] == list(scheduler._settings.levels)


def test_histories_cover_what_matters() -> None:
    """A golden file that held only easy cases would prove little."""
    answered = [answer for history in HISTORIES for answer in history["answers"]]
    assert len(HISTORIES) >= 200
    assert answered.count("PAUSE") > 5000
    assert answered.count("STOP") > 500
    assert sum(promotions(history) for history in HISTORIES) > 3000
    assert {history["mode"] for history in HISTORIES} == {"max", "min"}
    assert {history["brackets"] for history in HISTORIES} == {1, 2, 3, 5}
    assert any(overshoots(history) for history in HISTORIES)
    assert any(ties(history) for history in HISTORIES)
    assert any(history["max_time"] % history["reduction_factor"] for history in HISTORIES)


def promotions(history: dict[str, Any]) -> int:
    return sum(promoted for _, entries in history["rungs"] for _, _, promoted in entries)


def overshoots(history: dict[str, Any]) -> bool:
    milestones = {milestone for milestone, _ in history["rungs"]}
    decided = zip(history["events"], history["answers"], strict=True)
    return any(answer == "PAUSE" and event[2] not in milestones for event, answer in decided)


def ties(history: dict[str, Any]) -> bool:
    values = [[value for _, value, _ in entries] for _, entries in history["rungs"]]
    return any(len(set(at_rung)) < len(at_rung) for at_rung in values)
