"""Stoppers of other packages that end the experiment: when they do, and what happens if one goes wrong."""

from __future__ import annotations

import math
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from podtune.api.names import ExperimentReason
from podtune.tuning.plugins import PluginError
from podtune.tuning.searchers.base import Observation
from podtune.tuning.stoppers.base import ExperimentProgress, Finding, ObservationStopper
from podtune.tuning.stoppers.experiment import ExperimentStopper
from podtune.tuning.stoppers.factory import make_experiment_stopper
from tests.entry_points import make_installation
from tests.unit.tuning.manifests import experiment


class Enough(ObservationStopper):
    """Ends an experiment at one moment only: after so many observations; it fails on the value 13."""

    def __init__(self, **arguments: Any) -> None:
        self._after: int = arguments["settings"].get("after", 3)
        self._told: list[Observation] = []

    @override
    def on_observation(self, observation: Observation) -> Any:
        self._told.append(observation)
        if observation.value == 13:
            raise ZeroDivisionError("division by zero")
        if observation.value == 14:
            return "enough"
        count = len(self._told)
        return Finding(f"{count} trials are enough", {"trials": count}) if count == self._after else None


installed = make_installation(EntryPoint("enough", f"{__name__}:Enough", "podtune.experiment_stoppers"))


def plugin(**given: Any) -> dict[str, Any]:
    return {"plugin": {"name": "enough", "settings": given}}


def stopper(*rules: dict[str, Any]) -> ExperimentStopper:
    return make_experiment_stopper(experiment(stop={"experiment": list(rules)}))


def tell(made: ExperimentStopper, *values: float | None, final: bool = True) -> str:
    """Why the experiment ends after these; empty where it goes on."""
    for value in values:
        made.on_observation(Observation(0, {"learning_rate": 0.1}, value, 1, final=final))
    return find(made)


def find(made: ExperimentStopper, elapsed: float = 0.0) -> str:
    ending = made.check(ExperimentProgress(elapsed))
    return ending.message if ending is not None else ""


def test_a_finding_ends_the_experiment_with_its_clause_and_numbers() -> None:
    made = stopper(plugin())
    assert tell(made, 0.1, None) == ""
    tell(made, math.nan)
    ending = made.check(ExperimentProgress(0.0))
    assert ending is not None
    assert (ending.reason, ending.good, ending.inputs) == (ExperimentReason.CRITERIA_MET, True, {"trials": 3})
    assert ending.message == "stopped: 3 trials are enough, as stop.experiment[0].plugin asks"


def test_it_hears_of_rungs_too() -> None:
    assert "3 trials" in tell(stopper(plugin()), 0.1, 0.2, 0.3, final=False)


def test_what_it_has_found_stays_however_many_are_told_at_a_time() -> None:
    assert tell(stopper(plugin(after=2)), *[0.1] * 5) == tell(stopper(plugin(after=2)), *[0.1] * 2) != ""


def test_it_may_be_a_part_of_a_rule() -> None:
    made = stopper({"all": [plugin(after=2), {"time": "1h"}]}, {"any": [{"target": 9}, plugin(after=4)]})
    assert tell(made, 0.1, 0.1, 0.1) == ""
    assert find(made, 3600.0).startswith("stopped: 2 trials are enough and")
    assert tell(made, 0.1) == "stopped: 4 trials are enough, as stop.experiment[1].any[1].plugin asks"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (13, "ZeroDivisionError: division by zero"),
        (14, "TypeError: on_observation() returned 'enough'; return a Finding or None"),
    ],
)
def test_one_that_fails_is_said_to_the_user_and_ends_nothing(value: float, problem: str) -> None:
    made = stopper({"target": 1}, plugin())
    assert tell(made, 0.1, value) == ""
    assert made.failure is not None
    assert made.failure.message == (
        f"spec.stop.experiment[1].plugin: 'enough' failed on observation 2 ({problem}); install a corrected version, "
        "or change or remove the rule; until then no trial starts, and the experiment continues without it"
    )
    before = made.failure
    assert tell(made, *[0.1] * 5) == ""
    assert made.failure == before
    other = made.check(ExperimentProgress(0.0, best=2.0, best_trial="e-1"))
    assert other is not None
    assert other.reason == ExperimentReason.TARGET_REACHED, "the other rules hold all the same"


def test_a_stopper_of_trials_is_none_of_the_experiment() -> None:
    with pytest.raises(PluginError, match=r"entry point of podtune.experiment_stoppers, or correct the name"):
        stopper({"plugin": {"name": "patience"}})


@given(values=st.lists(st.sampled_from([0.1, None, math.nan, 13, 14]), max_size=12), cut=st.integers(0, 12))
@settings(max_examples=60, deadline=None)
def test_one_that_is_told_everything_once_more_says_the_same(values: list[float | None], cut: int) -> None:
    uncut, rebuilt = stopper(plugin(after=4)), stopper(plugin(after=4))
    for value in values[:cut]:
        tell(uncut, value)
    assert tell(rebuilt, *values[:cut]) == find(uncut)
    for value in values[cut:]:
        assert tell(rebuilt, value) == tell(uncut, value)
    assert rebuilt.failure == uncut.failure
