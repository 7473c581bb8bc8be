"""A made-up training of an image classifier, whose accuracy depends on its parameters as one expects."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podtune.simulation.curves.base import Curves, LearningCurve
from podtune.tuning.searchers.base import Configuration

PARAMETERS: tuple[Mapping[str, Any], ...] = (
    {"name": "learning_rate", "float": {"min": 1e-5, "max": 1e-1, "scale": "log"}},
    {"name": "optimizer", "choice": {"values": ["sgd", "adamw", "lion"]}},
    {"name": "momentum", "float": {"min": 0.5, "max": 0.99}, "when": {"optimizer": ["sgd"]}},
    {"name": "weight_decay", "float": {"min": 1e-6, "max": 1e-1, "scale": "log"}},
    {"name": "dropout", "float": {"min": 0, "max": 0.5}},
    {"name": "batch_size", "choice": {"values": [32, 64, 128, 256, 512]}},
    {"name": "depth", "int": {"min": 8, "max": 50, "step": 2}},
)
GUESS = 0.1
"""What ten classes give to who guesses."""
CEILING = 0.989
_BEST_RATES = {"sgd": 0.78, "adamw": 0.52, "lion": 0.35}
_BATCH_COSTS = {32: 0.004, 64: 0.0, 128: 0.004, 256: 0.015, 512: 0.035}


def _share(value: float, low: float, high: float) -> float:
    """Where a value lies on a logarithmic range, from 0 to 1."""
    return math.log(value / low) / math.log(high / low)


@dataclass(frozen=True, slots=True)
class ImageCurve(LearningCurve):
    """One training: its accuracy nears what its parameters allow."""

    end: float
    speed: float
    latency: float
    seconds: float
    epochs: int
    seed: str

    @property
    def length(self) -> int:
        """How many epochs there are."""
        return self.epochs

    def compute_metrics(self, iteration: int) -> Mapping[str, float]:
        """Accuracy, loss and how long the model takes for a picture."""
        noise = random.Random(f"{self.seed}/{iteration}")
        left = (iteration + 1) ** -self.speed * (1 + noise.gauss(0, 0.05))
        accuracy = min(max(self.end - (self.end - GUESS) * left + noise.gauss(0, 0.0015), 0.05), 0.9995)
        loss = max(1.2 * (1 - accuracy) + noise.gauss(0, 0.01), 0.01)
        return {"accuracy": accuracy, "loss": loss, "latency_ms": self.latency}

    def compute_seconds(self, iteration: int) -> float:
        """How long an epoch takes."""
        return self.seconds


class ImageCurves(Curves):
    """All trainings of an experiment."""

    def __init__(self, length: int, seconds: float = 60) -> None:
        """Takes how many epochs there are, and how long one takes, more or less."""
        self._length = length
        self._seconds = seconds

    @property
    def optimum(self) -> float | None:
        """Not known."""
        return None

    def build_curve(self, configuration: Configuration, trial: int) -> ImageCurve:
        """The training of one trial."""
        values = {"optimizer": "adamw", "momentum": 0.9, "weight_decay": 1e-3, "dropout": 0.2, "batch_size": 64}
        return build_image_curve({**values, "depth": 18, **configuration}, trial, self._length, self._seconds)


def build_image_curve(values: Mapping[str, Any], trial: int, length: int, seconds: float) -> ImageCurve:
    """The training with these parameters."""
    rate, optimizer = _share(float(values["learning_rate"]), 1e-5, 1e-1), str(values["optimizer"])
    decay = _share(float(values["weight_decay"]), 1e-6, 1e-1)
    batch, depth = int(values["batch_size"]), int(values["depth"])
    cost = 1.6 * (rate - _BEST_RATES[optimizer]) ** 2 + 0.12 * (decay - 0.6) ** 2
    cost += 0.5 * (float(values["dropout"]) - 0.18) ** 2 + _BATCH_COSTS[batch]
    cost += 0.035 * (1 - (depth - 8) / 42) ** 1.5
    if optimizer == "sgd":
        cost += 0.25 * ((float(values["momentum"]) - 0.5) / 0.49 - 0.85) ** 2 + 0.01
    if optimizer == "lion":
        cost += 0.012
    return ImageCurve(
        end=CEILING - 0.9 * cost / (cost + 0.55),
        speed=0.55 + 1.2 * rate,
        latency=1.1 + 0.32 * depth * (1 + 0.15 * math.sin(depth)) * (64 / batch) ** 0.15,
        seconds=seconds * (0.5 + depth / 40),
        epochs=length,
        seed=str(trial),
    )
