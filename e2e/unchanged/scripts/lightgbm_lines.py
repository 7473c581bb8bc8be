"""Prints what LightGBM's callback log_evaluation prints, where there is no LightGBM."""

import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--num-leaves", type=int, default=31)
args = parser.parse_args()

print("[LightGBM] [Info] Number of positive: 212, number of negative: 357")
for iteration in range(1, 6):
    loss = 0.65 / (1 + iteration * args.num_leaves / 31)
    print(f"[{iteration}]\ttraining's binary_logloss: {loss:.6g}\tvalid_1's binary_logloss: {1.1 * loss:.6g}")
