"""Whatever becomes of uploads, whatever the weather: a decision waits for them, and what is lost is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.api.names import TrialState
from podtune.runner.actions import CreateStoragePod, DeletePod
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.scenarios.test_properties import (
    ASHA,
    STEPS,
    assert_trials_end_as_in,
    bounded,
    faults,
    moves,
    run,
    start,
    weathers,
)
from tests.unit.runner.world import user_moves
from tests.unit.runner.world.checkpoint_invariants import assert_no_silent_loss
from tests.unit.runner.world.examples import draw
from tests.unit.runner.world.made_anew import MAY_REPEAT, assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulated_uploads import Snag, Trouble
from tests.unit.runner.world.simulation import FAIR, STORE, Simulation, Weather, spec
from tests.unit.runner.world.weather import seeds

few = settings(bounded, max_examples=draw(25))
uploads = st.sampled_from([0.3, 2.0, 7.0, 40.0, 700.0])
"""Within an iteration, over several, beyond the program's own end, and beyond what the agent has for it then."""
snags = st.builds(Snag, st.sampled_from(Trouble), st.integers(1, STEPS))
any_snags = st.dictionaries(st.integers(0, 4), st.lists(st.none() | snags, max_size=3).map(tuple), max_size=5)
programs = st.builds(
    Program,
    steps=st.just(STEPS),
    checkpoint_every=st.sampled_from([1, 2]),
    upload=uploads,
    faults=faults,
    snags=any_snags,
)
SHORT = {"store": STORE, "drain": "2m", "sync": {"timeout": "90s"}}
PAUSED_LATE = "spec.desiredState is Paused; container trial had already exited with code 1"
ONE = {"search": {"algorithm": "random", "maxTrials": 1}, "maxConcurrentTrials": 1, "checkpoints": {"store": STORE}}


def test_the_pod_of_a_program_that_has_ended_stays_until_its_checkpoint_is_stored() -> None:
    simulation = Simulation(spec(**ONE), Program(steps=4, checkpoint_every=4, upload=200.0)).run(190.0)
    pod = simulation.api.pods["e-0-1"]
    assert (bool(pod.training_until), pod.phase.is_finished) == (True, False)
    assert simulation.status().state is TrialState.RUNNING
    simulation.run()
    assert simulation.status().checkpoint is not None
    assert simulation.status().lost_checkpoint is None


def test_a_checkpoint_that_can_not_be_read_is_lost_and_not_waited_for() -> None:
    program = Program(steps=10**6, checkpoint_every=2, snags={0: (Snag(Trouble.UNREADABLE, 2),)})
    simulation = Simulation(spec(**ONE, stop={"metrics": {"training_iteration": 3}}), program)
    simulation.run(until=lambda: bool(simulation.actions(DeletePod)))
    assert [action.grace for action in simulation.actions(DeletePod)] == [30]
    simulation.run()
    lost = simulation.status().lost_checkpoint
    assert lost.message.endswith("no checkpoint is stored: the checkpoint of step 2 can't be stored: it holds a socket")


def test_a_crash_is_told_although_the_pod_is_deleted_while_its_agent_stores() -> None:
    """A pause is waited for no longer than the checkpoint that was reported before it; the program is at fault."""
    program = Program(steps=9, checkpoint_every=2, upload=9.0, faults={0: (ScheduledFault(Fault.CRASH, 6),)})
    simulation = Simulation(spec(**ONE), program).run(2.8)
    simulation.api.edit_trial("e-0", desired_state="Paused")
    simulation.run(until=lambda: simulation.status().state is TrialState.PAUSED)
    assert simulation.status().message == PAUSED_LATE


@few
@given(weathers, programs, seeds)
def test_every_trial_ends_as_if_its_uploads_had_taken_no_time(
    weather: Weather,
    program: Program,
    seed: int,
) -> None:
    simulation = run(weather, program, seed, checkpoints=SHORT)
    assert_trials_end_as_in(run(FAIR, Program(steps=STEPS), 0), simulation)


@few
@given(weathers, programs, seeds)
def test_exactly_what_is_lost_is_told(
    weather: Weather,
    program: Program,
    seed: int,
) -> None:
    """While an operator looks, and where a pod's end is to be seen at all."""
    weather = replace(weather, restarts=())
    program = replace(program, faults=keep_seen(program.faults))
    assert_no_silent_loss(run(weather, program, seed, checkpoints=SHORT))


def keep_seen(
    faults: Mapping[int, tuple[ScheduledFault | None, ...]],
) -> Mapping[int, tuple[ScheduledFault | None, ...]]:
    """Those whose end tells what the agent has last said."""
    return {
        index: tuple(m for m in planned if m is None or m.kind is not Fault.VANISHED)
        for index, planned in faults.items()
    }


@few
@given(weathers, programs, moves, st.sampled_from([{}, ASHA]), seeds)
def test_every_trial_ends_whatever_users_do_to_slow_uploads(
    weather: Weather,
    program: Program,
    moves: list[tuple[float, str, int]],
    scheduler: dict[str, Any],
    seed: int,
) -> None:
    """The simulation watches over each deletion: none comes before what was reported by then is stored."""
    simulation = start(weather, program, seed, scheduler=scheduler, checkpoints=SHORT)
    user_moves.assert_all_end(simulation, moves, trials=5)


@few
@given(weathers, programs, st.floats(0.0, 120.0), st.sampled_from([{}, ASHA]), seeds)
def test_a_machine_made_anew_agrees_on_slow_uploads(
    weather: Weather,
    program: Program,
    moment: float,
    scheduler: dict[str, Any],
    seed: int,
) -> None:
    simulation = start(weather, program, seed, scheduler=scheduler, checkpoints=SHORT).run(moment)
    assert_made_anew_agrees(simulation, may_repeat=(*MAY_REPEAT, CreateStoragePod))
