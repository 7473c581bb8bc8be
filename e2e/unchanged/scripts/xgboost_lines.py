"""Prints what xgboost.train(…, evals=…) prints, where there is no XGBoost."""

import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--eta", type=float, default=0.3)
args = parser.parse_args()

for boosting_round in range(5):
    loss = 0.69 / (1 + args.eta * boosting_round)
    print(f"[{boosting_round}]\ttrain-logloss:{loss:.5f}\teval-logloss:{1.1 * loss:.5f}")
