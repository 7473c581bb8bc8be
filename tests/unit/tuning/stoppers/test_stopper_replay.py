"""Every decision on recorded results is that of Ray Tune's stoppers; `python -m tests.golden stoppers` makes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from podtune.tuning.schedulers.base import SchedulerAction
from podtune.tuning.stoppers.base import ExperimentProgress
from podtune.tuning.stoppers.factory import make_experiment_stopper, make_trial_stopper
from podtune.tuning.stoppers.trial import TrialStopper
from tests.golden import files
from tests.unit.tuning.manifests import experiment

HISTORIES = files.read("stoppers")
NOW = ExperimentProgress(elapsed=0.0)


def answers(history: dict[str, Any]) -> Iterator[list[bool]]:
    def made(stop: dict[str, Any]) -> Any:
        return experiment(objective={"metric": "m", "mode": history["mode"]}, stop=stop)

    plateau = make_trial_stopper(made({"trial": [{"plateau": history["trial"]}]}))
    iterations = make_trial_stopper(made({"trial": [{"iterations": history["iterations"]}]}))
    of_all = make_experiment_stopper(made({"experiment": [{"plateau": history["experiment"]}]}))
    steps: dict[int, int] = {}

    def stops(stopper: TrialStopper, trial: int, value: float) -> bool:
        result = {"m": value, "training_iteration": steps[trial]}
        return stopper.on_result(trial, result, 0.0).action is SchedulerAction.STOP

    for trial, value in history["results"]:
        steps[trial] = steps.get(trial, 0) + 1
        of_all.on_trial_end(value)
        yield [stops(plateau, trial, value), stops(iterations, trial, value), of_all.check(NOW) is not None]


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: str(history["seed"]))
def test_decides_as_ray_does(history: dict[str, Any]) -> None:
    assert list(answers(history)) == history["answers"]


def test_the_histories_hold_every_kind_of_answer() -> None:
    said = [answer for history in HISTORIES for answer in history["answers"]]
    for kind in range(3):
        assert 100 < sum(answer[kind] for answer in said) < len(said) - 100
