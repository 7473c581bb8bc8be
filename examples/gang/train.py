"""Data-parallel training with sockets: each pod has its share of the data, and rank 0 averages the gradients.

The variables are those that torch.distributed reads, too.
"""

import json
import os
import random
import socket
import time

from podtune import trial

RANK, WORLD_SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
RANK_ZERO = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
TRUTH = [3.0, -2.0, 1.0, 0.5]


def draw_points(count):
    """This rank's share of the data."""
    draws = random.Random(RANK)
    for _ in range(count):
        point = [draws.gauss(0, 1) for _ in TRUTH]
        yield point, sum(map(float.__mul__, TRUTH, point)) + draws.gauss(0, 0.1)


def meet():
    """The connections to all others on rank 0, and the one to rank 0 on the others."""
    if RANK == 0:
        server = socket.create_server(("", RANK_ZERO[1]))
        return [server.accept()[0].makefile("rw") for _ in range(WORLD_SIZE - 1)]
    while True:
        try:
            return [socket.create_connection(RANK_ZERO, timeout=60).makefile("rw")]
        except OSError:  # rank 0 is not there yet
            time.sleep(0.2)


def send(peer, values):
    peer.write(json.dumps(values) + "\n")
    peer.flush()


def average(peers, values):
    """The mean of all ranks' values, on all ranks."""
    if RANK == 0:
        columns = zip(values, *(json.loads(peer.readline()) for peer in peers))
        values = [sum(column) / WORLD_SIZE for column in columns]
    for peer in peers:
        send(peer, values)
    return values if RANK == 0 else json.loads(peers[0].readline())


peers, points = meet(), list(draw_points(500))
rate = trial.params({"rate": 0.05})["rate"]
weights, speed = [0.0] * len(TRUTH), [0.0] * len(TRUTH)
momentum = trial.params({"momentum": 0.5})["momentum"]
for epoch in range(1, 31):
    gradient, loss = [0.0] * len(TRUTH), 0.0
    for point, target in points:
        error = sum(map(float.__mul__, weights, point)) - target
        gradient = [g + 2 * error * x / len(points) for g, x in zip(gradient, point)]
        loss += error * error / len(points)
    *gradient, loss = average(peers, [*gradient, loss])
    speed = [momentum * v - rate * g for v, g in zip(speed, gradient)]
    weights = [weight + v for weight, v in zip(weights, speed)]
    trial.report({"epoch": epoch, "loss": loss, "ranks": WORLD_SIZE})  # that of rank 0 counts
