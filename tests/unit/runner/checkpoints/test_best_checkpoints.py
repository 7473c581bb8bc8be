"""Which of the trials that have ended are among the best of their experiment."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.tuning.objective import Objective
from podtune.runner.checkpoints.best_checkpoints import BestCheckpoints
from podtune.runner.trial.machine import TrialMachine
from tests.unit.runner.objects import PREFIX, make_machine, make_trial

UP, DOWN = Objective(metric="accuracy", mode="max"), Objective(metric="accuracy", mode="min")
CHECKPOINT = {"step": 1, "uri": f"{PREFIX}e/pod/1", "digest": "sha256:0"}


def machine(index: int, value: float | None, *, state: str = "TERMINATED", stored: bool = True) -> TrialMachine:
    status: dict[str, Any] = {"state": state, "checkpoints": [CHECKPOINT] if stored else []}
    if value is not None:
        status["best"] = {"accuracy": repr(value)}
    return make_machine(make_trial(index, **status))


def rank(best: BestCheckpoints, *trials: TrialMachine) -> list[int]:
    for trial in trials:
        best.update(trial)
    return [trial.index for trial in trials if best.is_among_best(trial)]


@pytest.mark.parametrize(
    ("objective", "values", "expected"),
    [
        (UP, (0.1, 0.5, 0.3, 0.4), [1, 3]),
        (DOWN, (0.1, 0.5, 0.3, 0.4), [0, 2]),
        (UP, (0.5, 0.5, 0.5), [0, 1]),
        (UP, (None, 0.1, None), [1]),
        (UP, (float("inf"), 0.1, 0.2, 0.3), [2, 3]),
    ],
)
def test_the_best_values_are_the_best_and_of_equals_those_of_the_lowest_index(
    objective: Objective, values: tuple[float, ...], expected: list[int]
) -> None:
    trials = [machine(index, value) for index, value in enumerate(values)]
    assert rank(BestCheckpoints(objective, 1, 2), *trials) == expected
    assert rank(BestCheckpoints(objective, 1, 2), *reversed(trials)) == list(reversed(expected))


def test_what_has_not_ended_or_has_no_checkpoint_takes_no_place() -> None:
    running, bare, ended = machine(0, 0.9, state="RUNNING"), machine(1, 0.8, stored=False), machine(2, 0.1)
    best = BestCheckpoints(UP, 1, 1)
    for trial in (running, bare, ended):
        best.update(trial)
    assert best.is_among_best(ended)


def test_one_that_has_not_ended_is_asked_for_whether_it_would_be() -> None:
    best = BestCheckpoints(UP, 1, 2)
    rank(best, machine(0, 0.5), machine(1, 0.7))
    assert best.is_among_best(machine(2, 0.6, state="RUNNING"))
    assert not best.is_among_best(machine(2, 0.5, state="RUNNING")), "of equals the first one stays"
    assert not best.is_among_best(machine(2, None, state="RUNNING"))


def test_who_loses_its_place_is_told_once() -> None:
    best = BestCheckpoints(UP, 1, 2)
    rank(best, machine(0, 0.5), machine(1, 0.7))
    assert best.take_displaced() == []
    rank(best, machine(2, 0.6), machine(3, 0.1))
    assert best.take_displaced() == ["e-0", "e-3"]
    assert best.take_displaced() == []


def test_one_that_goes_on_gives_its_place_up() -> None:
    best, second = BestCheckpoints(UP, 1, 1), machine(1, 0.5)
    rank(best, machine(0, 0.9), second)
    assert not best.is_among_best(second)
    best.update(machine(0, 0.9, state="PENDING"))
    assert best.is_among_best(second)


def test_repeats_count_by_their_mean_once_all_have_ended_and_the_best_of_them_has_the_checkpoint() -> None:
    best = BestCheckpoints(UP, 2, 1)
    lucky, unlucky = machine(0, 0.9), machine(1, 0.1)
    assert rank(best, lucky) == [0], "its configuration may be the best yet"
    assert rank(best, unlucky) == []
    assert best.is_among_best(lucky)
    assert rank(best, machine(2, 0.7)) == [2]
    assert best.take_displaced() == ["e-0", "e-1"]
    assert rank(best, machine(3, 0.6)) == []
    assert best.take_displaced() == ["e-2", "e-3", "e-0"]
    assert not best.is_among_best(lucky)


def test_of_repeats_one_that_has_a_checkpoint_stands_for_all() -> None:
    best = BestCheckpoints(UP, 2, 1)
    assert rank(best, machine(0, 0.9, stored=False), machine(1, 0.1)) == [1]
