"""Asynchronous successive halving (ASHA), promotion variant."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from typing_extensions import override

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.scheduler import AshaPromotionSettings
from podtune.tuning.numbers import shorten
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
from podtune.tuning.schedulers.halving.decisions import keep_paused, stop_at_max_time
from podtune.tuning.schedulers.halving.rungs import Promotion, PromotionRung, PromotionRungEntry, draw_index
from podtune.tuning.schedulers.records import RecordReader
from podtune.tuning.searchers.base import Configuration

_TIME_FIELD = "scheduler.ashaPromotion.timeAttribute"


@dataclass(slots=True)
class _RungPosition:
    """Where a trial is among the rungs.

    Attributes:
        bracket: How many of the lowest rungs it passes by.
        rung: The highest rung that it has come to; -1 before the first.
        paused: Whether it is paused there.
    """

    bracket: int
    rung: int = -1
    paused: bool = False

    @property
    def target(self) -> int:
        """The rung that it runs for."""
        return max(self.rung + 1, self.bracket)


class AshaPromotion(Scheduler):
    """Pauses every trial at every rung, and resumes the best of a rung as slots become free.

    Each trial runs to the lowest rung, writes a checkpoint and gives its slot back. Whenever a slot is free, the best
    paused trial of the highest rung continues from its checkpoint if it is among the top of that rung; otherwise a new
    trial starts. So a trial that looked bad can still be resumed when it turns out to be better than those that came
    later.

    Example:
        scheduler:
          ashaPromotion: {maxTime: 81, gracePeriod: 1, reductionFactor: 3}

    Settings:
        timeAttribute: The metric that measures a trial's progress, such as `epoch`. It must never decrease.
        maxTime: A trial is stopped here. Set it to the full training of a good configuration.
        gracePeriod: The lowest rung. Every trial runs at least this far.
        reductionFactor: Each rung is this many times as high as the one below it, and about one in this many trials is
            promoted. The larger it is, the fewer pauses a trial has.
        brackets: With more than one, some trials are paused for the first time at a higher rung.

    Li et al., "A System for Massively Parallel Hyperparameter Tuning", MLSys 2020, https://arxiv.org/abs/1810.05934, as
    Syne Tune 0.13 implements it in `HyperbandScheduler(type="promotion")`; the decisions are the same ones. Where that
    differs from the paper:

    - Rung j promotes its best r_j / r_(j+1), which is less than 1 / reductionFactor for the highest rung where maxTime
      is no power of it, by a linear quantile of all that have come to the rung, not by counting: of two trials at a
      rung one goes on at once, where the paper waits for reductionFactor of them.
    - No rung is at maxTime itself: a trial that gets there is stopped, and recorded nowhere.
    - Trials of all brackets share the rungs; a trial's bracket says only at which rung it is paused first. It is drawn
      with a probability proportional to the number of trials that the bracket would have in synchronous HyperBand.

    Where this differs from Syne Tune:

    - A result beyond the rung that a trial runs for counts at that rung; Syne Tune gives up.
    - NaN ranks last and is never promoted; Syne Tune's order is undefined then.
    - A trial that was promoted and has yet to start, or is retried, comes before further promotions.

    Its record is the trial's values at the rungs and its number among those that came there, {"rungs": {"1": "0.71",
    "3": "0.902"}, "arrivals": {"1": "17", "3": "4"}}, the highest rung that it was promoted from, {"promoted": {"from":
    "1"}}, and, where there is more than one bracket, {"bracket": {"index": "0"}}.
    """

    def __init__(self, settings: AshaPromotionSettings, objective: Objective, seed: int) -> None:
        self._settings = settings
        self._metric = objective.metric
        self._mode: Literal["max", "min"] = objective.mode
        self._sign = 1.0 if objective.mode == "max" else -1.0
        self._seed = seed
        levels = (*settings.levels, settings.max_time)
        self._rungs = tuple(
            PromotionRung(level, level / above, self._mode) for level, above in itertools.pairwise(levels)
        )
        self._weights = compute_bracket_weights(levels, settings.brackets)
        self._positions: dict[int, _RungPosition] = {}
        self._unpaused: dict[int, None] = {}
        """Trials that aren't paused, and have not ended as far as is known: few, where the paused ones may be many."""

    @property
    @override
    def time_attribute(self) -> str:
        return self._settings.time_attribute

    @override
    def on_trial_add(self, trial: int, configuration: Configuration) -> None:
        """Draws the trial's bracket."""
        drawn = draw_index(self._weights, build_generator(self._seed, "ashaPromotion", "bracket", trial))
        self._positions[trial] = _RungPosition(drawn)
        self._unpaused[trial] = None

    @override
    def on_result(self, trial: int, metrics: Metrics, *, waiting: int = 0) -> SchedulerDecision:
        """Pauses the trial when it has come to the rung that it runs for."""
        time = require_number(metrics, self.time_attribute, _TIME_FIELD)
        value = require_number(metrics, self._metric)
        position = self._positions[trial]
        if time >= self._settings.max_time:
            return stop_at_max_time(self.time_attribute, time, self._settings.max_time)
        if position.paused:
            return keep_paused(self._rungs[position.rung].milestone)
        if position.target == len(self._rungs) or time < self._rungs[position.target].milestone:
            return CONTINUE
        return self._arrive(trial, position, value)

    @override
    def on_trial_complete(self, trial: int, metrics: Metrics) -> bool:
        """Changes no record: others are still compared with what the trial has reached."""
        self._unpaused.pop(trial, None)
        return False

    @override
    def on_trial_remove(self, trial: int) -> None:
        """Has the trial never be resumed; others are still compared with it."""
        self._unpaused.pop(trial, None)
        for rung in self._rungs:
            rung.give_up(trial)

    @override
    def forget(self, trial: int) -> None:
        """Takes the trial out of the rungs: later trials aren't compared with it."""
        self._positions.pop(trial, None)
        self._unpaused.pop(trial, None)
        for rung in self._rungs:
            rung.remove(trial)

    @override
    def choose(self, waiting: Sequence[int]) -> StartDecision | None:
        """Picks a trial that was promoted before; else the best of the highest rung; else the first that isn't paused.

        A promotion is recorded, so that the next question has the same answer.
        """
        unpaused = [trial for trial in self._unpaused if trial in waiting]
        if len(unpaused) > 1:
            unpaused = [trial for trial in waiting if trial in self._unpaused]
        for trial in unpaused:
            if self._positions[trial].rung >= 0:
                return self._start_again(trial)
        for index in reversed(range(len(self._rungs))):
            promotion = self._rungs[index].find_promotable(waiting)
            if promotion is not None:
                return self._promote(index, promotion)
        return StartDecision(unpaused[0]) if unpaused else None

    @override
    def rungs_passed(self, trial: int) -> int:
        """How many rungs the trial was promoted from."""
        position = self._positions[trial]
        return max(0, position.target - position.bracket - position.paused)

    @override
    def record(self, trial: int) -> Record:
        """The trial's values at the rungs, lowest first, written so that reading them gives the same floats."""
        position = self._positions[trial]
        record: dict[str, dict[str, str]] = {}
        been = [rung for rung in self._rungs if trial in rung]
        if been:
            record["rungs"] = {str(rung.milestone): repr(self._sign * rung[trial].reward) for rung in been}
            record["arrivals"] = {str(rung.milestone): str(rung[trial].number) for rung in been}
        promoted = [rung.milestone for rung in been if rung[trial].promoted]
        if promoted:
            record["promoted"] = {"from": str(promoted[-1])}
        if len(self._weights) > 1:
            record["bracket"] = {"index": str(position.bracket)}
        return record

    @override
    def restore(self, trial: int, record: Record, configuration: Configuration) -> None:
        self.on_trial_add(trial, configuration)
        reader = RecordReader(trial, record)
        position = self._positions[trial]
        if "bracket" in record:
            position.bracket = reader.read_integer("bracket", "index", most=len(self._weights) - 1)
        promoted_from = reader.read_integer("promoted", "from") if "promoted" in record else -1
        written = reader.list_keys("rungs")
        reader.check_rungs(rung.milestone for rung in self._rungs[position.bracket :])
        for rung in self._rungs[position.bracket : position.bracket + len(written)]:
            key = str(rung.milestone)
            reward = self._sign * reader.read_number("rungs", key)
            rung.restore(
                trial,
                PromotionRungEntry(
                    reward, reader.read_integer("arrivals", key), promoted=rung.milestone <= promoted_from
                ),
            )
        if written:
            position.rung = position.bracket + len(written) - 1
            self._restore_pause(trial, position, promoted_from, reader)

    def _restore_pause(self, trial: int, position: _RungPosition, promoted_from: int, reader: RecordReader) -> None:
        highest = self._rungs[position.rung].milestone
        below = self._rungs[position.rung - 1].milestone if position.rung > position.bracket else -1
        if promoted_from not in (highest, below):
            reader.refuse("promoted", "from", f"but the highest rung is {highest}; correct it or remove the record")
        position.paused = promoted_from < highest
        if position.paused:
            del self._unpaused[trial]

    def _arrive(self, trial: int, position: _RungPosition, value: float) -> SchedulerDecision:
        rung = self._rungs[position.target]
        reward = self._sign * value
        rung.add(trial, reward)
        position.rung, position.paused = position.target, True
        self._unpaused.pop(trial, None)
        rank, arrived = rung.rank(reward), len(rung)
        what = f"{shorten(value)} is number {rank} of {arrived} there"
        if math.isnan(value):
            what = f"is NaN, which ranks last of {arrived} there"
        return SchedulerDecision(
            SchedulerAction.PAUSE,
            message=f"paused at rung {rung.milestone}: {self._metric} {what}",
            inputs={
                "rung": rung.milestone,
                "metric": self._metric,
                "value": value,
                "rank": rank,
                "arrived": arrived,
            },
            recorded=True,
            milestone=rung.milestone,
        )

    def _start_again(self, trial: int) -> StartDecision:
        position = self._positions[trial]
        milestone, target = self._rungs[position.rung].milestone, self._find_milestone(position.target)
        return StartDecision(
            trial,
            message=f"continues to {self.time_attribute} {target}: already promoted from rung {milestone}",
            inputs={"rung": milestone, "target": target},
        )

    def _promote(self, index: int, promotion: Promotion) -> StartDecision:
        rung, target = self._rungs[index], self._find_milestone(index + 1)
        rung.promote(promotion.trial)
        self._positions[promotion.trial].paused = False
        self._unpaused[promotion.trial] = None
        value, cutoff = self._sign * promotion.reward, self._sign * promotion.cutoff
        return StartDecision(
            promotion.trial,
            message=(
                f"promoted from rung {rung.milestone} to {target}: {self._metric} {shorten(value, cutoff)} is the "
                f"best of {promotion.paused} paused there and not {'below' if self._mode == 'max' else 'above'} the "
                f"cutoff {shorten(cutoff, value)} (top {rung.share:.3g} of {promotion.arrived})"
            ),
            inputs={
                "rung": rung.milestone,
                "target": target,
                "metric": self._metric,
                "value": value,
                "cutoff": cutoff,
                "arrived": promotion.arrived,
                "paused": promotion.paused,
            },
            recorded=True,
        )

    def _find_milestone(self, index: int) -> int:
        return self._rungs[index].milestone if index < len(self._rungs) else self._settings.max_time


def compute_bracket_weights(levels: Sequence[int], brackets: int) -> tuple[float, ...]:
    """How often each bracket is drawn, relative to the others; the last of the levels is the maximum time."""
    return tuple(len(levels) / ((len(levels) - s) * levels[s]) for s in range(min(brackets, len(levels))))
