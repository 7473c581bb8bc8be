"""An experiment that a stopper of another package ends: restarts change no end, and one that fails stalls it."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typing_extensions import override

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, ExperimentReason, ExperimentState, TrialState
from podtune.api.tuning.stop import Stop
from podtune.tuning.searchers.base import Observation
from podtune.tuning.stoppers.base import Finding, ObservationStopper
from tests.entry_points import make_installation
from tests.unit.runner.world.examples import draw
from tests.unit.runner.world.made_anew import assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import Simulation, Weather, spec

LIMIT = 2.0
STOP: dict[str, Any] = {"experiment": [{"plugin": {"name": "total", "settings": {"limit": LIMIT}}}]}
SEARCH: dict[str, Any] = {"algorithm": "random", "maxTrials": 12, "seed": 7}


class Total(ObservationStopper):
    """Ends an experiment when the values add up to a limit: one that is lost or told twice changes that."""

    def __init__(self, **arguments: Any) -> None:
        self._limit: float = arguments["settings"]["limit"]
        self._told: list[float] = []

    @override
    def on_observation(self, observation: Observation) -> Finding | None:
        if observation.value is None or observation.value > 1:
            raise RuntimeError("out of order")
        self._told.append(observation.value)
        total = sum(self._told)
        return Finding(f"{len(self._told)} trials make {total}", {"total": total}) if total >= self._limit else None


installed = make_installation(EntryPoint("total", f"{__name__}:Total", "podtune.experiment_stoppers"))


def value(trial: int, step: int) -> float:
    return (1 + trial % 5) / 8


def find(simulation: Simulation, type_: ConditionType) -> tuple[str, str, str]:
    found = find_condition(simulation.api.experiment.status.conditions, type_)
    assert found is not None
    return found.status, found.reason, found.message


def predict_end(simulation: Simulation) -> str:
    """The reason that follows from the order in which the Trials record their ends."""
    told = sorted(
        (trial.status.observation_seq, value(trial.spec.index, 0))
        for trial in simulation.api.trials.values()
        if trial.status.observation_seq is not None
    )
    for count in range(1, len(told) + 1):
        total = sum(each for _, each in told[:count])
        if total >= LIMIT:
            return f"stopped: {count} trials make {total}, as stop.experiment[0].plugin asks"
    raise AssertionError("they don't add up to the limit")


def run(weather: Weather, seed: int = 0) -> Simulation:
    return Simulation(spec(stop=STOP, search=SEARCH), Program(steps=3, metric=value), weather, seed=seed)


def test_the_experiment_ends_by_what_its_stopper_has_found_and_says_so() -> None:
    ended = run(Weather()).run()
    assert find(ended, ConditionType.SUCCESS_CRITERIA_MET) == (
        "True",
        ExperimentReason.CRITERIA_MET,
        predict_end(ended),
    )
    assert ended.api.experiment.status.state is ExperimentState.COMPLETE
    assert len(ended.api.trials) < 12


@given(
    restarts=st.lists(st.floats(0.5, 20.0), min_size=1, max_size=4),
    fails=st.sampled_from([0.0, 0.2]),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=draw(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whenever_the_operator_restarts_it_ends_at_the_same_observation(
    restarts: list[float], fails: float, seed: int
) -> None:
    weather = Weather(latency=0.2, watch_delay=0.5, fails=fails, loses_reply=fails, restarts=tuple(restarts))
    ended = run(weather, seed).run()
    assert find(ended, ConditionType.SUCCESS_CRITERIA_MET)[2] == predict_end(ended)


@pytest.mark.parametrize("moment", [2.0, 9.0, 14.0, 30.0])
def test_a_machine_made_anew_agrees(moment: float) -> None:
    assert_made_anew_agrees(run(Weather(latency=0.2)).run(moment))


def test_one_that_fails_stalls_the_experiment_until_its_rule_is_removed() -> None:
    program = Program(steps=3, metric=lambda trial, step: 2.0 if trial == 1 else 0.0)
    simulation = Simulation(spec(stop=STOP), program).run(120.0)
    assert simulation.api.experiment.status.state is ExperimentState.STALLED
    status, reason, message = find(simulation, ConditionType.STALLED)
    assert (status, reason) == ("True", ExperimentReason.PLUGIN_FAILED)
    assert message.startswith("spec.stop.experiment[0].plugin: 'total' failed on observation ")
    assert message.endswith(
        "(RuntimeError: out of order); install a corrected version, or change or remove the rule; until then no trial "
        "starts, and the experiment continues without it"
    )
    made = len(simulation.api.trials)
    simulation.restart()
    simulation.run(120.0)
    assert find(simulation, ConditionType.STALLED) == (status, reason, message)
    assert len(simulation.api.trials) == made, "nothing is started meanwhile"
    states = [trial.status.state for trial in simulation.api.trials.values()]
    assert TrialState.RUNNING not in states
    simulation.edit_spec(stop=Stop())
    simulation.run()
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE
    assert len(simulation.api.trials) == 4
