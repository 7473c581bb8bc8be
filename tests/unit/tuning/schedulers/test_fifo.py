from __future__ import annotations

from typing import Literal

from podtune.testing.schedulers import SchedulerConformance
from podtune.tuning.schedulers.base import CONTINUE, Scheduler, StartDecision
from podtune.tuning.schedulers.fifo import Fifo


class TestFifo(SchedulerConformance):
    def make(self, *, seed: int = 7, mode: Literal["max", "min"] = "max") -> Scheduler:
        return Fifo()


def test_a_trial_goes_on_whatever_it_reports() -> None:
    fifo = Fifo()
    fifo.on_trial_add(0, {})
    assert fifo.on_result(0, {"training_iteration": 10**6, "accuracy": -1.0}) == CONTINUE
    assert fifo.on_result(0, {}) == CONTINUE
    assert fifo.record(0) == {}


def test_the_first_in_the_queue_runs_next() -> None:
    assert Fifo().choose([3, 1, 2]) == StartDecision(3)


def test_progress_is_counted_in_iterations() -> None:
    assert Fifo().time_attribute == "training_iteration"
