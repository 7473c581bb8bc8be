"""Every decision on recorded histories is Ray Tune's; `python -m tests.golden pbt` makes the histories."""

from __future__ import annotations

import random
from typing import Any

import pytest

from podtune.tuning.schedulers.base import Exploit, Scheduler, SchedulerDecision
from podtune.tuning.schedulers.factory import make_scheduler
from podtune.tuning.searchers.base import Configuration
from tests.golden import files
from tests.unit.tuning.manifests import experiment

HISTORIES = files.read("pbt")
ITERATIONS = 2
"""So many are one unit of a history's time: the shortest way between two results is half of that."""


class Population:
    """Our scheduler, and what the operator does with what it says."""

    def __init__(self, history: dict[str, Any]) -> None:
        self._history = history
        self._configurations: list[Configuration] = list(history["configurations"])
        self._removed: list[int] = []
        self.scheduler = self._new()
        for trial, configuration in enumerate(self._configurations):
            self.scheduler.on_trial_add(trial, configuration)
        self.scheduler.on_search_over()

    def _new(self) -> Scheduler:
        history = self._history
        down, up = history["factors"]
        settings = {
            "timeAttribute": "t",
            "interval": history["interval"],
            "burnIn": history["burn_in"],
            "quantile": history["quantile"],
            "resampleProbability": history["resample_probability"],
            "perturbationFactors": {"down": down, "up": up},
            "synchronous": history["synchronous"],
            "mutations": history["mutations"],
        }
        return make_scheduler(
            experiment(
                objective={"metric": "m", "mode": history["mode"]},
                parameters=history["parameters"],
                search={"algorithm": "random", "maxTrials": len(self._configurations), "seed": history["seed"]},
                scheduler={"pbt": settings},
                checkpoints={"store": {"bucket": "some-bucket"}},
            )
        )

    def restart(self, order: random.Random) -> None:
        """Makes the scheduler anew of the records."""
        restarted = self._new()
        trials = range(len(self._configurations))
        known = [trial for trial in trials if self.scheduler.record(trial)]
        for trial in order.sample(known, len(known)):
            restarted.restore(trial, self.scheduler.record(trial), self._configurations[trial])
        for trial in trials:
            if trial not in known:
                restarted.on_trial_add(trial, self._configurations[trial])
        for trial in self._removed:
            restarted.on_trial_remove(trial)
        restarted.on_search_over()
        self.scheduler = restarted

    def answer(self, event: list[Any]) -> Any:
        """What it says to an event, in the words of a history."""
        match event:
            case ["choose", waiting]:
                start = self.scheduler.choose(waiting)
                return (
                    None if start is None else {"trial": start.trial, **self._carried_out(start.trial, start.exploit)}
                )
            case ["result", trial, time, value, waiting]:
                metrics = {"t": time, "m": value, "training_iteration": int(time * ITERATIONS)}
                decision = self.scheduler.on_result(trial, metrics, waiting=waiting)
                return decision.action if self._history["synchronous"] else self._asynchronous(trial, decision, waiting)
            case ["complete", trial, time, value]:
                self.scheduler.on_trial_complete(trial, {"t": time, "m": value})
            case ["remove", trial]:
                self.scheduler.on_trial_error(trial)
                self.scheduler.on_trial_remove(trial)
                self._removed.append(trial)
            case _:
                raise AssertionError(event)
        return None

    def _asynchronous(self, trial: int, decision: SchedulerDecision, waiting: int) -> dict[str, Any]:
        if decision.exploit is None:
            return {"action": decision.action, "save": decision.wants_checkpoint}
        if decision.exploit.donor in self._history["cannot_save"]:
            return {"action": "PAUSE" if waiting else "CONTINUE", "save": False}  # the exploit is passed over
        return {"action": "EXPLOIT", **self._carried_out(trial, decision.exploit)}

    def _carried_out(self, trial: int, exploit: Exploit | None) -> dict[str, Any]:
        if exploit is None:
            return {}
        self._configurations[trial] = exploit.configuration
        self.scheduler.on_configuration(trial, exploit.configuration)
        assert exploit.step is not None
        checkpoint = exploit.step / ITERATIONS  # the latest that may be cloned is the one that Ray makes
        return {"donor": exploit.donor, "checkpoint": checkpoint, "configuration": exploit.configuration}


def same(ours: Any, rays: Any) -> bool:
    """Whether two answers are equal; numbers but for the last bits: ours on a grid are exact, Ray's multiplied."""
    if not isinstance(rays, dict):
        return bool(ours == rays)
    configuration = rays.get("configuration", {})
    own = ours.get("configuration", {})
    if list(own) != list(configuration) or any(type(own[name]) is not type(configuration[name]) for name in own):
        return False
    for name, value in configuration.items():
        expected = pytest.approx(value, rel=1e-12, abs=1e-15) if isinstance(value, float) else value
        if own[name] != expected:
            return False
    known = rays if rays.get("action") != "PAUSE" else {**rays, "save": ours["save"]}  # a pause brings one anyway
    return {**known, "configuration": {}} == {**ours, "configuration": {}}


def named(history: dict[str, Any]) -> str:
    return f"{'synchronous' if history['synchronous'] else 'asynchronous'}-{history['seed']}"


@pytest.mark.parametrize("history", HISTORIES, ids=named)
def test_decides_as_ray_does(history: dict[str, Any]) -> None:
    population = Population(history)
    for event, expected in zip(history["events"], history["answers"], strict=True):
        ours = population.answer(event)
        assert same(ours, expected), (event, ours, expected)


@pytest.mark.parametrize("history", HISTORIES[::3], ids=named)
def test_decides_as_ray_does_though_it_restarts_all_the_time(history: dict[str, Any]) -> None:
    population = Population(history)
    draw = random.Random(history["seed"])
    for event, expected in zip(history["events"], history["answers"], strict=True):
        population.restart(draw)
        ours = population.answer(event)
        assert same(ours, expected), (event, ours, expected)


@pytest.mark.parametrize("synchronous", [False, True])
def test_histories_cover_what_matters(*, synchronous: bool) -> None:
    """A golden file that held only easy cases would prove little."""
    histories = [history for history in HISTORIES if history["synchronous"] is synchronous]
    answers = [answer for history in histories for answer in history["answers"] if isinstance(answer, dict)]
    exploits = [answer for answer in answers if "donor" in answer]
    assert len(histories) >= 200
    assert len(exploits) > 1000
    assert {history["mode"] for history in histories} == {"max", "min"}
    assert {len(history["configurations"]) for history in histories} == {2, 3, 4, 5, 8, 12}
    if not synchronous:
        assert sum(answer.get("action") == "PAUSE" for answer in answers) > 1000
        assert sum(answer.get("save", False) for answer in answers) > 1000
