"""Trials and pods as the API server has them, and the machines of trials, as plain values."""

from __future__ import annotations

from typing import Any

from podtune.api.names import DesiredState
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.trial import TrialSpec, TrialStatus
from podtune.runner.records import Pod, PodPhase, Trial
from podtune.runner.settings import RunnerSettings
from podtune.runner.trial.machine import TrialContext, TrialMachine
from tests.unit.tuning import manifests

NOW = 1_800_000_000.0
PREFIX = "s3://b/uid/"
"""What the URIs of all checkpoints start with."""
LEARNING_RATE = {"name": "learning_rate", "float": {"min": 0.0001, "max": 0.1}}


def make_spec(**fields: Any) -> ExperimentSpec:
    """The spec of an Experiment with one parameter."""
    return manifests.experiment(**({"parameters": [LEARNING_RATE]} | fields))


def make_trial(
    index: int = 0, *, version: int = 1, desired: DesiredState = DesiredState.RUNNING, **status: Any
) -> Trial:
    """A Trial with this status."""
    parameters = {"learning_rate": "0.01"}
    asked = TrialSpec(experiment="e", index=index, seed=1, parameters=parameters, desired_state=desired)
    return Trial(f"e-{index}", f"trial-{index}", version, 1, asked, TrialStatus.model_validate(status))


def make_machine(
    trial: Trial, spec: ExperimentSpec | None = None, settings: RunnerSettings | None = None, replicas: int = 1
) -> TrialMachine:
    """The machine of a Trial."""
    context = TrialContext(
        spec or make_spec(),
        settings or RunnerSettings(),
        "training_iteration",
        run_generation=0,
        store_prefix=PREFIX,
        replicas=replicas,
    )
    return TrialMachine(trial, context)


def make_pod(trial: TrialMachine, **fields: Any) -> Pod:
    """A pod of a trial's current attempt, whose program runs."""
    number = trial.attempt
    known: dict[str, Any] = {"phase": PodPhase.RUNNING, "training": True, "version": 1}
    return Pod(f"{trial.name}-{number}", f"pod-{trial.index}-{number}", trial.name, number, **(known | fields))


def save(trial: TrialMachine, status: TrialStatus | None = None) -> bool:
    """The API server takes a status of the machine, the present one unless it is said, and a watch tells of it.

    Returns:
        Whether the machine takes it for one of its own.
    """
    seen = trial.seen
    trial.expectations.statuses.append(status or trial.status)
    return trial.observe_trial(Trial(seen.name, seen.uid, seen.version + 1, 1, seen.spec, status or trial.status))
