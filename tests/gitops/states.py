"""Experiments and Trials in every state, with the statuses that the operator writes in a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from podtune.api.names import API_VERSION, DesiredState, ExperimentReason
from podtune.runner.actions import ActionResult, ActionStatus, CreatePod, TryPod
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, spec

Manifest = dict[str, Any]

UNSEEN: Manifest = {"observedGeneration": -1}
"""What the API server fills in before the operator has seen an object."""
_FIELDS: Manifest = {
    "search": {"algorithm": "random", "maxTrials": 2, "seed": 7},
    "checkpoints": {"store": STORE},
}
_LONG = Program(steps=30)
_DEAF = Program(steps=10**6, silent=True)
"""Its agents do not answer, so that a checkpoint is waited for."""
_CRASHING = Program(faults={index: (ScheduledFault(Fault.CRASH),) for index in range(2)})
_ONCE: Manifest = {"maxFailures": 0}
_REFUSED = ActionResult(
    ActionStatus.REFUSED, 'pods "e-0-1" is forbidden: violates PodSecurity "restricted"', ExperimentReason.POD_REFUSED
)


def render_experiment(simulation: Simulation) -> Manifest:
    """The Experiment as the API server would have it."""
    experiment = simulation.api.experiment
    assert experiment.spec is not None
    return {
        **_name("Experiment", experiment.name, experiment.generation),
        "spec": experiment.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        "status": experiment.status.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def render_trial(simulation: Simulation, index: int = 0) -> Manifest:
    """One of its Trials."""
    trial = simulation.api.trials[f"e-{index}"]
    return {
        **_name("Trial", trial.name, trial.generation),
        "spec": trial.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        "status": trial.status.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def _name(kind: str, name: str, generation: int) -> Manifest:
    metadata = {"name": name, "namespace": "vision", "generation": generation}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata}


def _begin(program: Program = _LONG, **fields: Any) -> Simulation:
    return Simulation(spec(**{**_FIELDS, **fields}), program).run(10.0)


def _applied() -> Manifest:
    return render_experiment(_begin()) | {"status": UNSEEN}


def _running() -> Manifest:
    return render_experiment(_begin())


def _changed() -> Manifest:
    simulation = _begin()
    simulation.api.edit_experiment()
    return render_experiment(simulation)


def _suspending() -> Manifest:
    simulation = _begin(_DEAF)
    simulation.edit_spec(suspend=True)
    return render_experiment(simulation.run(5.0))


def _suspended() -> Manifest:
    simulation = _begin()
    simulation.edit_spec(suspend=True)
    return render_experiment(simulation.run(100.0))


def _resumed() -> Manifest:
    simulation = _begin()
    simulation.edit_spec(suspend=True)
    simulation.run(100.0)
    simulation.edit_spec(suspend=False)
    return render_experiment(simulation.run(10.0))


def _begin_to_stop(program: Program) -> Simulation:
    simulation = _begin(program)
    stop = simulation.api.experiment.spec.stop
    simulation.edit_spec(stop=stop.model_copy(update={"now": True}))
    return simulation


def _stopping() -> Manifest:
    return render_experiment(_begin_to_stop(_DEAF).run(2.0))


def _stopped() -> Manifest:
    return render_experiment(_begin_to_stop(_LONG).run(100.0))


def _complete() -> Manifest:
    return render_experiment(_begin(Program()).run())


def _failed() -> Manifest:
    return render_experiment(_begin(_CRASHING, failures=_ONCE).run())


def _stalled() -> Manifest:
    simulation = Simulation(spec(**_FIELDS))
    simulation.refuse = lambda action: _REFUSED if isinstance(action, CreatePod | TryPod) else None
    return render_experiment(simulation.run(30.0))


EXPERIMENTS: Mapping[str, Callable[[], Manifest]] = {
    "applied": _applied,
    "running": _running,
    "changed": _changed,
    "suspending": _suspending,
    "suspended": _suspended,
    "resumed": _resumed,
    "stopping": _stopping,
    "stopped": _stopped,
    "complete": _complete,
    "failed": _failed,
    "stalled": _stalled,
}
"""By state: how an Experiment gets there."""


def _trial_applied() -> Manifest:
    return render_trial(_begin()) | {"status": UNSEEN}


def _trial_pending() -> Manifest:
    simulation = Simulation(spec(**_FIELDS))
    simulation.refuse = lambda action: _REFUSED if isinstance(action, CreatePod | TryPod) else None
    return render_trial(simulation.run(30.0))


def _trial_running() -> Manifest:
    return render_trial(_begin())


def _trial_paused() -> Manifest:
    simulation = _begin()
    simulation.api.edit_trial("e-0", desired_state=DesiredState.PAUSED)
    return render_trial(simulation.run(20.0))


def _trial_stopped() -> Manifest:
    simulation = _begin()
    simulation.api.edit_trial("e-0", desired_state=DesiredState.STOPPED)
    return render_trial(simulation.run(20.0))


def _trial_complete() -> Manifest:
    return render_trial(_begin(Program()).run())


def _trial_failed() -> Manifest:
    return render_trial(_begin(_CRASHING, failures=_ONCE).run())


TRIALS: Mapping[str, Callable[[], Manifest]] = {
    "applied": _trial_applied,
    "pending": _trial_pending,
    "running": _trial_running,
    "paused": _trial_paused,
    "stopped": _trial_stopped,
    "complete": _trial_complete,
    "failed": _trial_failed,
}
"""By state: how a Trial gets there."""
