"""HyperBand: synchronous successive halving in brackets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from typing_extensions import override

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.scheduler import HyperbandSettings
from podtune.tuning.numbers import shorten
from podtune.tuning.schedulers.base import (
    CONTINUE,
    Metrics,
    Record,
    Scheduler,
    SchedulerAction,
    SchedulerDecision,
    StartDecision,
    StopPaused,
    require_number,
)
from podtune.tuning.schedulers.halving.decisions import keep_paused
from podtune.tuning.schedulers.halving.halving_bracket import HalvingBracket, Round, RungOutcome, RungResult
from podtune.tuning.schedulers.halving.hyperband_records import read_bracket, read_entry, write_entry
from podtune.tuning.searchers.base import Configuration

BracketId = tuple[int, int]
"""Which bracket: its band, and its position in that."""
_ACTIONS = {
    RungOutcome.WAITING: SchedulerAction.PAUSE,
    RungOutcome.PROMOTED: SchedulerAction.CONTINUE,
    RungOutcome.AHEAD: SchedulerAction.PAUSE,
    RungOutcome.ELIMINATED: SchedulerAction.STOP,
    RungOutcome.FINISHED: SchedulerAction.STOP,
}


class Hyperband(Scheduler):
    """Pauses trials at milestones until their whole bracket has arrived; then the best continue together.

    Trials are grouped into brackets. All trials of a bracket run to its first rung and wait there; then the best
    1/`reductionFactor` continue to the next rung, and the others are stopped. Brackets differ in how early they begin
    to stop trials, so both fast and slow starters have a chance. Trials are compared at exactly the same progress, at
    the price of waiting.

    Example:
        scheduler:
          hyperband: {maxTime: 81, reductionFactor: 3}

    Settings:
        timeAttribute: The metric that measures a trial's progress, such as `epoch`. It must never decrease.
        maxTime: No trial runs beyond this.
        reductionFactor: One in this many of the trials at a rung continues. Together with `maxTime` it determines the
            number and sizes of brackets: 81 and 3 make five, of 5 to 81 trials.

    Li et al., "Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization", JMLR 2018,
    https://arxiv.org/abs/1603.06560, as Ray Tune 2.60 implements it in `HyperBandScheduler`; the decisions are the same
    ones. Where that differs from the paper:

    - maxTime bounds the time of a trial, not the time that its last run takes: a trial that is promoted goes on from
      its checkpoint, and the milestones of a bracket are the sums.
    - The smallest brackets, whose few trials run longest, are filled first; a bracket begins when the one before is
      full.
    - Brackets whose first milestone would be below 1 are left out.
    - Also trials at the last milestone are paused, until all of their bracket are there; then all are stopped.
    - Of trials with equal values the one that was made last is the better.
    - A trial that ends early or fails for good makes room for a new one while its bracket is being filled in the first
      round; later its bracket goes on without it.

    Where this differs from Ray:

    - Ray keeps a trial queued ahead of need, so that a bracket is full when its last trial comes in. Here trials are
      made when there is a slot for them, and a bracket waits until it is full, or the search is over.
    - Where a trial ends early after the first round, or all of a round are beyond the next milestone already, Ray's
      bracket waits for a result that may never come. Here it goes on when nobody is left to wait for.
    - A trial that is retried stays in its bracket; Ray moves it to the bracket that is being filled.
    - A bracket that has ended takes no more trials. Ray's with s = 0 does where no other has begun: it counts the
      trials that are left, and so isn't full any more.
    - NaN ranks last.

    One order of events is not durable. A bracket that goes on because it will get no more trials records that with the
    first of them that is started. Where the operator dies before, and the first thing that happens after its restart is
    that one of these trials is stopped by its user or fails for good, that trial counts as gone before the halving, and
    the next best goes on in its place.

    Its record is the trial's values at the milestones, {"rungs": {"9": "0.71", "27": "0.902"}}, its bracket and how far
    that was, {"bracket": {"band": "0", "s": "2", "round": "1", "time": "27"}}, and the last of those that went on from
    each milestone until then, {"lines": {"9": "0.7 by trial 3 of 9"}}.
    """

    key: ClassVar[str] = "hyperband"
    """The scheduler's name in a manifest."""

    def __init__(self, settings: HyperbandSettings, objective: Objective) -> None:
        self._settings = settings
        self._metric = objective.metric
        self._sign = 1.0 if objective.mode == "max" else -1.0
        self._brackets: dict[BracketId, HalvingBracket] = {}
        self._busy: dict[BracketId, HalvingBracket] = {}
        """The brackets that hold or may get trials that have neither ended nor been stopped."""
        self._bracket_ids: dict[int, BracketId] = {}
        self._unassigned: list[int] = []
        self._search_over = False
        self._restoring = False
        """Whether brackets have to be made anew of what was restored."""
        self._resuming = False
        """Whether they have been, and more trials may be removed that had been before the restart."""
        self._removed: list[int] = []
        """Those that were."""

    @property
    @override
    def time_attribute(self) -> str:
        return self._settings.time_attribute

    @override
    def on_trial_add(self, trial: int, configuration: Configuration) -> None:
        """Puts the trial into the bracket that is being filled, or into a new one."""
        self._unassigned.append(trial)

    @override
    def on_result(self, trial: int, metrics: Metrics, *, waiting: int = 0) -> SchedulerDecision:
        """Pauses the trial when it has reached its milestone; if it is the last one, halves its bracket."""
        time = require_number(metrics, self.time_attribute, f"scheduler.{self.key}.timeAttribute")
        value = require_number(metrics, self._metric)
        self._catch_up()
        bracket = self._get_bracket(trial)
        if bracket.entries[trial].ended:
            return CONTINUE
        if not bracket.may_run(trial):
            return keep_paused(bracket.rounds[bracket.entries[trial].last].milestone)
        if math.isfinite(time):
            bracket.advance(trial, time)
        if not bracket.reaches(trial, time):
            return CONTINUE
        return self._decide(bracket, bracket.record_result(trial, time, self._sign * value), time, value)

    @override
    def on_trial_complete(self, trial: int, metrics: Metrics) -> bool:
        """Has the trial leave its bracket, which may go on without it."""
        self._catch_up()
        bracket = self._get_bracket(trial)
        ended = bracket.entries[trial].ended
        bracket.end(trial)
        return not ended

    @override
    def on_trial_remove(self, trial: int) -> None:
        """Has the trial leave its bracket, which may go on without it."""
        self._assign_trials()
        bracket = self._get_bracket(trial)
        if not self._resuming:
            bracket.end(trial)
        elif not bracket.entries[trial].ended:
            bracket.withdraw(trial)
            self._removed.append(trial)

    @override
    def on_trial_hold(self, trial: int) -> None:
        """Has the trial's bracket go on without it; later it runs to the milestone that the others are bound for."""
        self._assign_trials()
        bracket = self._get_bracket(trial)
        bracket.held.add(trial)
        if not self._resuming:
            bracket.end_finished_rounds()

    @override
    def on_trial_release(self, trial: int) -> None:
        """Has the trial's bracket wait for it again."""
        self._assign_trials()
        self._get_bracket(trial).held.discard(trial)

    @override
    def on_search_over(self) -> None:
        """Has the last bracket go on, full or not."""
        self._search_over = True
        self._catch_up()
        self._close_all_but_last()

    @override
    def forget(self, trial: int) -> None:
        """Makes the trial's bracket anew of what is recorded of the others."""
        for trials in (self._unassigned, self._removed):
            if trial in trials:
                trials.remove(trial)
        bracket_id = self._bracket_ids.pop(trial, None)
        if bracket_id is None:
            return
        bracket = self._brackets[bracket_id]
        del bracket.entries[trial]
        if not bracket.entries:
            del self._brackets[bracket_id]
            self._busy.pop(bracket_id, None)
        if not self._restoring:
            bracket.rebuild()
            if not self._resuming:
                self._close_all_but_last()

    @override
    def choose(self, waiting: Sequence[int]) -> StartDecision | None:
        """Picks the trial that was made first, of the least advanced bracket in the first band with a waiting trial."""
        self._catch_up()
        runnable = (bracket_id for bracket_id, bracket in self._busy.items() if bracket.to_run)
        for bracket_id in sorted(runnable, key=self._build_priority):
            trial = next((trial for trial in self._brackets[bracket_id].to_run if trial in waiting), None)
            if trial is not None:
                return self._start(trial)
        return None

    @override
    def trials_to_stop(self) -> Sequence[StopPaused]:
        """Those that were not among the best of their bracket, and all at the last milestone."""
        self._catch_up()
        for bracket_id in [bracket_id for bracket_id, bracket in self._busy.items() if bracket.is_done]:
            del self._busy[bracket_id]
        return [
            self._stop_paused(bracket, trial, round_)
            for _, bracket in sorted(self._busy.items())
            for trial, round_ in sorted(bracket.eliminated.items())
        ]

    @override
    def rungs_passed(self, trial: int) -> int:
        """How many halvings of its bracket the trial has survived."""
        self._catch_up()
        bracket = self._get_bracket(trial)
        return bracket.round if bracket.is_live(trial) else max(0, len(bracket.entries[trial].rewards) - 1)

    @override
    def on_progress(self, trial: int, time: float) -> None:
        """Counts it as done: of brackets in the same band, the one that is least far comes first."""
        if trial in self._bracket_ids and self._get_bracket(trial).entries[trial].time < time:
            self._get_bracket(trial).advance(trial, float(time))

    @override
    def record(self, trial: int) -> Record:
        """The trial's values and its bracket, written so that reading them gives the same floats."""
        if self._removed or trial not in self._bracket_ids:
            self._catch_up()
        band, _ = self._bracket_ids[trial]
        bracket = self._get_bracket(trial)
        return write_entry(bracket.entries[trial], band, bracket.rounds, self._sign)

    @override
    def restore(self, trial: int, record: Record, configuration: Configuration) -> None:
        if not record:
            self.on_trial_add(trial, configuration)
            return
        band, rungs = read_bracket(trial, record, self._settings.most_rungs)
        bracket_id = (band, next(at for at in range(self._settings.sizes) if self._count_rungs(at) == rungs))
        bracket = self._brackets.get(bracket_id) or self._make_bracket(bracket_id[1])
        bracket.entries[trial] = read_entry(trial, record, bracket.rounds, self._sign)
        self._brackets[bracket_id] = bracket
        self._bracket_ids[trial] = bracket_id
        self._restoring = True

    # Brackets

    def _count_rungs(self, position: int) -> int:
        """How many halvings the bracket at a position of a band has."""
        return position

    def _build_priority(self, bracket_id: BracketId) -> tuple[float, ...]:
        """By which brackets are served, the lowest first."""
        band, position = bracket_id
        return band, self._brackets[bracket_id].completion, position

    def _get_bracket(self, trial: int) -> HalvingBracket:
        return self._brackets[self._bracket_ids[trial]]

    def _catch_up(self) -> None:
        """Catches up with all that happened since the last question."""
        self._assign_trials()
        if self._resuming:
            self._resuming = False
            self._close_all_but_last()
            for trial in self._removed:
                self._get_bracket(trial).snapshot_round(trial)
            self._removed.clear()

    def _assign_trials(self) -> None:
        """Puts trials where they belong, those that were restored first; lets no bracket go on."""
        if self._restoring:
            self._restoring, self._resuming = False, True
            self._brackets = {bracket_id: self._brackets[bracket_id] for bracket_id in sorted(self._brackets)}
            self._busy = dict(self._brackets)
            for bracket in self._brackets.values():
                bracket.rebuild()
        for trial in sorted(self._unassigned):
            self._assign(trial)
        self._unassigned.clear()

    def _close_all_but_last(self) -> None:
        """Says which bracket may get more trials; those that may not go on if all that they have come in."""
        if not self._brackets:
            return
        last = next(reversed(self._brackets))
        self._busy[last] = self._brackets[last]
        for bracket_id, bracket in self._busy.items():
            bracket.closed = bracket_id != last or self._search_over
            bracket.end_finished_rounds()

    def _assign(self, trial: int) -> None:
        last = next(reversed(self._brackets), None)
        if last is None or not self._brackets[last].accepts:
            if last is not None:
                self._brackets[last].closed = True
            last = self._find_next_bracket_id(last)
            self._brackets[last] = self._busy[last] = self._make_bracket(last[1])
        self._brackets[last].add(trial)
        self._bracket_ids[trial] = last

    def _find_next_bracket_id(self, last: BracketId | None) -> BracketId:
        band, position = last or (0, -1)
        while True:
            position += 1
            if position == self._settings.sizes:
                band, position = band + 1, 0
            if self._settings.compute_first_milestone(self._count_rungs(position)) > 0:
                return band, position

    def _make_bracket(self, position: int) -> HalvingBracket:
        """An empty bracket, in the arithmetic of Ray."""
        factor, limit, rungs = self._settings.reduction_factor, self._settings.max_time, self._count_rungs(position)
        size = math.ceil(self._settings.sizes / (rungs + 1) * factor**rungs)
        milestone = self._settings.compute_first_milestone(rungs)
        rounds = [Round(size, milestone)]
        # Ray reckons with the time that would be left if each run began anew, which only choose() goes by.
        work, run = size * milestone, milestone
        for _ in range(rungs):
            size, run = math.ceil(size / factor), int(min(run * factor, limit - milestone))
            work += size * run
            rounds.append(Round(size, int(min(rounds[-1].milestone * factor, limit))))
        return HalvingBracket(rounds, work)

    # Words

    def _decide(self, bracket: HalvingBracket, result: RungResult, time: float, value: float) -> SchedulerDecision:
        milestone = bracket.rounds[result.round].milestone
        inputs: dict[str, float | int | str] = {
            "rung": milestone,
            "metric": self._metric,
            "value": value,
            "arrived": result.arrived,
            "awaited": result.awaited,
        }
        if result.rank is not None:
            inputs["rank"] = result.rank
        return SchedulerDecision(
            _ACTIONS[result.outcome],
            message=self._write_message(bracket, result, time, value),
            inputs=inputs,
            recorded=True,
            full=result.outcome is RungOutcome.FINISHED,
            milestone=milestone,
        )

    def _write_message(self, bracket: HalvingBracket, result: RungResult, time: float, value: float) -> str:
        rounds = bracket.rounds
        at, shown = rounds[result.round].milestone, f"{self._metric} {shorten(value)}"
        if result.outcome is RungOutcome.WAITING:
            return (
                f"paused at rung {at}: {shown}; {result.arrived} of {result.awaited} trials of its bracket have arrived"
            )
        if result.outcome is RungOutcome.FINISHED:
            return f"stopped at {self.time_attribute} {shorten(time)}: all trials of its bracket have reached rung {at}"
        above = rounds[result.round + 1]
        standing = f"{shown} is number {result.rank} of {result.arrived}, and the best {above.size} continue"
        match result.outcome:
            case RungOutcome.PROMOTED:
                return f"continued from rung {at} to {above.milestone}: {standing}"
            case RungOutcome.ELIMINATED:
                return f"stopped at rung {at}: {standing}"
            case _:
                return (
                    f"paused at {self.time_attribute} {shorten(time)}: {standing} from rung {at}; it is already beyond "
                    f"rung {above.milestone}, the next rung of its bracket"
                )

    def _start(self, trial: int) -> StartDecision:
        bracket = self._get_bracket(trial)
        entry, recorded = bracket.entries[trial], bracket.snapshot_round(trial)
        if not entry.cutoffs or not entry.rewards:
            return StartDecision(trial, recorded=recorded)
        last = entry.cutoffs[-1]
        at, target = bracket.rounds[entry.last].milestone, bracket.rounds[bracket.round].milestone
        value, least = self._sign * entry.reward, self._sign * last.reward
        return StartDecision(
            trial,
            message=(
                f"continues from rung {at} to {target}: {self._metric} {shorten(value, least)} is among the best "
                f"{bracket.rounds[bracket.round].size} of {last.ranked} (the last of them has {shorten(least, value)})"
            ),
            inputs={
                "rung": at,
                "target": target,
                "metric": self._metric,
                "value": value,
                "least": least,
                "arrived": last.ranked,
            },
            recorded=recorded,
        )

    def _stop_paused(self, bracket: HalvingBracket, trial: int, round_: int) -> StopPaused:
        at, entry = bracket.rounds[round_].milestone, bracket.entries[trial]
        value = self._sign * entry.reward
        if round_ not in entry.rewards:
            return StopPaused(trial, f"its bracket ended at rung {at} while a user had it paused", {"rung": at})
        inputs: dict[str, float | int | str] = {"rung": at, "metric": self._metric, "value": value}
        if round_ == len(bracket.rounds) - 1:
            return StopPaused(
                trial, f"stopped at rung {at}: all trials of its bracket have reached it", inputs, full=True
            )
        size, cutoff = bracket.rounds[round_ + 1].size, bracket.cutoffs[round_]
        least = self._sign * cutoff.reward
        return StopPaused(
            trial,
            f"stopped at rung {at}: {self._metric} {shorten(value, least)} is not among the best {size} of "
            f"{cutoff.ranked} (the last of them has {shorten(least, value)})",
            inputs | {"least": least, "arrived": cutoff.ranked},
        )
