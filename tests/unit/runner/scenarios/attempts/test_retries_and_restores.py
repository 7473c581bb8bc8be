"""What a retry is to queue, scheduler and searcher, and what it starts from where checkpoints are damaged."""

from __future__ import annotations

from typing import Any

from podtune.api.names import TrialState
from podtune.runner.actions import Propose
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world.scripted_scheduler import Dictated, dictated
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, spec

FIELDS: dict[str, Any] = {
    "search": {"algorithm": "random", "maxTrials": 2, "seed": 7},
    "maxConcurrentTrials": 2,
    "checkpoints": {"store": STORE, "keep": {"count": 2}},
    "failures": {"backoff": {"initial": "2s", "max": "2s"}},
}


def test_a_retry_is_told_to_the_scheduler_and_not_to_the_searcher() -> None:
    scheduler = Dictated()
    search = {"algorithm": "tpe", "maxTrials": 4, "seed": 7}
    program = Program(
        steps=6,
        checkpoint_every=1,
        faults={0: (ScheduledFault(Fault.CRASH, 3), ScheduledFault(Fault.EVICTED, 4))},
    )
    simulation = Simulation(
        spec(**{**FIELDS, "search": search, "maxConcurrentTrials": 1}), program, make_scheduler=dictated(scheduler)
    )
    simulation.run(until=lambda: "e-0-3" in simulation.pods)
    assert scheduler.told.count("error 0") == 2
    assert not {"complete 0", "remove 0"} & set(scheduler.told)
    assert all(
        observation.number != 0
        for propose in simulation.actions(Propose)
        for observation in propose.observations[: propose.observed]
    )
    simulation.run()
    told = [observation.number for observation in simulation.actions(Propose)[-1].observations]
    assert told.count(0) == 1, "once, when it has come to its end"
    assert scheduler.told.count("complete 0") == 1


def restored_after(damaged: int) -> tuple[int, Simulation]:
    """Where a crashed trial goes on of which the newest checkpoints are damaged."""
    program = Program(steps=12, checkpoint_every=2, faults={0: (ScheduledFault(Fault.CRASH, 9),)})
    simulation = Simulation(spec(**FIELDS), program)
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().failures == 1)
    newest_first = [checkpoint.uri for checkpoint in reversed(simulation.status().checkpoints)]
    simulation.bucket.damaged.update(newest_first[:damaged])
    simulation.run()
    return simulation.pods["e-0-2"].restored.step, simulation


def test_a_damaged_checkpoint_is_fallen_back_from_by_one_and_then_to_a_fresh_start() -> None:
    assert [restored_after(damaged)[0] for damaged in (0, 1, 2)] == [8, 6, 0]


def test_a_failed_restore_fails_no_trial() -> None:
    _, simulation = restored_after(2)
    status = simulation.status()
    assert (status.state, status.failures, status.iteration) == (TrialState.TERMINATED, 1, 12)
    assert status.last_result["training_iteration"] == "12"
