"""Prints what a Trainer of transformers prints, of any release, where there is none."""

import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--learning_rate", type=float, default=5e-5)
args = parser.parse_args()

loss = 0.7
for epoch in range(1, 4):
    print({"loss": round(loss, 4), "grad_norm": 1.25, "learning_rate": args.learning_rate, "epoch": epoch - 0.5})
    loss *= 1 - 4000 * args.learning_rate
    speed = {"eval_runtime": 1.52, "eval_samples_per_second": 268.1, "eval_steps_per_second": 33.6}
    print({"eval_loss": round(loss, 4), "eval_accuracy": round(1 - loss / 2, 4), **speed, "epoch": float(epoch)})
print({"train_runtime": 10.1, "train_loss": round(loss, 4), "epoch": 3.0})
