"""The median stopping rule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from typing_extensions import override

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.scheduler import MedianSettings
from podtune.tuning.numbers import as_number, shorten
from podtune.tuning.schedulers.base import (
    CONTINUE,
    Metrics,
    Record,
    RecordError,
    Scheduler,
    SchedulerAction,
    SchedulerDecision,
    StartDecision,
    require_number,
    require_time,
)
from podtune.tuning.schedulers.curves import Curve, RunningMeans
from podtune.tuning.schedulers.records import format_shortest
from podtune.tuning.searchers.base import Configuration

_TIME_FIELD = "scheduler.median.timeAttribute"
_PAST = {
    SchedulerAction.STOP: "stopped",
    SchedulerAction.PAUSE: "paused",
    SchedulerAction.CONTINUE: "continued",
}


@dataclass(slots=True)
class _Trial:
    """What is known of a trial besides its curve.

    Attributes:
        best: The best value so far, in Ray's sense: a NaN that came first stays.
        gave_way: When it was last paused for others to run; minus infinity where never.
        judged: Whether it was found worse than the median, so that it is not looked at again.
    """

    best: float | None = None
    gave_way: float = -math.inf
    judged: bool = False


class Median(Scheduler):
    """Stops a trial whose best value is worse than the median of what others had reached on average by then.

    After each result, the bar is the median of what the others had on average up to that time. It needs no rungs, and
    no idea of how long trials are. Only a trial that is worse than half of the others is stopped, so it is the mildest
    of the schedulers.

    Example:
        scheduler:
          median: {timeAttribute: epoch, gracePeriod: 5, minSamples: 5}

    Settings:
        timeAttribute: The metric that measures a trial's progress, such as `epoch`. It must never decrease.
        gracePeriod: No trial is stopped before this, and earlier results don't count for means. Raise it if curves
            cross early.
        minSamples: No trial is stopped until this many others have come as far. The larger it is, the longer the first
            ones run.
        minTime: With too few trials to compare with, a trial that has run longer than this is paused if others wait.
            Without it, the first trials keep their slots.
        softStop: The trial is paused instead of stopped, and resumes when no new trial waits. Nothing is lost, but bad
            trials use slots at the end.

    Golovin et al., "Google Vizier: A Service for Black-Box Optimization", KDD 2017, section 3.2.2,
    https://research.google/pubs/pub46180/, as Ray Tune 2.60 implements it in `MedianStoppingRule`; the decisions are
    the same ones. Where that differs from the paper:

    - A trial's best value so far is compared with the median of the others' means; the paper has the best up to the
      step against the median of the means up to it, of completed trials only. Here all trials count that have got as
      far, whether they still run or not.
    - The others' means begin at the grace period; the trial's own best value may lie before it.
    - The end of a trial is one more result: its last one counts twice in its mean.
    - NaN and infinities: a mean that is not finite is left out of the median. A trial whose first value is NaN is
      stopped as soon as there is a median, whatever it reports later; a later NaN is passed over.
    - With `softStop` a trial is not stopped but paused, and goes on, never to be judged again, when no new trial waits.
    - Trials may give way to others while there are too few of them to compare with. Ray's do always, if others wait;
      here it takes `minTime`, since a pause costs the start of a pod.

    Its record is the trial's curve from the grace period on, {"curve": {"0": "5@0.71 0.74"}}, and {"median": {…}} with
    the best value, when it last gave way, and whether it was judged. It grows with every result.
    """

    def __init__(self, settings: MedianSettings, objective: Objective) -> None:
        self._settings = settings
        self._metric = objective.metric
        self._mode: Literal["max", "min"] = objective.mode
        self._sign = 1.0 if objective.mode == "max" else -1.0
        self._trials: dict[int, _Trial] = {}
        self._means = RunningMeans()

    @property
    @override
    def time_attribute(self) -> str:
        return self._settings.time_attribute

    @property
    @override
    def records_every_result(self) -> bool:
        return True

    @override
    def on_trial_add(self, trial: int, configuration: Configuration) -> None:
        self._trials[trial] = _Trial()
        self._means.enter(trial, Curve())

    @override
    def on_result(self, trial: int, metrics: Metrics, *, waiting: int = 0) -> SchedulerDecision:
        """Compares the trial's best value with the median of the others' means."""
        time = require_time(metrics, self.time_attribute, _TIME_FIELD)
        value = require_number(metrics, self._metric)
        state = self._trials[trial]
        if state.judged:
            return CONTINUE
        improved = state.best is None or self._sign * value > self._sign * state.best
        if improved:
            state.best = value
        if time < self._settings.grace_period:
            return SchedulerDecision(SchedulerAction.CONTINUE, recorded=improved)
        means = self._means.list_means(time)
        if len(means) < self._settings.min_samples:
            decision = self._decide_with_too_few(state, time, len(means), waiting)
        else:
            decision = self._compare(state, time, means)
        self._means.add(trial, time, value)
        return decision

    @override
    def on_trial_complete(self, trial: int, metrics: Metrics) -> bool:
        """Adds the last result to the curve once more; one that lacks a metric is passed over."""
        time = as_number(metrics.get(self.time_attribute))
        value = as_number(metrics.get(self._metric))
        earliest = max(self._settings.grace_period, self._means.get_curve(trial).last)
        if time is None or value is None or not earliest <= time < math.inf:
            return False
        self._means.add(trial, time, value)
        return True

    @override
    def forget(self, trial: int) -> None:
        """Takes the trial's curve out: later trials aren't compared with it."""
        self._trials.pop(trial, None)
        self._means.remove(trial)

    @override
    def choose(self, waiting: Sequence[int]) -> StartDecision | None:
        """Picks the first in the queue of those that were never paused, or else the first."""
        return StartDecision(next((trial for trial in waiting if not self._was_paused(trial)), waiting[0]))

    @override
    def record(self, trial: int) -> Record:
        state = self._trials[trial]
        if state.best is None:
            return self._means.get_curve(trial).record()
        known = {"best": format_shortest(state.best)}
        if state.gave_way > -math.inf:
            known["gaveWay"] = format_shortest(state.gave_way)
        if state.judged:
            known["judged"] = "true"
        return {"median": known} | self._means.get_curve(trial).record()

    @override
    def restore(self, trial: int, record: Record, configuration: Configuration) -> None:
        known: Mapping[str, str] = record.get("median", {})
        try:
            curve = Curve.parse(record)
            best = known.get("best")
            state = _Trial(
                best=None if best is None else float(best),
                gave_way=float(known.get("gaveWay", "-inf")),
                judged=known.get("judged") == "true",
            )
        except ValueError as error:
            raise RecordError(
                f"trial {trial}: status.scheduler can't be read: {error}; correct it, or delete the trial"
            ) from error
        self._trials[trial] = state
        self._means.enter(trial, curve)

    def _was_paused(self, trial: int) -> bool:
        state = self._trials[trial]
        return state.judged or state.gave_way > -math.inf

    def _decide_with_too_few(self, state: _Trial, time: float, samples: int, waiting: int) -> SchedulerDecision:
        """Gives the slot to another trial, once the trial has had it for long enough."""
        min_time = self._settings.min_time
        if min_time is None or not waiting or time - state.gave_way <= min_time:
            return SchedulerDecision(SchedulerAction.CONTINUE, recorded=True)
        state.gave_way = time
        needed = self._settings.min_samples
        return SchedulerDecision(
            SchedulerAction.PAUSE,
            message=(
                f"gave way at {self.time_attribute} {shorten(time)}: only {samples} of {needed} samples to compare "
                f"with, {waiting} others wait"
            ),
            inputs={"time": time, "samples": samples, "minSamples": needed, "waiting": waiting},
            recorded=True,
        )

    def _compare(self, state: _Trial, time: float, means: Sequence[float]) -> SchedulerDecision:
        """Stops the trial if its best value is worse than the median; a narrow escape is worth a message, too."""
        best = math.nan if state.best is None else state.best
        median = find_median(means, 0, len(means))
        inputs: dict[str, float | int | str] = {"time": time, "metric": self._metric}
        inputs |= {"median": median, "samples": len(means)} | ({} if math.isnan(best) else {"best": best})
        if self._is_worse(best, median):
            state.judged = self._settings.soft_stop
            action = SchedulerAction.PAUSE if self._settings.soft_stop else SchedulerAction.STOP
            message = self._write_message(action, time, best, median, len(means))
            return SchedulerDecision(action, message, inputs, recorded=True)
        if len(means) > 1 and self._is_worse(best, self._find_median_without_worst(means)):
            message = self._write_message(SchedulerAction.CONTINUE, time, best, median, len(means))
            return SchedulerDecision(SchedulerAction.CONTINUE, message, inputs, recorded=True)
        return SchedulerDecision(SchedulerAction.CONTINUE, recorded=True)

    def _write_message(self, action: SchedulerAction, time: float, best: float, median: float, samples: int) -> str:
        continues = action is SchedulerAction.CONTINUE  # a message says so only where one trial made the difference
        side = "below" if self._mode == "max" else "above"
        if math.isnan(best):
            finding = f"its first {self._metric} was NaN, which is worse than"
        else:
            finding = f"its best {self._metric} {shorten(best, median)} is {'not ' if continues else ''}{side}"
        moment = f"at {self.time_attribute} {shorten(time)}{', by one trial' if continues else ''}"
        return (
            f"{_PAST[action]} {moment}: {finding} the median {shorten(median, best)} of the means of {samples} trials "
            "up to then"
        )

    def _is_worse(self, best: float, median: float) -> bool:
        """Whether a value is worse than a median; NaN always is."""
        return not self._sign * best >= self._sign * median

    def _find_median_without_worst(self, means: Sequence[float]) -> float:
        first = 1 if self._mode == "max" else 0
        return find_median(means, first, first + len(means) - 1)


def find_median(ordered: Sequence[float], start: int, stop: int) -> float:
    """The median of a stretch, at least one long, of numbers in ascending order, as NumPy computes it."""
    half = (start + stop) // 2
    if (stop - start) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2
