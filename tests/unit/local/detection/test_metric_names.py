from __future__ import annotations

import pytest

from podtune.local.detection.metric_names import (
    choose_objective,
    find_mode,
    is_time,
    suggest_objective,
    suggest_time_attribute,
)


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["loss", "val_loss"], "val_loss"),
        (["eval_loss", "eval_accuracy", "eval_runtime"], "eval_accuracy"),
        (["train-logloss", "eval-logloss"], "eval-logloss"),
        (["best_accuracy", "accuracy"], "accuracy"),
        (["step", "elbo", "lr"], "elbo"),
        (["training_accuracy_score", "val_loss"], "val_loss"),
        (["val loss", "train_loss"], "train_loss"),  # objective.metric takes no spaces
        (["epoch", "step"], None),
    ],
)
def test_the_objective_is_what_an_evaluation_has_found(names: list[str], chosen: str | None) -> None:
    assert choose_objective(names) == chosen


def test_the_objective_that_is_asked_for_has_no_substitute() -> None:
    assert choose_objective(["val_loss", "f1"], "f1") == "f1"
    assert choose_objective(["val_loss", "f1"], "auc") is None


@pytest.mark.parametrize(
    ("mode", "names"),
    [
        ("min", "loss valLoss valid_0_l2 eval_rmse error_rate Perplexity val/ce_loss"),
        ("max", "acc val_f1 map50 roc_auc episode_reward acc@1 training_score"),
        (None, "elbo lr epoch"),
    ],
)
def test_names_tell_the_direction(mode: str | None, names: str) -> None:
    assert {find_mode(name) for name in names.split()} == {mode}


@pytest.mark.parametrize(("values", "mode"), [((-30.5, -20.5), "max"), ((3, 2, 1), "min"), ((1,), "max")])
def test_values_tell_the_direction_where_the_name_does_not(values: tuple[float, ...], mode: str) -> None:
    suggested = suggest_objective([{"elbo": value} for value in values])
    assert suggested is not None
    assert (suggested.mode, suggested.is_guess) == (mode, True)


def test_a_text_is_no_objective() -> None:
    assert suggest_objective([{"accuracy": "high", "done": True}]) is None
    assert suggest_objective([{"accuracy": float("nan")}]) is None


def test_time_is_what_rises_with_each_result() -> None:
    assert suggest_time_attribute([{"epoch": 1, "loss": 3}, {"epoch": 2, "loss": 2}]) == "epoch"
    assert suggest_time_attribute([{"step": 5, "epoch": 1}, {"step": 9, "epoch": 2}]) == "step"
    assert suggest_time_attribute([{"step": 0, "epoch": 1}, {"step": 0, "epoch": 2}]) == "epoch"
    assert suggest_time_attribute([{"epoch": 0, "loss": 3}, {"epoch": 1, "loss": 2}]) == "training_iteration"
    assert suggest_time_attribute([{"epoch": 1}, {"loss": 2}]) == "training_iteration"
    assert suggest_time_attribute([]) == "training_iteration"


def test_totals_and_losses_by_step_are_no_times() -> None:
    assert is_time("current_step")
    assert not is_time("total_steps")
    assert not is_time("loss_step")
