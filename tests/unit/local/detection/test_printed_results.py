"""What programs print, of the kinds that there are, and the expressions that are proposed for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from podtune.api.resources.results import StdoutResults
from podtune.local.detection.detected_sources import DetectedSource
from podtune.local.detection.printed_fields import find_fields
from podtune.local.detection.printed_results import find_printed_results, propose_patterns, read_printed

KATIB = ["epoch 1:", "accuracy=0.61", "loss=1.13", "epoch 2:", "accuracy=0.71", "loss=1.03"]
MNIST = [
    "Train Epoch: 1 [0/60000 (0%)]\tLoss: 2.300000",
    "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.100000",
    "",
    "Test set: Average loss: 0.0513, Accuracy: 9830/10000 (98%)",
    "Train Epoch: 2 [0/60000 (0%)]\tLoss: 0.300000",
    "Test set: Average loss: 0.0413, Accuracy: 9850/10000 (98%)",
]
KERAS = [
    "Epoch 1/2",
    "\x1b[1m1/5\x1b[0m \x1b[32m━\x1b[0m\x1b[37m━\x1b[0m \x1b[1m3s\x1b[0m 60ms/step - accuracy: 0.1 - loss: 2.3",
    "\x1b[1m5/5\x1b[0m \x1b[32m━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m3s\x1b[0m 60ms/step - accuracy: 0.2 - loss: 2.1 "
    "- val_accuracy: 0.3 - val_loss: 2.0",
    "Epoch 2/2",
    "\x1b[1m5/5\x1b[0m \x1b[32m━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m1s\x1b[0m 20ms/step - accuracy: 0.3 - loss: 1.1 "
    "- val_accuracy: 0.4 - val_loss: 1.0",
]
TQDM = [
    "Epoch 1:   0%| | 0/10 [00:00<?, ?it/s]\rEpoch 1:  50%| | 5/10 [00:01<00:01, 9.5it/s, loss=0.5]"
    "\rEpoch 1: 100%| | 10/10 [00:01<00:01, 9.5it/s, loss=0.4]",
    "Epoch 2:   0%| | 0/10 [00:00<?, ?it/s]\rEpoch 2:  50%| | 5/10 [00:01<00:01, 9.5it/s, loss=0.3]"
    "\rEpoch 2: 100%| | 10/10 [00:01<00:01, 9.5it/s, loss=0.2]",
]
PRINTED: Mapping[str, tuple[list[str], list[dict[str, Any]]]] = {
    "names and values": (
        ["begin", "epoch=1 loss=0.5 acc=0.7", "epoch=2 loss=1e-3 acc=0.8", "epoch=3 loss=nan acc=1"],
        [{"epoch": 1, "loss": 0.5, "acc": 0.7}, {"epoch": 2, "loss": 0.001, "acc": 0.8}],
    ),
    "Katib": (
        KATIB,
        [{"epoch": 1, "accuracy": 0.61, "loss": 1.13}, {"epoch": 2, "accuracy": 0.71, "loss": 1.03}],
    ),
    "JSON": (
        ['{"epoch": 1, "loss": 0.5, "val_acc": 0.3}', '{"epoch": 2, "loss": 0.4, "val_acc": 0.4}'],
        [{"epoch": 1, "loss": 0.5, "val_acc": 0.3}, {"epoch": 2, "loss": 0.4, "val_acc": 0.4}],
    ),
    "a Trainer of transformers": (
        [
            "{'loss': 0.5, 'learning_rate': 1e-05, 'epoch': 0.5}",
            "{'eval_loss': 0.4, 'eval_accuracy': 0.9, 'eval_runtime': 3.2, 'epoch': 1.0}",
            "{'loss': 0.3, 'learning_rate': 1e-05, 'epoch': 1.5}",
            "{'eval_loss': 0.3, 'eval_accuracy': 0.92, 'eval_runtime': 3.2, 'epoch': 2.0}",
        ],
        [{"eval_loss": 0.4, "eval_accuracy": 0.9, "epoch": 1}, {"eval_loss": 0.3, "eval_accuracy": 0.92, "epoch": 2}],
    ),
    "numbers as texts": (
        ["{'eval_loss': '0.4', 'epoch': '1.0'}", "{'eval_loss': '0.3', 'epoch': '2.0'}"],
        [{"eval_loss": 0.4, "epoch": 1}, {"eval_loss": 0.3, "epoch": 2}],
    ),
    "XGBoost": (
        ["[0]\ttrain-logloss:0.60\teval-logloss:0.62", "[1]\ttrain-logloss:0.50\teval-logloss:0.52"],
        [
            {"iteration": 0, "train_logloss": 0.6, "eval_logloss": 0.62},
            {"iteration": 1, "train_logloss": 0.5, "eval_logloss": 0.52},
        ],
    ),
    "LightGBM": (
        [
            "[LightGBM] [Info] Total Bins 1024",
            "[1]\ttraining's l2: 0.24\tvalid_1's l2: 0.3",
            "[2]\ttraining's l2: 0.23\tvalid_1's l2: 0.29",
        ],
        [
            {"iteration": 1, "training_l2": 0.24, "valid_1_l2": 0.3},
            {"iteration": 2, "training_l2": 0.23, "valid_1_l2": 0.29},
        ],
    ),
    "CatBoost": (
        [
            "0:\tlearn: 0.6931\ttest: 0.69\tbest: 0.69 (0)\ttotal: 50ms\tremaining: 1s",
            "1:\tlearn: 0.6800\ttest: 0.67\tbest: 0.67 (1)\ttotal: 55ms\tremaining: 900ms",
        ],
        [
            {"iteration": 0, "learn": 0.6931, "test": 0.69, "best": 0.69},
            {"iteration": 1, "learn": 0.68, "test": 0.67, "best": 0.67},
        ],
    ),
    "the example of PyTorch": (
        MNIST,
        [{"average_loss": 0.0513, "accuracy": 9830}, {"average_loss": 0.0413, "accuracy": 9850}],
    ),
    "Keras": (
        KERAS,
        [
            {"accuracy": 0.2, "loss": 2.1, "val_accuracy": 0.3, "val_loss": 2.0},
            {"accuracy": 0.3, "loss": 1.1, "val_accuracy": 0.4, "val_loss": 1.0},
        ],
    ),
    "Keras, a line an epoch": (
        [
            "Epoch 1/2",
            "938/938 - 3s - 3ms/step - accuracy: 0.9247 - loss: 0.2577",
            "Epoch 2/2",
            "938/938 - 2s - 2ms/step - accuracy: 0.9652 - loss: 0.1144",
        ],
        [{"Epoch": 1, "accuracy": 0.9247, "loss": 0.2577}, {"Epoch": 2, "accuracy": 0.9652, "loss": 0.1144}],
    ),
    "fastai": (
        [
            "epoch     train_loss  valid_loss  accuracy  time    ",
            "0         0.523  0.311  0.9  00:05     ",
            "1         0.423  0.211  0.95  00:04     ",
        ],
        [
            {"epoch": 0, "train_loss": 0.523, "valid_loss": 0.311, "accuracy": 0.9},
            {"epoch": 1, "train_loss": 0.423, "valid_loss": 0.211, "accuracy": 0.95},
        ],
    ),
    "a table of scikit-learn": (
        [
            "      Iter       Train Loss   Remaining Time ",
            "         1           1.2536            0.50s",
            "         2           1.1536            0.40s",
        ],
        [{"iter": 1, "train_loss": 1.2536}, {"iter": 2, "train_loss": 1.1536}],
    ),
    "one line at the end": (["loaded 100 rows", "Accuracy: 0.9333"], [{"accuracy": 0.9333}]),
    "two lines at the end": (["accuracy is 0.93", "f1 = 0.5"], [{"accuracy": 0.93, "f1": 0.5}]),
    "a progress bar": (TQDM, [{"epoch": 1, "loss": 0.4}, {"epoch": 2, "loss": 0.2}]),
    "a log": (
        [
            "2026-01-01 10:00:00,123 INFO train: step 100 | loss 3.2 | lr 0.001",
            "2026-01-01 10:00:01,423 INFO train: step 200 | loss 2.2 | lr 0.001",
        ],
        [{"step": 100, "loss": 3.2}, {"step": 200, "loss": 2.2}],
    ),
    "ImageNet": (
        [
            "Epoch: [0][  1/5005]\tTime  3.1 ( 3.1)\tLoss 7.01e+00 (7.1e+00)\tAcc@1   0.00 (  0.1)",
            "Epoch: [0][ 11/5005]\tTime  0.1 ( 3.1)\tLoss 6.91e+00 (7.1e+00)\tAcc@1   0.39 (  0.1)",
        ],
        [{"epoch": 0, "loss": 7.01, "acc_1": 0.0}, {"epoch": 0, "loss": 6.91, "acc_1": 0.39}],
    ),
    "training and evaluation in turn": (
        [
            "step 0: train loss 4.1, val loss 4.2",
            "iter 0: loss 4.2, time 30ms, mfu -100.00%",
            "iter 10: loss 3.2, time 30ms, mfu 2.00%",
            "step 250: train loss 2.1, val loss 2.2",
        ],
        [{"step": 0, "train_loss": 4.1, "val_loss": 4.2}, {"step": 250, "train_loss": 2.1, "val_loss": 2.2}],
    ),
    "a name that says nothing": (
        ["[step 10] elbo: -30.5", "[step 20] elbo: -20.5"],
        [{"step": 10, "elbo": -30.5}, {"step": 20, "elbo": -20.5}],
    ),
}


def find_best(lines: list[str]) -> DetectedSource:
    found = find_printed_results(lines, "")
    assert found is not None
    return found


@pytest.mark.parametrize("kind", PRINTED)
def test_an_expression_is_found_for_what_programs_print(kind: str) -> None:
    lines, expected = PRINTED[kind]
    best = find_best(lines)
    settings = StdoutResults.model_validate(best.settings)
    found = read_printed(settings.pattern, settings.last or "", lines)
    assert found[: len(expected)] == expected, settings.pattern


def test_expressions_read_well() -> None:
    assert find_best(["epoch=1 loss=0.5", "epoch=2 loss=0.4"]).settings == {
        "pattern": r"epoch=(?P<epoch>\d+) loss=(?P<loss>[-+.\w]+)"
    }
    assert find_best(KATIB).settings == {
        "pattern": r"\b(?P<name>epoch|accuracy|loss)(?: |=)(?P<value>[-+.\w]+)",
        "last": "loss",
    }


def test_a_name_that_is_a_part_of_another_is_not_mixed_up_with_it() -> None:
    lines = ["val_loss=0.3 loss=0.5", "val_loss=0.2 loss=0.4", "loss=0.1"]
    assert find_best(lines).results[:2] == [{"val_loss": 0.3, "loss": 0.5}, {"val_loss": 0.2, "loss": 0.4}]


def test_groups_have_names_that_expressions_take() -> None:
    lines = ["value: 1 name: 2 acc@1: 0.5 loss/total: 3", "value: 1 name: 2 acc@1: 0.7 loss/total: 2"]
    groups = re.compile(find_best(lines).settings["pattern"]).groupindex
    assert {"acc_1", "loss_total"} <= groups.keys()
    assert not {"name", "value"} & groups.keys()


@pytest.mark.parametrize(
    "line",
    [
        "Python 3.11.2 on linux",
        "listening on port 8080",
        "2026-01-01 10:00:00 INFO ready",
        "took 3.5s",
        "File \"train.py\", line 12, in <module>",
        "v1.2.3",
    ],
)  # fmt: skip
def test_what_is_no_metric_is_passed_over(line: str) -> None:
    assert list(find_fields(line)) == []


def test_nothing_is_proposed_where_nothing_is_reported() -> None:
    assert list(propose_patterns(["hello", "loading 5 files", "epoch 1", "epoch 2", "x" * 10_000, ""])) == []


def test_lines_without_end_and_binary_output_do_no_harm() -> None:
    assert list(propose_patterns(["loss=1 " * 5000, "\x00\xff\udcff" * 50])) == []


def test_expressions_are_no_longer_than_the_manifest_takes() -> None:
    name = "loss_" + "x" * 90
    lines = [" ".join(f"{name}{letter}={n}" for letter in "abcdefgh") for n in (1, 2)]
    assert all(len(each.pattern) <= 512 for each in propose_patterns(lines))
