"""Descends a noisy valley by stochastic gradients, in one pod for one member of the population after the other.

No learning rate is good all the time: a high one is quick at first, and a low one gets close in the end.
"""

import json
import random
import tempfile
import time
from pathlib import Path

from podtune import trial

EPOCHS = 40
CURVATURES = [0.03 * 1.4**i for i in range(10)]


def train_epoch(weights, rate, draws):
    for _ in range(20):
        noisy = [curvature * w + draws.gauss(0, 1) for curvature, w in zip(CURVATURES, weights)]
        weights = [w - rate * gradient for w, gradient in zip(weights, noisy)]
    return weights


for this in trial.stream():
    rate = this.params({"rate": 0.1})["rate"]
    epoch, weights = 0, [10.0] * len(CURVATURES)
    restored = this.restored_checkpoint()  # its own, or that of a better trial
    if restored:
        state = json.loads((restored / "state.json").read_text())
        epoch, weights = state["epoch"], state["weights"]
    while epoch < EPOCHS:
        time.sleep(0.2)  # real epochs take longer; the scheduler needs a moment to decide
        if this.should_stop():  # or to pause: the trial goes on later, perhaps in another pod
            break
        epoch += 1
        weights = train_epoch(weights, rate, random.Random(epoch))
        loss = sum(curvature * w * w / 2 for curvature, w in zip(CURVATURES, weights))
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "state.json").write_text(json.dumps({"epoch": epoch, "weights": weights}))
            this.report({"epoch": epoch, "loss": loss, "rate": rate}, checkpoint=directory)
