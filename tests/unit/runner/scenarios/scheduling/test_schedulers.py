"""Experiments with the schedulers that pause, whatever the weather: none comes to a standstill, and all can be made
anew."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podtune.api.names import ExperimentState, TrialState
from podtune.runner.settings import RunnerSettings
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world.examples import draw
from tests.unit.runner.world.made_anew import assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, Weather, spec
from tests.unit.runner.world.weather import Faults, any_weather, seeds

STEPS = 9
SCHEDULERS: dict[str, dict[str, Any]] = {
    "promotion": {"ashaPromotion": {"maxTime": STEPS, "gracePeriod": 1, "reductionFactor": 3}},
    "hyperband": {"hyperband": {"maxTime": STEPS, "reductionFactor": 3}},
    "bohb": {"bohb": {"maxTime": STEPS, "reductionFactor": 3}},
    "median": {"median": {"gracePeriod": 1, "minSamples": 1}},
    "population": {"pbt": {"interval": 2, "quantile": 0.5}},
    "generations": {"pbt": {"interval": 3, "quantile": 0.4, "synchronous": True}},
}
EVERY_SCHEDULER = {
    **SCHEDULERS,
    "asha": {"asha": {"maxTime": STEPS, "gracePeriod": 1, "reductionFactor": 3}},
    "fifo": {},
}
"""Those that pause nothing, too."""
PATIENT = RunnerSettings(log_tries=100)

weathers = any_weather(lives=20.0)
kinds = [Fault.CRASH, Fault.EVICTED, Fault.DELETED, Fault.VANISHED, Fault.NOT_ADMITTED]
any_fault = st.builds(ScheduledFault, st.sampled_from(kinds), st.integers(0, STEPS - 1))
faults = st.dictionaries(st.integers(0, 11), st.lists(any_fault, max_size=5).map(tuple), max_size=6)
bounded = settings(
    max_examples=draw(12),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def start(
    scheduler: str,
    weather: Weather,
    faults: Faults,
    seed: int,
    concurrent: int = 3,
) -> Simulation:
    fields = {
        "checkpoints": {"store": STORE, "keep": {"count": 1}},
        "failures": {"backoff": {"initial": "1s", "max": "4s"}, "maxFailures": 2, "maxDisruptions": 12},
        "search": {"algorithm": "bohb" if scheduler == "bohb" else "random", "maxTrials": 12, "seed": 7},
        "maxConcurrentTrials": concurrent,
        "scheduler": SCHEDULERS[scheduler],
    }
    program = Program(steps=STEPS, checkpoint_every=seed % 2, faults=faults)
    return Simulation(spec(**fields), program, weather, seed=seed, settings=PATIENT)


def test_a_population_is_completed_while_a_member_that_has_failed_waits() -> None:
    """PBT runs no member again before all are there, not even one that is retried and holds the only slot's place."""
    simulation = start("population", Weather(), {6: (ScheduledFault(Fault.CRASH, 2),)}, 0, 1).run()
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@bounded
@given(weathers, faults, seeds, st.integers(1, 4))
def test_every_trial_ends(scheduler: str, weather: Weather, faults: Faults, seed: int, concurrent: int) -> None:
    simulation = start(scheduler, weather, faults, seed, concurrent).run()
    status = simulation.api.experiment.status
    assert status.state is ExperimentState.COMPLETE
    assert status.trials.total == 12
    assert status.trials.terminated + status.trials.error == 12
    for index in range(12):
        trial = simulation.status(index)
        assert trial.state is not TrialState.ERROR or trial.failures > 2


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@bounded
@given(weathers, faults, seeds, st.floats(0.0, 60.0))
def test_a_machine_made_anew_agrees(scheduler: str, weather: Weather, faults: Faults, seed: int, moment: float) -> None:
    simulation = start(scheduler, weather, faults, seed).run(moment)
    assert_made_anew_agrees(simulation)
