"""Fits a line by gradient descent, and logs JSON."""

import argparse
import json
import random

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=4)
args = parser.parse_args()

rng = random.Random(0)
data = [(x, 2 * x + 1 + rng.gauss(0, 0.1)) for x in (rng.uniform(-1, 1) for _ in range(100))]
train, val = data[:80], data[80:]
w = b = 0.0
print(json.dumps({"event": "start", "args": vars(args)}))
for epoch in range(1, args.epochs + 1):
    for x, y in train:
        error = w * x + b - y
        w, b = w - args.lr * error * x, b - args.lr * error
    losses = [sum((w * x + b - y) ** 2 for x, y in part) / len(part) for part in (train, val)]
    print(json.dumps({"event": "epoch", "epoch": epoch, "train_loss": losses[0], "val_loss": losses[1]}))
