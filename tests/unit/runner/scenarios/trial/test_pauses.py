"""Trials that the scheduler pauses, starts again, clones and gives up, whatever the weather."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podtune.api.names import ExperimentState, TrialReason
from podtune.runner.settings import RunnerSettings
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world import user_moves
from tests.unit.runner.world.examples import draw
from tests.unit.runner.world.made_anew import assert_made_anew_agrees
from tests.unit.runner.world.scripted_scheduler import Script, scripted
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, Weather, spec
from tests.unit.runner.world.weather import Faults, any_weather, seeds

TRIALS = 6
STEPS = 9
PATIENT = RunnerSettings(log_tries=100)

weathers = any_weather(lives=20.0)
likely = st.sampled_from([0.0, 0.3, 0.6, 1.0])
scripts = st.builds(
    Script,
    pause=likely,
    exploit=st.sampled_from([0.0, 0.3, 0.6]),
    stop=st.sampled_from([0.0, 0.1]),
    start_clone=st.sampled_from([0.0, 0.5]),
    keep=likely,
    stop_paused=likely,
    synchronous=st.booleans(),
    distance=st.integers(1, 4),
)
kinds = [Fault.CRASH, Fault.EVICTED, Fault.DELETED, Fault.VANISHED, Fault.NOT_ADMITTED]
any_fault = st.builds(ScheduledFault, st.sampled_from(kinds), st.integers(0, STEPS - 1))
faults = st.dictionaries(st.integers(0, TRIALS - 1), st.lists(any_fault, max_size=3).map(tuple), max_size=TRIALS)
bounded = settings(max_examples=draw(80), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def start(script: Script, weather: Weather, seed: int, faults: Faults, **fields: Any) -> Simulation:
    defaults = {
        "checkpoints": {"store": STORE, "keep": {"count": 1}},
        "failures": {"backoff": {"initial": "1s", "max": "4s"}, "maxFailures": 3, "maxDisruptions": 12},
        "search": {"algorithm": "random", "maxTrials": TRIALS, "seed": 7},
    }
    program = Program(steps=STEPS, checkpoint_every=seed % 3, faults=faults)
    return Simulation(
        spec(**defaults | fields),
        program,
        weather,
        seed=seed,
        settings=PATIENT,
        make_scheduler=scripted(script, seed),
    )


@bounded
@given(scripts, weathers, faults, seeds, st.integers(1, 4))
def test_every_trial_ends(script: Script, weather: Weather, faults: Faults, seed: int, concurrent: int) -> None:
    """The simulation watches over places, deletions, weights and what is still needed of the bucket meanwhile."""
    simulation = start(script, weather, seed, faults, maxConcurrentTrials=concurrent).run()
    status = simulation.api.experiment.status
    assert status.state is ExperimentState.COMPLETE
    assert (status.trials.total, status.trials.terminated) == (TRIALS, TRIALS)
    for index in range(TRIALS):
        trial = simulation.status(index)
        assert trial.observation_seq is not None
        if trial.reason == TrialReason.NOT_PROMOTED:
            assert script.keep > 0
        if trial.reason == TrialReason.COMPLETED:
            assert trial.iteration == STEPS


moves = st.lists(
    st.tuples(
        st.floats(0.5, 40.0),
        st.sampled_from(["Paused", "Running", "Stopped", "delete", "restart", "damage"]),
        st.integers(0, TRIALS - 1),
    ),
    max_size=10,
).map(sorted)


@bounded
@given(scripts, weathers, faults, seeds, moves)
def test_every_trial_ends_whatever_users_do(
    script: Script, weather: Weather, faults: Faults, seed: int, moves: list[tuple[float, str, int]]
) -> None:
    """Trials are paused, stopped and deleted, donors too, and checkpoints are damaged."""
    simulation = start(script, weather, seed, faults)
    deleted = user_moves.make(simulation, moves)
    for _ in range(TRIALS):  # one that goes on may have others deleted, which are made anew
        simulation.run(3000.0)
        user_moves.have_paused_go_on(simulation)
    simulation.run()
    user_moves.assert_complete(simulation, deleted, TRIALS)


@bounded
@given(scripts, weathers, faults, seeds, st.floats(0.0, 60.0))
def test_a_machine_made_anew_agrees(script: Script, weather: Weather, faults: Faults, seed: int, moment: float) -> None:
    """Wherever the operator has come to rest, a machine of the same objects plans the same."""
    simulation = start(script, weather, seed, faults).run(moment)
    assert_made_anew_agrees(simulation)
