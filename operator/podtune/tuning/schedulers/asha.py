"""Asynchronous successive halving (ASHA), stopping variant."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Literal

from typing_extensions import override

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.scheduler import AshaSettings
from podtune.tuning.numbers import as_number, shorten
from podtune.tuning.randomness import build_generator
from podtune.tuning.schedulers.base import (
    CONTINUE,
    Metrics,
    Record,
    Scheduler,
    SchedulerAction,
    SchedulerDecision,
    StartDecision,
    require_number,
)
from podtune.tuning.schedulers.halving.decisions import stop_at_max_time
from podtune.tuning.schedulers.halving.rungs import Bracket, Rung, draw_index
from podtune.tuning.schedulers.records import RecordReader
from podtune.tuning.searchers.base import Configuration

_TIME_FIELD = "scheduler.asha.timeAttribute"


class Asha(Scheduler):
    """Stops a trial that is below the best 1/reductionFactor of those that reached the same rung before it.

    A trial is compared when it reaches a rung: at `gracePeriod`, and at each `reductionFactor` times the rung before.
    It continues if it is in the top 1/`reductionFactor` of the trials that reached the rung before it, and is stopped
    otherwise. Trials never wait for each other, so no slot is ever idle, and no checkpoint is needed. It suits many
    trials that report often.

    Example:
        scheduler:
          asha: {maxTime: 81, gracePeriod: 1, reductionFactor: 3}

    Settings:
        timeAttribute: The metric that measures a trial's progress, such as `epoch`. It must never decrease.
        maxTime: A trial is stopped here. Set it to the full training of a good configuration.
        gracePeriod: No trial is stopped before this, which is the lowest rung. Raise it where early values mislead.
        reductionFactor: The larger it is, the fewer trials go on at each rung, and the fewer rungs there are.
        brackets: With more than one, some trials are compared for the first time at a higher rung. That saves
            configurations which start slowly, at the price of fewer that are tried.

    Li et al., "A System for Massively Parallel Hyperparameter Tuning", MLSys 2020, https://arxiv.org/abs/1810.05934, as
    Ray Tune 2.60 implements it in `AsyncHyperBandScheduler`; the decisions are the same ones. Where that differs from
    the paper:

    - Trials are stopped at a rung, not paused there and promoted later: a slot is never idle, and no checkpoint is
      needed.
    - A newcomer is compared with the linear percentile of the trials recorded before it, itself left out, and stopped
      only strictly below it. So the first trial at a rung goes on, and so does each one that equals the cutoff.
    - A result is recorded at the highest rung reached alone. Where it skipped lower ones, the following results fill
      them one by one, each with its own, later value, and may be stopped there.
    - At `maxTime` a trial is stopped and that result recorded nowhere; but the end of a trial is one more result, which
      is recorded like any other.
    - NaN stops nothing: it is recorded, and left out of the percentile.
    - Brackets are drawn with a probability proportional to e^(number of rungs).

    Its record is the trial's values at the rungs, {"rungs": {"1": "0.71", "3": "0.902"}}, and, where there is more than
    one bracket, {"bracket": {"index": "0"}}.
    """

    def __init__(self, settings: AshaSettings, objective: Objective, seed: int) -> None:
        self._settings = settings
        self._metric = objective.metric
        self._mode: Literal["max", "min"] = objective.mode
        self._sign = 1.0 if objective.mode == "max" else -1.0
        self._seed = seed
        self._brackets = tuple(
            Bracket(settings.grace_period, settings.max_time, settings.reduction_factor, skipped)
            for skipped in range(settings.brackets)
        )
        self._bracket_of: dict[int, int] = {}

    @property
    @override
    def time_attribute(self) -> str:
        return self._settings.time_attribute

    @override
    def on_trial_add(self, trial: int, configuration: Configuration) -> None:
        """Draws the trial's bracket."""
        rungs = [len(bracket.rungs) for bracket in self._brackets]
        self._bracket_of[trial] = draw_bracket(rungs, build_bracket_generator(self._seed, trial))

    @override
    def on_result(self, trial: int, metrics: Metrics, *, waiting: int = 0) -> SchedulerDecision:
        """Compares the trial at the highest rung that it has reached and is not recorded at."""
        time = require_number(metrics, self.time_attribute, _TIME_FIELD)
        value = require_number(metrics, self._metric)
        if time >= self._settings.max_time:
            return stop_at_max_time(self.time_attribute, time, self._settings.max_time)
        rung = self._get_bracket(trial).find_rung(trial, time)
        return CONTINUE if rung is None else self._decide_at_rung(rung, trial, value)

    @override
    def on_trial_complete(self, trial: int, metrics: Metrics) -> bool:
        """Records the last result as `on_result` does, `maxTime` or not; one that lacks a metric is passed over."""
        time = as_number(metrics.get(self.time_attribute))
        value = as_number(metrics.get(self._metric))
        if time is None or value is None:
            return False
        rung = self._get_bracket(trial).find_rung(trial, time)
        if rung is None:
            return False
        rung.enter(trial, self._sign * value)
        return True

    @override
    def forget(self, trial: int) -> None:
        """Takes the trial's values out of the rungs: later trials aren't compared with them."""
        bracket = self._bracket_of.pop(trial, None)
        if bracket is None:
            return
        for rung in self._brackets[bracket].rungs:
            rung.remove(trial)

    @override
    def choose(self, waiting: Sequence[int]) -> StartDecision | None:
        return StartDecision(waiting[0])

    @override
    def rungs_passed(self, trial: int) -> int:
        """How many rungs of its bracket a trial has come past, those that it skipped included."""
        rungs = self._get_bracket(trial).rungs
        return next((len(rungs) - index for index, rung in enumerate(rungs) if trial in rung), 0)

    @override
    def record(self, trial: int) -> Record:
        """The trial's values at the rungs, lowest first, written so that reading them gives the same floats."""
        record: dict[str, Mapping[str, str]] = {}
        values = {
            str(rung.milestone): repr(self._sign * rung.rewards[trial])
            for rung in reversed(self._get_bracket(trial).rungs)
            if trial in rung
        }
        if values:
            record["rungs"] = values
        if len(self._brackets) > 1:
            record["bracket"] = {"index": str(self._bracket_of[trial])}
        return record

    @override
    def restore(self, trial: int, record: Record, configuration: Configuration) -> None:
        self.on_trial_add(trial, configuration)
        reader = RecordReader(trial, record)
        if "bracket" in record:
            self._bracket_of[trial] = reader.read_integer("bracket", "index", most=len(self._brackets) - 1)
        rungs = self._get_bracket(trial).rungs[::-1]
        reader.check_rungs(rung.milestone for rung in rungs)
        for rung in rungs:
            if (milestone := str(rung.milestone)) in reader.list_keys("rungs"):
                rung.enter(trial, self._sign * reader.read_number("rungs", milestone))

    def _get_bracket(self, trial: int) -> Bracket:
        return self._brackets[self._bracket_of[trial]]

    def _decide_at_rung(self, rung: Rung, trial: int, value: float) -> SchedulerDecision:
        reward = self._sign * value
        cutoff = rung.compute_cutoff(self._settings.reduction_factor)
        peers = rung.ranked
        rung.enter(trial, reward)
        stopped = cutoff is not None and reward < cutoff
        inputs: dict[str, float | int | str] = {"rung": rung.milestone, "metric": self._metric, "value": value}
        if cutoff is not None:
            inputs |= {"cutoff": self._sign * cutoff, "peers": peers}
        return SchedulerDecision(
            SchedulerAction.STOP if stopped else SchedulerAction.CONTINUE,
            message=self._write_message(
                rung.milestone, value, self._sign * cutoff if cutoff is not None else None, peers
            ),
            inputs=inputs,
            recorded=True,
            milestone=rung.milestone,
        )

    def _write_message(self, milestone: int, value: float, cutoff: float | None, peers: int) -> str:
        went_on = f"continued at rung {milestone}: {self._metric}"
        if math.isnan(value):
            return f"{went_on} is NaN, which never stops a trial"
        if cutoff is None:
            return f"{went_on} {shorten(value)} is the first there"
        compared = f"the cutoff {shorten(cutoff, value)} (top 1/{self._settings.reduction_factor} of {peers})"
        if self._sign * value < self._sign * cutoff:
            side = "below" if self._mode == "max" else "above"
            return f"stopped at rung {milestone}: {self._metric} {shorten(value, cutoff)} is {side} {compared}"
        side = "not below" if self._mode == "max" else "not above"
        return f"{went_on} {shorten(value, cutoff)} is {side} {compared}"


def build_bracket_generator(seed: int, trial: int) -> random.Random:
    """The generator that a trial's bracket is drawn from."""
    return build_generator(seed, "asha", "bracket", trial)


def draw_bracket(rungs: Sequence[int], random_: random.Random) -> int:
    """Draws a bracket with a probability proportional to e^(number of rungs), with one number of the generator."""
    return draw_index([math.e ** (count - max(rungs)) for count in rungs], random_)
