"""Podtune from Python: create, follow and steer experiments, and get at what they have found.

    from podtune.client import Client, Experiment

    experiment = Client().create(Experiment.from_yaml("experiment.yaml"))
    experiment.wait()
    print(experiment.best.value, experiment.best.parameters)

What goes wrong raises a `PodtuneError`, whose text names the field, its value and the remedy.
"""

from podtune.cli.client.store_access import StoreOptions
from podtune.client.asynchronous import AsyncCheckpoint, AsyncClient, AsyncExperiment, AsyncTrial
from podtune.client.checkpoint import TrialCheckpoint
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
    NotPossible,
    ObjectNotFound,
    PodtuneError,
    Refused,
    StoreFailed,
    WaitTimeout,
)
from podtune.client.experiment import Experiment
from podtune.client.facts import Best, CurvePoint, FrontTrial
from podtune.client.packing.modules import PackingError
from podtune.client.results import IncompleteResults
from podtune.client.snapshot import Conclusion, ExperimentSnapshot
from podtune.client.trial import Trial
from podtune.client.watch import ExperimentWatch

__all__ = [
    "AlreadyExists",
    "AsyncCheckpoint",
    "AsyncClient",
    "AsyncExperiment",
    "AsyncTrial",
    "Best",
    "Client",
    "Conclusion",
    "ConnectionFailed",
    "CurvePoint",
    "Experiment",
    "ExperimentFailed",
    "ExperimentSnapshot",
    "ExperimentWatch",
    "FrontTrial",
    "IncompleteResults",
    "InvalidArgument",
    "InvalidExperiment",
    "MissingPackage",
    "NoResult",
    "NotCreated",
    "NotPossible",
    "ObjectNotFound",
    "PackingError",
    "PodtuneError",
    "Refused",
    "StoreFailed",
    "StoreOptions",
    "Trial",
    "TrialCheckpoint",
    "WaitTimeout",
]
