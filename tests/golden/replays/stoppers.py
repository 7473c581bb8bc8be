"""Results of trials, and what Ray Tune's stoppers say to them.

A history is a list of results `[trial, value]` in the order in which a controller of Ray's shows them. Its answers are
those of a `TrialPlateauStopper`, a `MaximumIterationStopper` and, shown only the values that end a trial, an
`ExperimentPlateauStopper`: whether it stops.

What ours do otherwise on purpose is left out: results without the metric, and standard deviations that equal the
tolerance.
"""

from __future__ import annotations

import math
import random
from typing import Any

HISTORIES = 300
TRIALS = 4


def replay() -> list[dict[str, Any]]:
    """Makes the histories and adds Ray's answers."""
    return [_with_rays_answers(_history(seed)) for seed in range(HISTORIES)]


def _history(seed: int) -> dict[str, Any]:
    draw = random.Random(seed)
    mode = draw.choice(["max", "min"])
    return {
        "seed": seed,
        "mode": mode,
        "trial": {
            "window": draw.randrange(2, 9),
            "tolerance": draw.uniform(0.001, 0.2),
            "grace": draw.choice([0, 1, 4, 10]),
            "threshold": draw.choice([None, None, draw.uniform(0.2, 0.8)]),
        },
        "iterations": draw.randrange(1, 20),
        "experiment": {
            "top": draw.randrange(2, 8),
            "tolerance": draw.uniform(0.001, 0.3),
            "patience": draw.choice([0, 1, 2, 5]),
        },
        "results": list(_results(draw)),
    }


def _results(draw: random.Random) -> Any:
    levels = [draw.random() for _ in range(TRIALS)]
    noise = draw.choice([0.0, 0.01, 0.1, 0.5])
    steps = [0] * TRIALS
    for _ in range(draw.randrange(20, 80)):
        trial = draw.randrange(TRIALS)
        steps[trial] += 1
        value = levels[trial] * (1 - math.exp(-steps[trial] / 3)) + draw.gauss(0, noise)
        if draw.random() < 0.02:
            value = draw.choice([math.nan, math.inf, -math.inf])
        yield [trial, value if draw.random() < 0.8 else round(value, 2)]


def _with_rays_answers(history: dict[str, Any]) -> dict[str, Any]:
    import numpy as np
    from ray.tune.stopper import ExperimentPlateauStopper, MaximumIterationStopper, TrialPlateauStopper

    trial, experiment = history["trial"], history["experiment"]
    plateau = TrialPlateauStopper(
        "m", trial["tolerance"], trial["window"], trial["grace"], trial["threshold"], history["mode"]
    )
    iterations = MaximumIterationStopper(history["iterations"])
    of_all = ExperimentPlateauStopper(
        "m", experiment["tolerance"], experiment["top"], history["mode"], experiment["patience"]
    )
    answers = []
    with np.errstate(invalid="ignore"):
        for index, value in history["results"]:
            result = {"m": value}
            said = [bool(plateau(index, result)), bool(iterations(index, result))]
            # Ray sorts NaN to anywhere; ours counts it as no value.
            said.append(bool(of_all.stop_all() if math.isnan(value) else of_all(index, result)))
            answers.append(said)
    return {**history, "answers": answers}
