"""What every stopper is made of.

A stopper ends a trial or an experiment for reasons that need no comparison with other trials. It consists of criteria,
each of which says whether it holds. A criterion remembers nothing: what must be remembered about a trial's results is
kept, recorded and restored in one place (see `memory`). The inputs of an experiment's criteria follow from its Trials.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from podtune.tuning.schedulers.base import Metrics
from podtune.tuning.searchers.base import Observation


@dataclass(frozen=True, slots=True)
class Window:
    """The last values of a metric.

    Attributes:
        values: Oldest first.
        count: How many there have been.
    """

    values: Sequence[float]
    count: int


@dataclass(frozen=True, slots=True)
class TrialProgress:
    """What is known of a trial.

    Attributes:
        elapsed: Seconds that its program has run, over all attempts.
        metrics: Its last result; between two results, what criteria need of it.
        windows: By metric, the values that are looked at for a plateau.
        findings: By key, what stoppers of other packages found in the last result.
    """

    elapsed: float
    metrics: Metrics = field(default_factory=dict)
    windows: Mapping[str, Window] = field(default_factory=dict)
    findings: Mapping[str, Finding] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExperimentProgress:
    """What is known of an experiment.

    Attributes:
        elapsed: Seconds since its first trial was made.
        best: The best value of the objective; None while there is none.
        best_trial: Name of the trial that has it.
        best_result: The result that it belongs to.
        ended: How many trials have come to an end, a good or a bad one.
        errors: How many of these are in ERROR.
        pod_seconds: How long pods have been on nodes, added up.
        gpu_seconds: The same for each GPU that they held.
        pods: How many are on a node now.
        gpus: How many GPUs these hold.
    """

    elapsed: float
    best: float | None = None
    best_trial: str = ""
    best_result: Metrics = field(default_factory=dict)
    ended: int = 0
    errors: int = 0
    pod_seconds: float = 0.0
    gpu_seconds: float = 0.0
    pods: int = 0
    gpus: float = 0.0


@dataclass(frozen=True, slots=True)
class Finding:
    """That a criterion holds.

    Attributes:
        clause: Why, with its numbers, to stand in a sentence: `epoch 27 is at least 27`.
        inputs: The numbers.
    """

    clause: str
    inputs: Mapping[str, float | int | str]


ProgressT = TypeVar("ProgressT", TrialProgress, ExperimentProgress)


class StopCriterion(ABC, Generic[ProgressT]):
    """Something that holds or does not, of a trial or of an experiment. It does no I/O and knows no clock."""

    @abstractmethod
    def check(self, progress: ProgressT) -> Finding | None:
        """Looks at what is known; None where the criterion does not hold, or what it looks at is missing."""

    def find_deadline(self, progress: ProgressT) -> float | None:  # noqa: ARG002 - most know no time
        """When a criterion that does not hold will come to hold, if nothing happens but that time passes.

        Returns:
            A value of `progress.elapsed`; None where time alone changes nothing.
        """
        return None


class Stopper(ABC):
    """Stops a single trial by a rule of your own: `stop: {trial: [{plugin: {name: …}}]}`.

    Podtune makes one for each trial, so it knows no other trial: to compare trials, write a `Scheduler`. It does no I/O
    and knows no clock; a result's `time_total_s` says how long the trial has trained. What must not be forgotten is in
    its record: a new stopper that `restore` gave this record to finds the same in all later results.
    """

    @abstractmethod
    def on_result(self, metrics: Metrics) -> Finding | None:
        """Looks at the trial's next result; each is shown once, also after a failure or a restart.

        Returns:
            Why the trial is to be stopped, or None if it continues.

        Raises:
            MetricMissing: The result lacks a number that is needed. It is skipped; the trial's message says so.
        """

    @abstractmethod
    def record(self) -> Mapping[str, str]:
        """Returns what has to be remembered of the results so far; empty where nothing has.

        As JSON it may have up to 1,500 characters.
        """

    @abstractmethod
    def restore(self, record: Mapping[str, str]) -> None:
        """Takes in a record, before the first result.

        After a change of `settings` it may be one that was made with the earlier ones.
        """


class ObservationStopper(ABC):
    """Ends the experiment by a rule of your own: `stop: {experiment: [{plugin: {name: …}}]}`.

    It is told what the searcher is told, in the same order, which the Trials record. It does no I/O and knows no clock,
    and so needs no record: a restarted operator makes a new one and tells it everything once more.
    """

    @abstractmethod
    def on_observation(self, observation: Observation) -> Finding | None:
        """Hears of the next trial that has ended; or, if `observation.final` is false, of its value at a rung.

        Returns:
            Why the experiment is to end, or None if it continues. Once it has returned a finding, it is told no more.
        """
