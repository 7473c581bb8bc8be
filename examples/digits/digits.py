"""Trains a small neural network on scikit-learn's handwritten digits, epoch by epoch.

A program like any other that trains: it runs alone (`python digits.py --lr 0.01`), and in a trial's pod it reports each
epoch, takes a checkpoint with it, and goes on from one exactly where it was taken.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the matrices are small: more threads only get in each other's way

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from podtune import trial

Array = NDArray[np.float64]

EPOCHS = 27
BATCH = 32
SHIFTS = [(down, right) for down in range(3) for right in range(3)]
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8

ACTIVATIONS = {
    "relu": (lambda x: np.maximum(x, 0.0), lambda y: (y > 0.0).astype(float)),
    "tanh": (np.tanh, lambda y: 1.0 - y * y),
    "logistic": (lambda x: 1.0 / (1.0 + np.exp(-np.clip(x, -60.0, 60.0))), lambda y: y * (1.0 - y)),
}
"""By name: the function, and its derivative in terms of its value."""


@dataclass(frozen=True)
class Data:
    """Images of 8×8 pixels in [0, 1], a row each, and their digits."""

    train_images: Array
    train_digits: NDArray[np.intp]
    validation_images: Array
    validation_digits: NDArray[np.intp]


def load_data() -> Data:
    """The 1797 digits, four fifths of them to train on; the training images also shifted by a pixel each way."""
    images, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    images, digits = images[order] / 16.0, digits[order]
    count = len(images) * 4 // 5
    framed = np.pad(images[:count].reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    shifted = [framed[:, down : down + 8, right : right + 8].reshape(count, 64) for down, right in SHIFTS]
    return Data(np.concatenate(shifted), np.tile(digits[:count], len(SHIFTS)), images[count:], digits[count:])


class Model:
    """A network with one hidden layer, trained with Adam (Kingma & Ba, 2015, https://arxiv.org/abs/1412.6980).

    All that decides how training goes on is in `epoch`, `steps`, `weights`, `moments` and `rng`. `save` writes all of
    them, so a restored model takes the very same steps as one that was never interrupted.
    """

    def __init__(self, hidden: int, activation: str, rate: float, seed: int = 0) -> None:
        self.activation = activation
        self.rate = rate
        self.epoch = 0
        self.steps = 0
        self.rng = np.random.default_rng(seed)
        self.weights = {
            "w1": self.rng.normal(0.0, (2.0 / 64) ** 0.5, (64, hidden)),
            "b1": np.zeros(hidden),
            "w2": self.rng.normal(0.0, (1.0 / hidden) ** 0.5, (hidden, 10)),
            "b2": np.zeros(10),
        }
        self.moments = {f"{name}/{n}": np.zeros_like(w) for name, w in self.weights.items() for n in (1, 2)}

    def train_epoch(self, data: Data) -> float:
        """Goes once through the training images in a random order; returns the mean loss."""
        order = self.rng.permutation(len(data.train_images))
        losses = [
            self._step(data.train_images[batch], data.train_digits[batch])
            for batch in (order[start : start + BATCH] for start in range(0, len(order), BATCH))
        ]
        self.epoch += 1
        return float(np.mean(losses))

    def accuracy(self, images: Array, digits: NDArray[np.intp]) -> float:
        """Share of images whose digit is recognised."""
        return float(np.mean(self._forward(images)[1].argmax(axis=1) == digits))

    def save(self, directory: Path) -> None:
        """Writes a checkpoint: arrays, and nothing that would have to be unpickled."""
        state = {"epoch": self.epoch, "steps": self.steps, "rng": self.rng.bit_generator.state}
        np.savez(directory / "arrays.npz", **self.weights, **self.moments)
        (directory / "state.json").write_text(json.dumps(state))

    def load(self, directory: Path) -> None:
        """Reads a checkpoint back."""
        state: dict[str, Any] = json.loads((directory / "state.json").read_text())
        self.epoch, self.steps = state["epoch"], state["steps"]
        self.rng.bit_generator.state = state["rng"]
        with np.load(directory / "arrays.npz", allow_pickle=False) as arrays:
            self.weights = {name: arrays[name] for name in self.weights}
            self.moments = {name: arrays[name] for name in self.moments}

    def _forward(self, images: Array) -> tuple[Array, Array]:
        function, _ = ACTIVATIONS[self.activation]
        hidden = function(images @ self.weights["w1"] + self.weights["b1"])
        scores = hidden @ self.weights["w2"] + self.weights["b2"]
        exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
        return hidden, exponentials / exponentials.sum(axis=1, keepdims=True)

    def _step(self, images: Array, digits: NDArray[np.intp]) -> float:
        _, derivative = ACTIVATIONS[self.activation]
        hidden, probabilities = self._forward(images)
        rows = np.arange(len(digits))
        loss = -float(np.mean(np.log(probabilities[rows, digits] + 1e-12)))
        error = probabilities.copy()
        error[rows, digits] -= 1.0
        error /= len(digits)
        hidden_error = error @ self.weights["w2"].T * derivative(hidden)
        gradients = {
            "w1": images.T @ hidden_error,
            "b1": hidden_error.sum(axis=0),
            "w2": hidden.T @ error,
            "b2": error.sum(axis=0),
        }
        self._adam(gradients)
        return loss

    def _adam(self, gradients: dict[str, Array]) -> None:
        self.steps += 1
        rate = self.rate * (1.0 - BETA2**self.steps) ** 0.5 / (1.0 - BETA1**self.steps)
        for name, gradient in gradients.items():
            mean, square = self.moments[f"{name}/1"], self.moments[f"{name}/2"]
            mean += (1.0 - BETA1) * (gradient - mean)
            square += (1.0 - BETA2) * (gradient * gradient - square)
            self.weights[name] -= rate * mean / (np.sqrt(square) + EPSILON)


def train(model: Model, data: Data, epochs: int) -> Iterator[dict[str, float]]:
    """Trains up to so many epochs, and yields each one's result."""
    while model.epoch < epochs:
        loss = model.train_epoch(data)
        accuracy = model.accuracy(data.validation_images, data.validation_digits)
        yield {"epoch": model.epoch, "accuracy": accuracy, "loss": loss}


def main() -> int:
    arguments = parse_arguments()
    model = Model(arguments.hidden, arguments.activation, arguments.lr)
    restored = trial.restored_checkpoint()
    if restored is not None:
        model.load(restored)
        print(f"going on after epoch {model.epoch}", flush=True)
    data = load_data()
    with tempfile.TemporaryDirectory() as directory:
        for result in train(model, data, arguments.epochs):
            if result["epoch"] == arguments.crash_at_epoch and restored is None:
                print(f"crashing in epoch {model.epoch}, as asked", file=sys.stderr, flush=True)
                return 1
            model.save(Path(directory))
            trial.report(result, checkpoint=directory)
            if trial.should_stop():
                print(f"stopping after epoch {model.epoch}, as asked", flush=True)
                break
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lr", type=float, default=0.003, help="learning rate (default: %(default)s)")
    parser.add_argument("--hidden", type=int, default=64, help="units of the hidden layer (default: %(default)s)")
    parser.add_argument("--activation", choices=ACTIVATIONS, default="relu", help="default: %(default)s")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="how many to train (default: %(default)s)")
    parser.add_argument(
        "--crash-at-epoch", type=int, metavar="N", help="to see a retry: exit with 1 in epoch N, unless restored"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
