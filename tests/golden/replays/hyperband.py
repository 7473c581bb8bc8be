"""Histories of trials, and what Ray Tune's HyperBandScheduler decides on them.

A history is a list of events in the order in which a controller of Ray's makes them:

    ["add", trial]                      a trial was made
    ["over"]                            no more will be made
    ["choose"]                          there is a place for a trial; the one that is chosen runs from then on
    ["result", trial, time, value]      it reported
    ["complete", trial, time, value]    it came to an end, after a STOP or by itself; the last result again
    ["error", trial]                    it failed for good
    ["remove", trial]                   it was given up while it waited or was paused

The answer to an event is what Ray decides (the bracket of a new trial, the trial that is chosen, the action), and which
paused trials it stops. As in Ray's controller there is always a trial queued in the bracket that is being filled, until
no more are made. The scheduler runs without a cluster: of a trial it needs the state, of a controller what stops one.

Podtune has a bracket go on when nobody is left to wait for; in Ray some then wait for ever, those of HyperBandForBOHB
until nothing runs at all. The histories have Ray's go on too, by the method that it calls itself at all other times.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

HISTORIES = 220
MOST_EVENTS = 600
Event = list[Any]


def replay() -> list[dict[str, Any]]:
    """Makes the histories and adds Ray's answers, and how far the brackets are in the end."""
    from ray.tune.schedulers import HyperBandScheduler

    check_bracket_counts()
    return [with_rays_answers(HyperBandScheduler, settings("hyperband", seed)) for seed in range(HISTORIES)]


def settings(name: str, seed: int) -> dict[str, Any]:
    """Random settings of a history; decisions decide how it goes on, so only Ray can complete it."""
    draw = random.Random(f"{name} {seed}")
    return {
        "seed": seed,
        "mode": draw.choice(["max", "min"]),
        "max_time": draw.choice([3, 8, 9, 10, 16, 27, 32, 50, 81, 100, 729]),
        "reduction_factor": draw.choice([2, 2, 3, 3, 3]),
    }


def check_bracket_counts() -> None:
    """Python's logarithm has to make as many brackets as NumPy's, over all that manifests plausibly hold."""
    import numpy as np

    for factor in range(2, 101):
        times = np.arange(factor, 20_001)
        theirs = np.round(np.log(times) / np.log(factor))
        for time, rounded in zip(times.tolist(), theirs.tolist(), strict=True):
            assert round(math.log(time) / math.log(factor)) == int(rounded), (time, factor)


