"""The simulated environment of pods: all that they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from podtune.api.resources.checkpoints import Sync
from podtune.protocol.messages import Reply, Report
from podtune.runner.records import Pod
from podtune.simulation.bucket import Bucket
from podtune.simulation.clock import Clock
from podtune.simulation.cluster import ClusterModel, GpuPool
from podtune.simulation.curves.base import Curves
from podtune.simulation.trace import Trace


class SimOperator(Protocol):
    """Who watches pods and hears agents."""

    def pod_changed(self, pod: Pod) -> None:
        """There is a new version of a pod."""

    def post(self, trial: str, pod: str, report: Report) -> Reply | None:
        """An agent posts; None where it is told that its attempt is over."""


@dataclass(frozen=True, slots=True)
class SimEnvironment:
    """A simulated cluster.

    Attributes:
        operator: Who is told of what happens in it.
        curves: What trials report.
        trace: Records that they did.
        metric: The objective's metric.
        time_attribute: The metric that counts a trial's progress.
        prefix: What the URIs of checkpoints begin with; empty where there is no store.
        sync: How long storing a checkpoint may take, and how often it is tried.
        drain: Seconds that an agent may go on storing checkpoints once the program has ended.
        grace_period: Seconds that a pod is given to end, program and agent together.
        seed: Seeds failures and the variation of start times.
    """

    clock: Clock
    model: ClusterModel
    gpus: GpuPool
    bucket: Bucket
    operator: SimOperator
    curves: Curves
    trace: Trace
    metric: str
    time_attribute: str
    prefix: str
    sync: Sync
    drain: float
    grace_period: float
    seed: int
