"""Histories of trials, and what Ray Tune's MedianStoppingRule decides on them.

A history is a list of events in the order in which a controller of Ray's makes them:

    ["add", trial]                              a trial was made
    ["choose", trials]                          there is a place, and these wait for one
    ["result", trial, time, value, waiting]     it reported, while so many others waited or were paused
    ["complete", trial, time, value]            it came to an end, after a STOP too; the last result again
    ["remove", trial]                           it was given up before it ran

The scheduler runs without a cluster: its callbacks need no more of a trial than its status.
"""

from __future__ import annotations

import math
import random
import warnings
from typing import Any

HISTORIES = 300
Event = list[Any]
Answer = str | int | None


def replay() -> list[dict[str, Any]]:
    """Makes the histories and adds Ray's answers."""
    return [_with_rays_answers(_settings(seed)) for seed in range(HISTORIES)]


def _settings(seed: int) -> dict[str, Any]:
    draw = random.Random(seed)
    return {
        "seed": seed,
        "mode": draw.choice(["max", "min"]),
        "grace_period": draw.choice([0, 1, 1, 2, 5]),
        "min_samples": draw.choice([1, 2, 3, 3, 5]),
        "min_time": draw.choice([0, 0, 1, 4]),
        "soft_stop": draw.random() < 0.4,
    }


class _Trial:
    """A trial as Ray sees it, and how it reports: every step, in strides, at fractions, or from a later step on."""

    def __init__(self, index: int, draw: random.Random) -> None:
        self.trial_id = index
        self.status = "PENDING"
        self._draw = draw
        self._quality = draw.random()
        self._stride = draw.choice([1, 1, 1, 1, 2, 0.5, 3])
        self._jitter = draw.random() < 0.2
        self._first_is_nan = draw.random() < 0.05
        self._constant = draw.random() < 0.2
        self.time: float = draw.choice([0, 0, 0, 0, draw.randrange(8)])
        self.value: float = math.nan

    def report(self, digits: int, *, odd: bool) -> None:
        stride = self._stride * self._draw.randrange(1, 4) if self._jitter else self._stride
        self.time += stride
        self.value = self._value(digits, odd=odd)

    def _value(self, digits: int, *, odd: bool) -> float:
        if self._first_is_nan and math.isnan(self.value):
            self._first_is_nan = False
            return math.nan
        if odd and self._draw.random() < 0.05:
            return self._draw.choice([math.nan, math.inf, -math.inf, 0, -0.0])
        if self._constant:  # so that the best value and the median tie, up to the rounding errors of a mean
            return 0.1
        curve = self._quality * (1 - math.exp(-self.time / 10)) + self._draw.gauss(0, 0.1)
        return round(curve, digits)


class _Controller:
    """What the scheduler asks of Ray's controller."""

    def __init__(self) -> None:
        self.trials: list[_Trial] = []

    def get_trials(self) -> list[_Trial]:
        return self.trials

    def get_live_trials(self) -> list[_Trial]:
        return [trial for trial in self.trials if trial.status != "TERMINATED"]

    def in_status(self, *statuses: str) -> list[_Trial]:
        return [trial for trial in self.trials if trial.status in statuses]


def _with_rays_answers(settings: dict[str, Any]) -> dict[str, Any]:
    from ray.tune.schedulers import MedianStoppingRule

    scheduler = MedianStoppingRule(
        time_attr="t",
        metric="m",
        mode=settings["mode"],
        grace_period=settings["grace_period"],
        min_samples_required=settings["min_samples"],
        min_time_slice=settings["min_time"],
        hard_stop=not settings["soft_stop"],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's about NaN and infinities
        run = _Run(settings["seed"], scheduler)
        run.to_the_end()
    return {**settings, "events": run.events, "answers": run.answers}


class _Run:
    def __init__(self, seed: int, scheduler: Any) -> None:
        self._draw = random.Random(f"history {seed}")
        self._scheduler = scheduler
        self._controller = _Controller()
        self._digits = self._draw.choice([1, 2, 6, 16])
        self._odd = self._draw.random() < 0.3
        self._trials = self._draw.randrange(3, 30)
        self._places = self._draw.randrange(1, 10)
        self._lengths = self._draw.choice([0.02, 0.05, 0.2])
        self.events: list[Event] = []
        self.answers: list[Answer] = []

    def to_the_end(self) -> None:
        while True:
            running = self._controller.in_status("RUNNING")
            to_be_made = len(self._controller.trials) < self._trials
            if to_be_made and self._draw.random() < 0.4:
                self._add()
            elif len(running) < self._places and self._controller.in_status("PENDING", "PAUSED"):
                self._start()
            elif running:
                self._report(self._draw.choice(running))
            elif not to_be_made:
                return

    def _add(self) -> None:
        trial = _Trial(len(self._controller.trials), self._draw)
        self._controller.trials.append(trial)
        self._happened(["add", trial.trial_id], self._scheduler.on_trial_add(self._controller, trial))
        if self._draw.random() < 0.03:
            self._happened(["remove", trial.trial_id], self._scheduler.on_trial_remove(self._controller, trial))
            trial.status = "TERMINATED"

    def _start(self) -> None:
        waiting = [trial.trial_id for trial in self._controller.in_status("PENDING", "PAUSED")]
        chosen = self._scheduler.choose_trial_to_run(self._controller)
        self._happened(["choose", waiting], chosen.trial_id)
        chosen.status = "RUNNING"

    def _report(self, trial: _Trial) -> None:
        trial.report(self._digits, odd=self._odd)
        waiting = len(self._controller.in_status("PENDING", "PAUSED"))
        result = {"t": trial.time, "m": trial.value}
        decision = self._scheduler.on_trial_result(self._controller, trial, result)
        self._happened(["result", trial.trial_id, trial.time, trial.value, waiting], decision)
        if decision == "STOP" or self._draw.random() < self._lengths or len(self.events) > 500:
            trial.status = "TERMINATED"
            self._scheduler.on_trial_complete(self._controller, trial, result)
            self._happened(["complete", trial.trial_id, trial.time, trial.value], None)
        elif decision == "PAUSE":
            trial.status = "PAUSED"

    def _happened(self, event: Event, answer: Answer) -> None:
        self.events.append(event)
        self.answers.append(answer)
