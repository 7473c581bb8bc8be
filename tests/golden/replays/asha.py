"""Histories of trials, and what Ray Tune's AsyncHyperBandScheduler decides on them.

A history is a list of events in the order in which a controller of Ray's makes them:

    ["add", trial]                      a trial was made
    ["result", trial, time, value]      it reported; after a STOP nothing but its completion follows
    ["complete", trial, time, value]    it came to an end, after a STOP too; the last result again
    ["remove", trial]                   it was given up before it ran

The scheduler runs without a cluster: its callbacks need no more of a trial than its id. The draws of brackets come from
NumPy's global generator; its state is set to that of Podtune's generator, which is the same Mersenne Twister, so that
both draw the same number and it is what they make of it that is compared.
"""

from __future__ import annotations

import math
import random
import warnings
from types import SimpleNamespace
from typing import Any

from podtune.tuning.schedulers.asha import build_bracket_generator

HISTORIES = 300
Event = list[Any]


def replay() -> list[dict[str, Any]]:
    """Makes the histories and adds Ray's answers: brackets, decisions, and what the rungs hold in the end."""
    check_rung_counts()
    return [_with_rays_answers(history(seed)) for seed in range(HISTORIES)]


def history(seed: int) -> dict[str, Any]:
    """A random history with random settings; decisions decide how it goes on, so only Ray can complete it."""
    draw = random.Random(seed)
    reduction_factor = draw.choice([2, 2, 3, 3, 4, 5, 10])
    grace_period = draw.choice([1, 1, 1, 2, 3, 7])
    max_time = grace_period * draw.choice([1, 3, 9, 10, 16, 27, 50, 81, 100, 1000])
    return {
        "seed": seed,
        "mode": draw.choice(["max", "min"]),
        "grace_period": grace_period,
        "max_time": max_time,
        "reduction_factor": reduction_factor,
        "brackets": draw.choice([1, 1, 1, 2, 3, 5]),
    }


def check_rung_counts() -> None:
    """Python's logarithm has to make as many rungs as NumPy's, over all that manifests plausibly hold."""
    import numpy as np

    for reduction_factor in (2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 32, 64, 100):
        for grace_period in range(1, 11):
            times = np.arange(grace_period, 20_001)
            theirs = np.log(times / grace_period) / np.log(reduction_factor)
            for time, quotient in zip(times.tolist(), theirs.tolist(), strict=True):
                ours = math.log(time / grace_period) / math.log(reduction_factor)
                assert int(ours + 1) == int(quotient + 1), (time, grace_period, reduction_factor)


class _Values:
    """How a history's trials improve: smoothly, coarsely (so that values tie), or with NaN and infinities in it."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._digits = draw.choice([1, 2, 6, 16])
        self._odd = draw.random() < 0.3

    def value(self, quality: float, time: float) -> float | int:
        if self._odd and self._draw.random() < 0.15:
            return self._draw.choice([math.nan, math.nan, math.nan, math.inf, -math.inf, 0, -0.0])
        curve = quality * (1 - math.exp(-time / 10)) + self._draw.gauss(0, 0.05)
        return round(curve, self._digits)


class _Trial:
    """A trial that reports at its own pace: every step, in strides, from a restored step on, or at fractions."""

    def __init__(self, draw: random.Random, max_time: int) -> None:
        self._draw = draw
        self.quality = draw.random()
        self.time: float = draw.choice([0, 0, 0, draw.randrange(max_time)])
        self._stride = draw.choice([1, 1, 1, 2, 5, max(1, max_time // 4), 0.5])
        self._jitter = draw.random() < 0.3
        self.last: tuple[float, float | int] | None = None

    def advance(self) -> float:
        stride = self._stride * self._draw.randrange(1, 4) if self._jitter else self._stride
        self.time += stride
        return self.time


def _with_rays_answers(settings: dict[str, Any]) -> dict[str, Any]:
    from ray.tune.schedulers import AsyncHyperBandScheduler

    scheduler = AsyncHyperBandScheduler(
        time_attr="t",
        metric="m",
        mode=settings["mode"],
        max_t=settings["max_time"],
        grace_period=settings["grace_period"],
        reduction_factor=settings["reduction_factor"],
        brackets=settings["brackets"],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's about NaN and infinities
        events, answers = _run(settings, scheduler)
    brackets = [[[milestone, recorded] for milestone, recorded in bracket._rungs] for bracket in scheduler._brackets]
    return {**settings, "events": events, "answers": answers, "rungs": brackets}


def _run(settings: dict[str, Any], scheduler: Any) -> tuple[list[Event], list[str | int | None]]:
    draw = random.Random(f"history {settings['seed']}")
    values = _Values(draw)
    live: dict[int, _Trial] = {}
    events: list[Event] = []
    answers: list[str | int | None] = []

    def happens(*event: Any) -> str | int | None:
        events.append(list(event))
        answers.append(_answer(scheduler, settings["seed"], event))
        return answers[-1]

    trials = draw.randrange(2, 40)
    concurrent = draw.randrange(1, 10)
    made = 0
    while made < trials or live:
        if made < trials and len(live) < concurrent and draw.random() < 0.5:
            happens("add", made)
            live[made] = _Trial(draw, settings["max_time"])
            made += 1
            continue
        if not live:
            continue
        index = draw.choice(list(live))
        trial = live[index]
        if trial.last is None and draw.random() < 0.03:
            happens("remove", index)
            del live[index]
            continue
        time = trial.advance()
        trial.last = (time, values.value(trial.quality, time))
        stopped = happens("result", index, *trial.last) == "STOP"
        if stopped or draw.random() < 0.02 or len(events) > 400:
            happens("complete", index, *trial.last)
            del live[index]
    return events, answers


def _answer(scheduler: Any, seed: int, event: tuple[Any, ...]) -> Any:
    import numpy as np

    kind, index, *result = event
    trial = SimpleNamespace(trial_id=index)
    metrics = dict(zip(("t", "m"), result, strict=False))
    match kind:
        case "add":
            _, state, _ = build_bracket_generator(seed, index).getstate()
            np.random.set_state(("MT19937", np.array(state[:-1], dtype=np.uint32), state[-1], 0, 0.0))
            scheduler.on_trial_add(None, trial)
            return scheduler._brackets.index(scheduler._trial_info[index])
        case "result":
            return scheduler.on_trial_result(None, trial, metrics)
        case "complete":
            return scheduler.on_trial_complete(None, trial, metrics)
        case "remove":
            return scheduler.on_trial_remove(None, trial)
        case _:
            raise AssertionError(kind)
