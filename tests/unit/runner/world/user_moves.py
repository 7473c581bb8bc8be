"""What users do to an experiment and its trials while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from podtune.api.names import ConditionType, DesiredState, ExperimentState, TrialState
from podtune.runner.timestamps import parse_rfc3339
from tests.unit.runner.world.simulation import START, Simulation

Move = tuple[float, str, int]
"""When, in seconds after the start; what; and to the trial of which number."""


SEEN_LATE = 10.0
"""Seconds within which an operator has surely heard of a deletion, in any weather."""


def make(simulation: Simulation, moves: Iterable[Move]) -> Mapping[str, float]:
    """Makes the moves in turn; the simulation watches over places, attempts and deletions meanwhile.

    Returns:
        When trials were deleted last.
    """
    moves, deleted = list(moves), {}
    simulation.api.allowed_alive = None if any(move == "delete" for _, move, _ in moves) else 2
    stopped: set[str] = set()
    for moment, move, index in moves:
        simulation.run(max(0.0, START + moment - simulation.now))
        name = f"e-{index}"
        if move == "restart":
            simulation.restart()
        elif move in ("suspend", "go on"):
            simulation.edit_spec(suspend=move == "suspend")
        elif move == "template":
            simulation.edit_template(containers=[{"name": "trial", "image": f"image-{index}"}])
        elif move == "damage":
            simulation.bucket.damaged.update(uri for uri in simulation.bucket if f"/{name}/" in uri)
        elif name in simulation.api.trials and not simulation.is_over:
            _make_of_trial(simulation, name, move, stopped)
            if move == "delete":
                deleted[name] = simulation.now
    return deleted


def _make_of_trial(simulation: Simulation, name: str, move: str, stopped: set[str]) -> None:
    if move == "delete":
        stopped.discard(name)
        simulation.delete_trial(name)
    elif move == "override":
        rate = 0.001 * (int(name.removeprefix("e-")) + 1)
        simulation.api.edit_trial(name, overrides={"learning_rate": str(rate)})
    elif move == "limits":
        simulation.api.edit_trial(name, limits={"memory": f"{len(simulation.log) % 7 + 1}Gi"})
    elif move == "retry":
        simulation.retry_trial(name)
    elif move == "back":
        simulation.take_back(name)
    elif move == "ask":
        simulation.ask_for_checkpoint(name)
    elif name not in stopped:
        simulation.api.edit_trial(name, desired_state=DesiredState(move))
        stopped.update([name] if move == "Stopped" else [])


def have_paused_go_on(simulation: Simulation) -> None:
    """Lets all trials run again that were paused by hand."""
    for trial in list(simulation.api.trials.values()):
        if trial.spec.desired_state is DesiredState.PAUSED and trial.status.state is TrialState.PAUSED:
            simulation.api.edit_trial(trial.name, desired_state=DesiredState.RUNNING)


def assert_all_end(simulation: Simulation, moves: Iterable[Move], trials: int) -> None:
    """Whatever the moves are: once users let all go on, all trials are trained, and nothing is left behind."""
    deleted = make(simulation, moves)
    simulation.edit_spec(suspend=False)
    simulation.run(5000.0)
    have_paused_go_on(simulation)
    simulation.run()
    assert_complete(simulation, deleted, trials)
    assert simulation.run(1000.0).api.pods == {}


def assert_complete(simulation: Simulation, deleted: Mapping[str, float], trials: int) -> None:
    """All trials have ended; one that was deleted when all had is not made again: the end stays."""
    status = simulation.api.experiment.status
    assert status.state is ExperimentState.COMPLETE
    success = next(each for each in status.conditions if each.type == ConditionType.SUCCESS_CRITERIA_MET)
    ended = parse_rfc3339(success.last_transition_time) or 0.0
    late = [name for name, moment in deleted.items() if moment > ended - SEEN_LATE]
    assert trials - len(late) <= status.trials.total == status.trials.terminated <= trials
