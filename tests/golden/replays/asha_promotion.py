"""Histories of trials, and what Syne Tune 0.13's HyperbandScheduler(type="promotion") decides on them.

A history is a list of events in the order in which a tuner makes them:

    ["add", trial]                      a configuration was proposed; it waits for a place
    ["choose", waiting]                 a place is free; `waiting` holds all that wait or are paused, as trials
    ["result", trial, time, value]      it reported
    ["complete", trial, time, value]    it came to an end, after a STOP or by itself; the last result again

The scheduler is Syne Tune's own; only its searcher is replaced, by one that has a configuration where a trial waits,
and its draws of brackets, by Podtune's. Syne Tune gives up where a trial's report is beyond the rung that it runs for;
it is told of that rung instead, which is the rule that Podtune adds.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import random
from types import SimpleNamespace
from typing import Any

from podtune.tuning.randomness import build_generator
from podtune.tuning.schedulers.halving.rungs import draw_index

HISTORIES = 300
Event = list[Any]


def replay() -> list[dict[str, Any]]:
    """Makes the histories and adds Syne Tune's answers: decisions, choices, and what the rungs hold in the end."""
    logging.disable(logging.WARNING)
    try:
        return [_with_syne_tunes_answers(history(seed)) for seed in range(HISTORIES)]
    finally:
        logging.disable(logging.NOTSET)


def history(seed: int) -> dict[str, Any]:
    """Random settings of a history; decisions decide how it goes on, so only Syne Tune can complete it."""
    draw = random.Random(f"promotion {seed}")
    grace_period = draw.choice([1, 1, 1, 2, 3, 7])
    return {
        "seed": seed,
        "mode": draw.choice(["max", "min"]),
        "grace_period": grace_period,
        "max_time": grace_period * draw.choice([2, 3, 9, 10, 16, 27, 50, 81]) + draw.choice([0, 0, 0, 1]),
        "reduction_factor": draw.choice([2, 2, 3, 3, 4, 5]),
        "brackets": draw.choice([1, 1, 1, 2, 3, 5]),
    }


class _Brackets:
    """Draws the bracket of the trial that is about to start as Podtune does; called as a numpy.random.RandomState."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.trial = 0

    def choice(self, a: int, p: Any) -> int:
        return draw_index(p.tolist(), build_generator(self._seed, "ashaPromotion", "bracket", self.trial))


class _Tuner:
    """The part of Syne Tune's Tuner that a scheduler hears of."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.scheduler = _scheduler(settings)
        self.scheduler._initialize_searcher()  # as its first suggestion would: it knows the brackets then
        self.brackets = self.scheduler.terminator.random_state = _Brackets(settings["seed"])
        self.events: list[Event] = []
        self.answers: list[Any] = []
        self.new: list[int] = []
        self.paused: list[int] = []

    def add(self, trial: int) -> int:
        self.new.append(trial)
        self.brackets.trial = trial
        return self._happened(["add", trial], self.scheduler.terminator._sample_bracket())

    def choose(self) -> int | None:
        event = ["choose", sorted(self.new + self.paused)]
        self.brackets.trial = self.new[0] if self.new else 10**6
        self.scheduler.searcher.exhausted = not self.new
        suggestion = self.scheduler.suggest(self.brackets.trial)
        if suggestion is None:
            return self._happened(event, None)
        if suggestion.spawn_new_trial_id:
            return self._happened(event, self.new.pop(0))
        self.paused.remove(suggestion.checkpoint_trial_id)
        return self._happened(event, suggestion.checkpoint_trial_id)

    def result(self, trial: int, time: int, value: float) -> str:
        told = time if time >= self.settings["max_time"] else min(time, self._target(trial))
        decision = self.scheduler.on_trial_result(_trial(trial), {"t": told, "m": value})
        if decision == "PAUSE":
            self.paused.append(trial)
        return self._happened(["result", trial, time, value], decision)

    def complete(self, trial: int, time: int, value: float) -> None:
        self.scheduler.on_trial_complete(_trial(trial), {"t": time, "m": value})
        self._happened(["complete", trial, time, value], None)

    def rungs(self) -> list[list[Any]]:
        """Milestones with what they hold, best first: trial, value, whether it was promoted."""
        [system] = self.scheduler.terminator._rung_systems
        return [
            [rung.level, [[int(entry.trial_id), entry.metric_val, entry.was_promoted] for entry in rung.data]]
            for rung in system._rungs
        ]

    def _target(self, trial: int) -> int:
        [system] = self.scheduler.terminator._rung_systems
        return system._running[str(trial)]["milestone"]

    def _happened(self, event: Event, answer: Any) -> Any:
        self.events.append(event)
        self.answers.append(answer)
        return answer


def _scheduler(settings: dict[str, Any]) -> Any:
    with contextlib.redirect_stdout(io.StringIO()):  # it says which of its extras are missing
        from syne_tune.config_space import uniform
        from syne_tune.optimizer.schedulers import HyperbandScheduler
        from syne_tune.optimizer.schedulers.searchers import RandomSearcher

    class Searcher(RandomSearcher):  # type: ignore[misc]
        exhausted = False

        def get_config(self, **kwargs: Any) -> Any:
            return None if self.exhausted else super().get_config(**kwargs)

    space = {"x": uniform(0, 1)}
    return HyperbandScheduler(
        space,
        searcher=Searcher(space, metric="m", debug_log=False),
        type="promotion",
        metric="m",
        mode=settings["mode"],
        resource_attr="t",
        max_t=settings["max_time"],
        grace_period=settings["grace_period"],
        reduction_factor=settings["reduction_factor"],
        brackets=settings["brackets"],
        random_seed=0,
    )


def _trial(index: int) -> Any:
    return SimpleNamespace(trial_id=index, config={"x": 0.5})


class _Curve:
    """A trial that improves in its own way, and reports every step or in strides."""

    def __init__(self, draw: random.Random, digits: int) -> None:
        self._draw = draw
        self._digits = digits
        self._quality = draw.random()
        self._strides = draw.choice([[1], [1], [1], [2], [1, 2, 5], [4]])
        self.time = 0
        self.value = 0.0

    def advance(self) -> tuple[int, float]:
        self.time += self._draw.choice(self._strides)
        curve = self._quality * (1 - math.exp(-self.time / 10)) + self._draw.gauss(0, 0.05)
        self.value = round(curve, self._digits)
        return self.time, self.value


def _with_syne_tunes_answers(settings: dict[str, Any]) -> dict[str, Any]:
    tuner = _Tuner(settings)
    draw = random.Random(f"promotion history {settings['seed']}")
    digits = draw.choice([1, 2, 6, 16])
    curves = {trial: _Curve(draw, digits) for trial in range(draw.randrange(2, 40))}
    places, ahead = draw.randrange(1, 8), draw.choice([1, 1, 3])
    running: list[int] = []
    made = 0
    while len(tuner.events) < 400:
        if len(running) < places and draw.random() < 0.7:
            while made < len(curves) and len(tuner.new) < ahead:
                tuner.add(made)
                made += 1
            chosen = tuner.choose() if tuner.new or tuner.paused else None
            if chosen is not None:
                running.append(chosen)
            elif not running:
                break
        if running:
            trial = draw.choice(running)
            decision = tuner.result(trial, *curves[trial].advance())
            if decision == "STOP" or (decision == "CONTINUE" and draw.random() < 0.01):
                tuner.complete(trial, curves[trial].time, curves[trial].value)
            elif decision == "CONTINUE":
                continue
            running.remove(trial)
    return {**settings, "events": tuner.events, "answers": tuner.answers, "rungs": tuner.rungs()}
