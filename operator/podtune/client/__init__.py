"""Podtune from Python: create, follow and steer experiments, and get at what they have found.

    from podtune.client import Client, Experiment

    experiment = Client().create(Experiment.from_yaml("experiment.yaml"))
    experiment.wait()
    print(experiment.best.value, experiment.best.parameters)

What goes wrong raises a `PodtuneError`, whose text names the field, its value and the remedy.
"""

from podtune.client.client import Client
from podtune.client.errors import (
    AlreadyExists,
    ConnectionFailed,
    ExperimentFailed,
    InvalidArgument,
    InvalidExperiment,
    MissingPackage,
    NoResult,
    NotCreated,
    NotFound,
    NotPossible,
    PodtuneError,
    Refused,
    StoreFailed,
    WaitTimeout,
)
from podtune.client.experiment import Experiment
from podtune.client.facts import Best, CurvePoint, ParetoPoint
from podtune.client.snapshot import Outcome, Snapshot
from podtune.client.trial import Trial
from podtune.client.watch import Watch

__all__ = [
    "AlreadyExists",
    "Best",
    "Client",
    "ConnectionFailed",
    "CurvePoint",
    "Experiment",
    "ExperimentFailed",
    "InvalidArgument",
    "InvalidExperiment",
    "MissingPackage",
    "NoResult",
    "NotCreated",
    "NotFound",
    "NotPossible",
    "Outcome",
    "ParetoPoint",
    "PodtuneError",
    "Refused",
    "Snapshot",
    "StoreFailed",
    "Trial",
    "WaitTimeout",
    "Watch",
]
