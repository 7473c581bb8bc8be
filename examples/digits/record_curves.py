"""Records learning curves of digits.py, for `podtune simulate --curves`.

python -m examples.digits.record_curves 120 > examples/digits/curves.csv

Trains configurations drawn at random from the search space of experiment.yaml, whole, which takes some seconds each.
"""

import csv
import sys
from pathlib import Path
from typing import Any

import yaml

from examples.digits import digits
from podtune.api.resources.experiment import ExperimentSpec
from podtune.tuning.searchers.factory import make_searcher

HERE = Path(__file__).parent
COLUMNS = ("learning_rate", "hidden_units", "activation", "epoch", "accuracy", "loss")


def configurations(count: int) -> list[dict[str, Any]]:
    """Draws configurations from the example's search space."""
    written = yaml.safe_load((HERE / "experiment.yaml").read_text(encoding="utf-8"))["spec"]
    written["search"] = {"algorithm": "random", "maxTrials": count, "seed": 2026}
    searcher = make_searcher(ExperimentSpec.model_validate(written))
    return [dict(proposed.configuration) for number in range(count) if (proposed := searcher.ask(number, ()))]


def rows(configuration: dict[str, Any], data: digits.Data) -> list[list[Any]]:
    """Trains with a configuration; a row an epoch."""
    rate, hidden, activation = (configuration[name] for name in COLUMNS[:3])
    model = digits.Model(hidden, activation, rate)
    results = digits.train(model, data, digits.EPOCHS)
    return [
        [rate, hidden, activation, result["epoch"], f"{result['accuracy']:.6g}", f"{result['loss']:.6g}"]
        for result in results
    ]


def main() -> int:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    data = digits.load_data()
    for configuration in configurations(int(sys.argv[1])):
        writer.writerows(rows(configuration, data))
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
