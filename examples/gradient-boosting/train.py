"""Boosts trees with LightGBM, and goes on from the trees of its checkpoint if it was interrupted."""

import tempfile
from pathlib import Path

import lightgbm as lgb
import numpy as np

from podtune import trial

TREES, EVERY = 270, 10


def draw_data(count, seed):
    """Ten features, of which five matter (Friedman, 1991)."""
    draws = np.random.default_rng(seed)
    x = draws.random((count, 10))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return x, y + draws.normal(size=count)


def report(env):
    """A callback, which LightGBM calls after each tree."""
    trees = env.iteration + 1
    if trees % EVERY == 0:
        rmse = env.evaluation_result_list[0][2]
        with tempfile.TemporaryDirectory() as directory:
            env.model.save_model(Path(directory) / "model.txt")
            trial.report({"trees": trees, "rmse": rmse}, checkpoint=directory)
    if trial.should_stop():
        raise lgb.EarlyStopException(env.iteration, env.evaluation_result_list)


params = trial.params({"learning_rate": 0.1, "num_leaves": 31, "min_data_in_leaf": 20})
settings = {"objective": "regression", "metric": "rmse", "seed": trial.seed(), "num_threads": 1, "verbosity": -1}
training = lgb.Dataset(*draw_data(20_000, seed=1))
held_out = lgb.Dataset(*draw_data(5_000, seed=2), reference=training)

restored = trial.restored_checkpoint()
model = lgb.Booster(model_file=restored / "model.txt") if restored else None
missing = TREES - (model.current_iteration() if model else 0)
if missing > 0:
    lgb.train(
        {**settings, **params},
        training,
        num_boost_round=missing,
        valid_sets=[held_out],
        init_model=model,
        callbacks=[report],
    )
