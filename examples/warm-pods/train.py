"""Forecasts a series by exponential smoothing, for one pair of weights after the other.

A trial takes a tenth of a second. What all trials need is loaded once a pod, before the loop.
"""

import math
import random

from podtune import trial


def load_series(length):
    draws, level = random.Random(0), 10.0
    for day in range(length):
        level += 0.01 + draws.gauss(0, 0.1)
        yield level + math.sin(day / 58) + draws.gauss(0, 0.5)


series = list(load_series(100_000))

for this in trial.stream():
    weights = this.params({"level": 0.5, "trend": 0.1})
    level, trend, squares = series[0], 0.0, 0.0
    for value in series:
        error = value - (level + trend)
        squares += error * error
        level += trend + weights["level"] * error
        trend += weights["level"] * weights["trend"] * error
    this.report({"error": math.sqrt(squares / len(series))})
