"""A script that was written for Katib: its parameters are arguments, and it prints its metrics.

It separates two clouds of points by logistic regression, with stochastic gradient descent.
"""

import argparse
import math
import random

DIMENSIONS = 20


def draw_points(count, seed):
    draws = random.Random(seed)
    for _ in range(count):
        label = draws.random() < 0.5
        yield [draws.gauss(0.25 if label else -0.25, 1) for _ in range(DIMENSIONS)], label


def predict(weights, point):
    return 1 / (1 + math.exp(-sum(map(float.__mul__, weights, point))))


parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--decay", type=float, default=0.0)
parser.add_argument("--epochs", type=int, default=12)
given = parser.parse_args()

training, validation = list(draw_points(1000, seed=1)), list(draw_points(4000, seed=2))
weights = [0.0] * DIMENSIONS
for epoch in range(1, given.epochs + 1):
    for point, label in training:
        step = given.lr * (label - predict(weights, point))
        weights = [(1 - given.lr * given.decay) * weight + step * x for weight, x in zip(weights, point)]
    likelihoods = [abs(predict(weights, point) - (not label)) for point, label in validation]
    print(f"epoch {epoch}:")
    print(f"accuracy={sum(each > 0.5 for each in likelihoods) / len(validation):.4f}")
    print(f"loss={-sum(math.log(max(each, 1e-9)) for each in likelihoods) / len(validation):.4f}")