class _Trial:
    """A trial as Ray's scheduler sees it, and as its program reports."""

    is_saving = False

    def __init__(self, index: int, draw: random.Random, max_time: int, digits: int) -> None:
        self.index = self.trial_id = index
        self.status = "PENDING"
        self.time: float = 0
        self.value = 0.0
        self._draw = draw
        self._digits = digits
        self._quality = draw.random()
        coarse = max(1, max_time // draw.choice([4, 10, 30]))
        self._strides: list[float] = draw.choice([[1], [2], [0.5, 1.5], [1, coarse], [coarse], [coarse], [coarse]])

    def advance(self) -> tuple[float, float]:
        self.time += self._draw.choice(self._strides)
        curve = self._quality * (1 - math.exp(-self.time / 10)) + self._draw.gauss(0, 0.05)
        self.value = round(curve, self._digits)
        return self.time, self.value


class _Controller:
    """What a scheduler needs of Ray's TuneController."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.trials: list[_Trial] = []
        self.stopped: list[int] = []
        searcher = SimpleNamespace(on_pause=lambda _: None, on_unpause=lambda _: None)
        self.search_alg = SimpleNamespace(searcher=searcher)

    def get_trials(self) -> list[_Trial]:
        return self.trials

    def stop_trial(self, trial: _Trial) -> None:
        if trial.status in ("PENDING", "PAUSED"):
            self.scheduler.on_trial_remove(self, trial)
            self.stopped.append(trial.index)
        elif trial.status == "RUNNING":
            self.scheduler.on_trial_complete(self, trial, {"t": trial.time, "m": trial.value})
        trial.status = "TERMINATED"

    def of(self, *states: str) -> list[_Trial]:
        return [trial for trial in self.trials if trial.status in states]


class _History:
    """One history while it is made."""

    def __init__(self, scheduler: Any, history: dict[str, Any]) -> None:
        self.scheduler = scheduler
        self.controller = _Controller(scheduler)
        self.max_time = history["max_time"]
        self.draw = random.Random(f"history {history}")
        self.digits = self.draw.choice([1, 2, 6, 16])
        self.left = self.draw.randrange(2, 90)
        self.over = False
        self.events: list[Event] = []
        self.answers: list[Any] = []

    def run(self) -> None:
        places = self.draw.randrange(1, 12)
        while len(self.events) < MOST_EVENTS:
            self.fill_queue()
            running = self.controller.of("RUNNING")
            if len(running) < places and self.draw.random() < 0.8:
                if self.choose() or running:
                    continue
                if self.over and not self.controller.of("PENDING", "PAUSED"):
                    return
            elif running:
                self.something_happens_to(self.draw.choice(running))

    def fill_queue(self) -> None:
        """Sees to a queued trial in the bracket that is being filled, which Ray's controller does too."""
        while self.left and not self.queued_in_current():
            trial = _Trial(len(self.controller.trials), self.draw, self.max_time, self.digits)
            self.controller.trials.append(trial)
            self.left -= 1
            self.scheduler.on_trial_add(self.controller, trial)
            bracket, band = self.scheduler._trial_info[trial]
            self.happened(["add", trial.index], [band, bracket._halves])
        if not self.left and not self.over:
            self.over = True
            self.happened(["over"], None)

    def queued_in_current(self) -> list[_Trial]:
        current = self.scheduler._state["bracket"]
        return [trial for trial in self.controller.of("PENDING") if current and trial in current._live_trials]

    def choose(self) -> bool:
        trial = self.scheduler.choose_trial_to_run(self.controller)
        if trial is not None:
            trial.status = "RUNNING"
        self.happened(["choose"], None if trial is None else trial.index)
        return trial is not None

    def something_happens_to(self, trial: _Trial) -> None:
        dice = self.draw.random()
        if dice < 0.01 and trial.time:
            self.complete(trial)
        elif dice < 0.02:
            self.scheduler.on_trial_error(self.controller, trial)
            trial.status = "ERROR"
            self.happened(["error", trial.index], None)
        elif dice < 0.03 and (waiting := self.may_be_removed()):
            self.remove(self.draw.choice(waiting))
        else:
            self.report(trial)

    def report(self, trial: _Trial) -> None:
        time, value = trial.advance()
        decision = self.scheduler.on_trial_result(self.controller, trial, {"t": time, "m": value})
        if decision == "PAUSE":
            trial.status = "PAUSED"
        self.happened(["result", trial.index, time, value], decision)
        if decision == "STOP":
            self.complete(trial)

    def complete(self, trial: _Trial) -> None:
        self.controller.stop_trial(trial)
        self.happened(["complete", trial.index, trial.time, trial.value], None)

    def may_be_removed(self) -> list[_Trial]:
        """Any but the one that is queued in the bracket that is being filled: it would be let go on at once."""
        queued = self.queued_in_current()
        kept = queued[0] if len(queued) == 1 and not self.over else None
        return [trial for trial in self.controller.of("PENDING", "PAUSED") if trial is not kept]

    def remove(self, trial: _Trial) -> None:
        self.controller.stop_trial(trial)
        self.controller.stopped.remove(trial.index)
        self.happened(["remove", trial.index], None)

    def happened(self, event: Event, answer: Any) -> None:
        """Records an event, and has the brackets go on in which nobody is left to wait for."""
        for bracket in self.brackets():
            if bracket is not self.scheduler._state["bracket"] or self.over:
                bracket.filled = lambda: True
                while self.waits_in_vain(bracket):
                    self.scheduler._process_bracket(self.controller, bracket)
        stopped, self.controller.stopped = sorted(self.controller.stopped), []
        self.events.append(event)
        self.answers.append([answer, stopped])

    def waits_in_vain(self, bracket: Any) -> bool:
        live = bracket.current_trials()
        return bool(live) and bracket.cur_iter_done() and all(trial.status == "PAUSED" for trial in live)

    def brackets(self) -> Iterator[Any]:
        return (bracket for band in self.scheduler._hyperbands for bracket in band if bracket is not None)


def with_rays_answers(scheduler: type, history: dict[str, Any]) -> dict[str, Any]:
    """Completes a history.

    Args:
        scheduler: HyperBandScheduler, or a class derived from it.
        history: Its settings.
    """
    made = _History(
        scheduler(
            time_attr="t",
            metric="m",
            mode=history["mode"],
            max_t=history["max_time"],
            reduction_factor=history["reduction_factor"],
        ),
        history,
    )
    made.run()
    brackets = [
        [bracket._cumul_r, sorted(trial.index for trial in bracket.current_trials())] for bracket in made.brackets()
    ]
    return {**history, "events": made.events, "answers": made.answers, "brackets": brackets}
