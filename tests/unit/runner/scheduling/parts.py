"""The parts that decide on results and starts, around a scheduler that says what a test has it say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from typing_extensions import override

from podtune.api.resources.experiment import ExperimentSpec
from podtune.runner.checkpoints.end_retention import EndRetention
from podtune.runner.checkpoints.pins import CheckpointPins
from podtune.runner.experiment.ending import ExperimentEnd
from podtune.runner.experiment.status_write_throttle import StatusWriteThrottle
from podtune.runner.scheduling.exploits import Exploits
from podtune.runner.scheduling.pending_queue import PendingQueue
from podtune.runner.scheduling.result_processor import ResultProcessor
from podtune.runner.search.session import Search
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trials import Trials
from podtune.tuning.schedulers.base import CONTINUE, Metrics, Record, SchedulerDecision, StartDecision
from podtune.tuning.schedulers.fifo import Fifo
from podtune.tuning.searchers.base import Configuration
from podtune.tuning.stoppers.factory import make_trial_stopper
from tests.unit.runner.objects import make_spec


class DictatedScheduler(Fifo):
    """Answers what a test has it answer, and notes what it is told."""

    def __init__(self) -> None:
        self.answer: SchedulerDecision | Exception = CONTINUE
        """To every result."""
        self.start: StartDecision | None = None
        """What runs next; None for none, where that is asked for."""
        self.in_order = True
        """Whether the first in the queue runs next, whatever `start` is."""
        self.records: dict[int, Record] = {}
        self.rungs: dict[int, int] = {}
        self.every_result = False
        self.completion_changes_record = False
        self.told: list[str] = []
        self.shown: list[Metrics] = []
        self.waiting: list[int] = []

    @override
    def on_result(self, trial: int, metrics: Metrics, *, waiting: int = 0) -> SchedulerDecision:
        self.shown.append(metrics)
        self.waiting.append(waiting)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    @override
    def choose(self, waiting: Sequence[int]) -> StartDecision | None:
        return super().choose(waiting) if self.in_order else self.start

    @override
    def record(self, trial: int) -> Record:
        return self.records.get(trial, {})

    @override
    def restore(self, trial: int, record: Record, configuration: Configuration) -> None:
        self.told.append(f"restore {trial}")

    @override
    def on_trial_add(self, trial: int, configuration: Configuration) -> None:
        self.told.append(f"add {trial}")

    @override
    def on_trial_complete(self, trial: int, metrics: Metrics) -> bool:
        self.told.append(f"complete {trial} {metrics}")
        return self.completion_changes_record

    @override
    def on_trial_hold(self, trial: int) -> None:
        self.told.append(f"hold {trial}")

    @override
    def on_trial_release(self, trial: int) -> None:
        self.told.append(f"release {trial}")

    @override
    def on_configuration(self, trial: int, configuration: Configuration) -> None:
        self.told.append(f"configuration {trial} {configuration}")

    @override
    def rungs_passed(self, trial: int) -> int:
        return self.rungs.get(trial, 0)

    @property
    @override
    def records_every_result(self) -> bool:
        return self.every_result


@dataclass
class SearchState:
    """As much of a `Search` as is looked at."""

    to_come: int = 0
    learns_from_rungs: bool = False
    learns_from_results: bool = False
    reserved: int = 0

    def reserve_seq(self) -> int:
        self.reserved += 1
        return self.reserved - 1


@dataclass
class EndingRules:
    """As much of an `ExperimentEnd` as is looked at: from which value on the experiment may end."""

    target: float = float("inf")

    def is_decided_by(self, value: float) -> bool:
        return value >= self.target


@dataclass
class Parts:
    """A processor and what it is made of."""

    spec: ExperimentSpec = field(default_factory=make_spec)
    scheduler: DictatedScheduler = field(default_factory=DictatedScheduler)
    search: SearchState = field(default_factory=SearchState)
    rules: EndingRules = field(default_factory=EndingRules)
    queue: PendingQueue = field(default_factory=PendingQueue)
    trials: Trials = field(default_factory=lambda: Trials("e"))
    throttle: StatusWriteThrottle = field(default_factory=StatusWriteThrottle)

    def __post_init__(self) -> None:
        pins = CheckpointPins()
        exploits = Exploits(self.scheduler, self.trials, pins)
        self.processor = ResultProcessor(
            self.scheduler,
            make_trial_stopper(self.spec),
            exploits,
            search=cast("Search", self.search),
            queue=self.queue,
            end=cast("ExperimentEnd", self.rules),
            throttle=self.throttle,
            end_retention=EndRetention("e", self.spec, self.scheduler, exploits, pins),
        )

    def add(self, trial: TrialMachine) -> TrialMachine:
        """One more trial."""
        self.trials[trial.name] = trial
        return trial
