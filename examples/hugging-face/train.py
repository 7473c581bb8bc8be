"""Stands in for a script with a Trainer of transformers 5: it reports as that does, and needs no package.

What it trains is a language model of bigrams: the probability of each letter after each other one.
"""

import argparse
import inspect
import json
import math
import os
import random
import re
import urllib.request
from itertools import pairwise
from pathlib import Path

LETTERS = " abcdefghijklmnopqrstuvwxyz"
BATCH = 32


class KubeflowCallback:
    """Posts the status of training, as the callback of transformers does where these variables say where to."""

    def __init__(self):
        self.url = os.environ.get("KUBEFLOW_TRAINER_SERVER_URL")

    def on_evaluate(self, step, max_steps, metrics):
        print(step, metrics, flush=True)
        if self.url:
            found = {**metrics, "current_step": step, "total_steps": max_steps}
            entries = [{"name": name, "value": str(value)} for name, value in found.items()]
            status = {"progressPercentage": 100 * step // max_steps, "metrics": entries}
            token = Path(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read_text().strip()
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            body = json.dumps({"trainerStatus": status}).encode()
            urllib.request.urlopen(urllib.request.Request(self.url, body, headers, method="POST"), timeout=30).close()


class Bigrams:
    def __init__(self):
        self.scores = [[0.0] * len(LETTERS) for _ in LETTERS]

    def predict(self, letter):
        powers = [math.exp(score) for score in self.scores[letter]]
        return [power / sum(powers) for power in powers]

    def learn(self, pairs, rate):
        for letter, following in pairs:
            for other, probability in enumerate(self.predict(letter)):
                self.scores[letter][other] += rate * ((other == following) - probability)

    def loss(self, pairs):
        return -sum(math.log(self.predict(letter)[following]) for letter, following in pairs) / len(pairs)


def train(args, callback):
    text = re.sub("[^a-z]+", " ", inspect.getsource(argparse).lower())
    pairs = [(LETTERS.index(a), LETTERS.index(b)) for a, b in pairwise(text)]
    random.Random(0).shuffle(pairs)
    held_out, pairs = pairs[:1000], pairs[1000:]
    model = Bigrams()
    for step in range(1, args.max_steps + 1):
        warm = min(1, step / (args.warmup_ratio * args.max_steps + 1e-9))
        rate = args.learning_rate * warm * (1 - (step - 1) / args.max_steps)
        begin = BATCH * step % (len(pairs) - BATCH)
        model.learn(pairs[begin : begin + BATCH], rate)
        if step % args.eval_steps == 0:
            metrics = {"eval_loss": round(model.loss(held_out), 4), "learning_rate": rate}
            callback.on_evaluate(step, args.max_steps, metrics)


parser = argparse.ArgumentParser()
parser.add_argument("--learning_rate", type=float, default=0.1)
parser.add_argument("--warmup_ratio", type=float, default=0.0)
parser.add_argument("--max_steps", type=int, default=2000)
parser.add_argument("--eval_steps", type=int, default=100)
train(parser.parse_args(), KubeflowCallback())
