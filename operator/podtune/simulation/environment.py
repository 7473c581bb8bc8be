"""The simulated environment of pods: all that they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from podtune.api.resources.checkpoints import Sync
from podtune.api.resources.experiment import ExperimentSpec
from podtune.protocol.messages import Reply, Report
from podtune.runner.experiment_machine import Unaccepted
from podtune.runner.records import Pod
from podtune.simulation.bucket import Bucket
from podtune.simulation.clock import Clock
from podtune.simulation.cluster import ClusterModel, GpuPool
from podtune.simulation.curves.base import Curves
from podtune.simulation.trace import Trace


class SimReportHandler(Protocol):
    """Who hears agents."""

    def post(self, trial: str, pod: str, report: Report) -> Reply | Unaccepted | None:
        """An agent posts; None where no answer comes."""


class SimOperator(SimReportHandler, Protocol):
    """Who watches pods and hears agents."""

    def observe_pod(self, pod: Pod) -> None:
        """There is a new version of a pod."""


@dataclass(frozen=True, slots=True)
class AgentEnvironment:
    """What agents share.

    Attributes:
        clock: Virtual time.
        bucket: Where checkpoints are stored.
        operator: Who is told of results.
        prefix: What the URIs of checkpoints begin with; empty where there is no store.
        sync: How long storing a checkpoint may take, and how often it is tried.
        upload_seconds: How long it takes; infinity for as long as it may.
        metric: The metric that checkpoints tell of: that of training.
    """

    clock: Clock
    bucket: Bucket
    operator: SimReportHandler
    prefix: str
    sync: Sync
    upload_seconds: float
    metric: str


@dataclass(frozen=True, slots=True)
class SimEnvironment(AgentEnvironment):
    """A simulated cluster.

    Attributes:
        operator: Who is told of what happens in it.
        drain: Seconds that an agent may go on storing checkpoints once the program has ended.
        grace_period: Seconds that a pod is given to end, program and agent together.
        spec: What is asked for.
        seed: Seeds failures and the variation of start times.
    """

    operator: SimOperator
    model: ClusterModel
    gpus: GpuPool
    curves: Curves
    trace: Trace
    time_attribute: str
    drain: float
    grace_period: float
    spec: ExperimentSpec
    seed: int
