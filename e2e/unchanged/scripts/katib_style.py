"""Logs as MXNet does, for a metrics collector that looks for name=value."""

import argparse
import logging
import time

logging.basicConfig(level=logging.INFO)
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()

weight = 0.0
for epoch in range(3):
    start = time.time()
    weight += args.lr * (1 - weight)
    logging.info("Epoch[%d] Train-accuracy=%f", epoch, 0.5 + weight / 2)
    logging.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - start)
    logging.info("Epoch[%d] Validation-accuracy=%f", epoch, 0.5 + 0.45 * weight)
