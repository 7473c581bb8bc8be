"""The trace of a simulation: the best result over time, and the decisions."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from podtune.api.resources.experiment import ExperimentStatus
from podtune.api.resources.trial import LedgerEntry, TrialStatus
from podtune.api.tuning.objective import Objective
from podtune.protocol.messages import read_number
from podtune.runner.records import Trial
from podtune.simulation.clock import Clock
from podtune.simulation.cluster import GpuPool
from podtune.tuning.schedulers.base import Metrics
from podtune.tuning.searchers.base import Configuration


@dataclass(frozen=True, slots=True)
class Improvement:
    """A result that was better than all before it.

    Attributes:
        seconds: Virtual time since the experiment began.
        gpu_hours: GPU time that the experiment had used until then.
    """

    seconds: float
    value: float
    trial: str
    iteration: int
    gpu_hours: float


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision as a Trial's ledger records it, and when, in virtual seconds since the experiment began."""

    seconds: float
    trial: str
    entry: LedgerEntry


@dataclass(frozen=True, slots=True)
class Started:
    """The start of an attempt, with what it trains with, in virtual seconds since the experiment began."""

    seconds: float
    pod: str
    configuration: Configuration


class Trace:
    """Records results, starts and decisions; its size grows with the number of trials, not with that of results."""

    def __init__(self, objective: Objective, clock: Clock, gpus: GpuPool) -> None:
        """Makes the trace of an experiment that begins now."""
        self._objective = objective
        self._clock = clock
        self._gpus = gpus
        self._began = clock.now
        self._best: float | None = None
        self.results = 0
        self.improvements: list[Improvement] = []
        self.decisions: list[Decided] = []
        self.starts: list[Started] = []

    @property
    def seconds(self) -> float:
        """Virtual time since the experiment began."""
        return self._clock.now - self._began

    def record_result(self, trial: str, iteration: int, metrics: Metrics) -> None:
        """Records a result."""
        self.results += 1
        value = read_number(metrics, self._objective.metric)
        if value is not None and self._objective.is_better(value, self._best):
            self._best = value
            self.improvements.append(Improvement(self.seconds, value, trial, iteration, self._gpus.hours))

    def record_start(self, pod: str, configuration: Configuration) -> None:
        """Records that a pod is made."""
        self.starts.append(Started(self.seconds, pod, configuration))

    def record_decisions(self, trial: str, before: TrialStatus, after: TrialStatus) -> None:
        """Records the decisions that the ledger of a status that is written holds in addition."""
        known = before.ledger[-1].number if before.ledger else 0
        self.decisions += [Decided(self.seconds, trial, entry) for entry in after.ledger if entry.number > known]


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """How a simulated experiment went.

    Attributes:
        status: The Experiment's status at its end.
        trials: All Trials, as they were recorded last, by index.
        improvements: The best result over time.
        decisions: All that the trials' ledgers have held, in the order of writing.
        starts: All attempts, in the order of their starts.
        results: How many results were reported.
        seconds: How long it took, in virtual time.
        gpu_hours: GPU time of all pods.
        optimum: The best possible value; None if it is not known.
    """

    status: ExperimentStatus
    trials: tuple[Trial, ...]
    improvements: tuple[Improvement, ...]
    decisions: tuple[Decided, ...]
    starts: tuple[Started, ...]
    results: int
    seconds: float
    gpu_hours: float
    optimum: float | None

    @property
    def best(self) -> Improvement | None:
        """The best result; None where there is none."""
        return self.improvements[-1] if self.improvements else None

    def compute_regret(self, improvement: Improvement) -> float | None:
        """How far a result is from the optimum; None where that is not known."""
        return None if self.optimum is None else abs(improvement.value - self.optimum)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all proposals, starts and decisions: equal if and only if two simulations decided the same."""
        digest = hashlib.sha256()
        for trial in self.trials:
            digest.update(_encode([trial.name, trial.spec.parameters]))
        for start in self.starts:
            digest.update(_encode([start.pod, dict(start.configuration)]))
        for decided in self.decisions:
            digest.update(_encode([decided.trial, decided.entry.model_dump(mode="json")]))
        return digest.hexdigest()


def _encode(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
