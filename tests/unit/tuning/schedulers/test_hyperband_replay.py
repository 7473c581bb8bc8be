"""Every decision on recorded histories is Ray Tune's; `python -m tests.golden` makes the histories."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.scheduler import BohbSettings, HyperbandSettings
from podtune.tuning.schedulers.bohb import Bohb
from podtune.tuning.schedulers.hyperband import Hyperband
from tests.golden import files

HYPERBAND = files.read("hyperband")
BOHB = files.read("bohb")


class Replay:
    """Has a scheduler of ours live through a history."""

    def __init__(self, history: dict[str, Any], scheduler: Hyperband) -> None:
        self.scheduler = scheduler
        self.events = history["events"]
        self.waiting: dict[int, None] = {}

    def answers(self) -> Iterator[list[Any]]:
        """What we say to each event, in the words of a history."""
        for event in self.events:
            answer = self._answer(*event)
            stopped = sorted(stop.trial for stop in self.scheduler.trials_to_stop())
            for trial in stopped:
                self._remove(trial)
            yield [answer, stopped]

    def _answer(self, kind: str, trial: int = -1, time: float = 0, value: float = 0) -> Any:
        match kind:
            case "add":
                self.scheduler.on_trial_add(trial, {})
                self.waiting[trial] = None
                bracket = self.scheduler.record(trial)["bracket"]
                return [int(bracket["band"]), int(bracket["s"])]
            case "over":
                self.scheduler.on_search_over()
            case "choose":
                return self._choose()
            case "result":
                decision = self.scheduler.on_result(trial, {"t": time, "m": value})
                if decision.action == "PAUSE":
                    self.waiting[trial] = None
                return decision.action.value
            case "complete":
                self.scheduler.on_trial_complete(trial, {"t": time, "m": value})
            case "error":
                self.scheduler.on_trial_error(trial)
                self._remove(trial)
            case "remove":
                self._remove(trial)
            case _:
                raise AssertionError(kind)
        return None

    def _choose(self) -> int | None:
        start = self.scheduler.choose(list(self.waiting)) if self.waiting else None
        if start is None:
            return None
        del self.waiting[start.trial]
        return start.trial

    def _remove(self, trial: int) -> None:
        self.scheduler.on_trial_remove(trial)
        self.waiting.pop(trial, None)

    def brackets(self) -> list[list[Any]]:
        """How far the brackets are in which somebody is left in the end."""
        brackets = self.scheduler._brackets.values()
        live = [(bracket, [trial for trial in bracket.entries if bracket.is_live(trial)]) for bracket in brackets]
        return [[bracket.rounds[bracket.round].milestone, trials] for bracket, trials in live if trials]


def rays_brackets(history: dict[str, Any]) -> list[list[Any]]:
    return [[milestone, trials] for milestone, trials in history["brackets"] if trials]


KINDS = [(Hyperband, HyperbandSettings, history) for history in HYPERBAND]
KINDS += [(Bohb, BohbSettings, history) for history in BOHB]


@pytest.mark.parametrize(
    ("scheduler", "settings", "history"),
    KINDS,
    ids=[f"{kind.__name__}-{history['seed']}" for kind, _, history in KINDS],
)
def test_decides_as_ray_does(scheduler: Any, settings: Any, history: dict[str, Any]) -> None:
    given = settings(time_attribute="t", max_time=history["max_time"], reduction_factor=history["reduction_factor"])
    replay = Replay(history, scheduler(given, Objective(metric="m", mode=history["mode"])))

    assert list(replay.answers()) == history["answers"]
    assert replay.brackets() == rays_brackets(history)


@pytest.mark.parametrize("histories", [HYPERBAND, BOHB], ids=["hyperband", "bohb"])
def test_histories_cover_what_matters(histories: list[dict[str, Any]]) -> None:
    """A golden file that held only easy cases would prove little."""
    answers = [answer for history in histories for answer, _ in history["answers"]]
    events = [event[0] for history in histories for event in history["events"]]
    stopped = [len(stopped) for history in histories for _, stopped in history["answers"]]
    assert len(histories) >= 200
    assert answers.count("PAUSE") > 2000
    assert answers.count("STOP") > 500
    assert sum(stopped) > 1000
    assert max(stopped) > 5
    assert events.count("error") > 200
    assert events.count("remove") > 200
    assert sum(promotions(history) for history in histories) > 1000
    assert {history["mode"] for history in histories} == {"max", "min"}
    assert {history["max_time"] for history in histories} >= {3, 9, 10, 16, 81, 729}


def promotions(history: dict[str, Any]) -> int:
    """How often a trial was chosen that had run before."""
    chosen = [
        answer for event, (answer, _) in zip(history["events"], history["answers"], strict=True) if event == ["choose"]
    ]
    trials = [trial for trial in chosen if trial is not None]
    return len(trials) - len(set(trials))
