"""Writes a set of curves, for trying things out and as an example of the format."""

from __future__ import annotations

import csv
from typing import TextIO

from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.tuning.search import SearchSpec
from podtune.api.tuning.search_space import format_value
from podtune.simulation.curves.base import Curves
from podtune.simulation.curves.table import SECONDS
from podtune.trial.layout import ITERATION, TIME_TOTAL
from podtune.tuning.searchers.factory import make_searcher


def write_curves(file: TextIO, curves: Curves, spec: ExperimentSpec, *, time: str, count: int, seed: int) -> None:
    """Writes the curves of configurations drawn at random, as `table` reads them.

    Args:
        file: Where to write.
        curves: What trials report.
        spec: The experiment; its search space is drawn from.
        time: Name of its time attribute; where that is training time, iterations are counted.
        count: How many configurations are drawn.
        seed: Seeds the draws.
    """
    names = [parameter.name for parameter in spec.parameters if parameter.is_sampled]
    search = SearchSpec(algorithm="random", max_trials=count, seed=seed)
    searcher = make_searcher(spec.model_copy(update={"search": search}))
    writer = csv.writer(file, lineterminator="\n")
    counted = ITERATION if time == TIME_TOTAL else time
    writer.writerow([*names, counted, spec.objective.metric, SECONDS])
    for number in range(count):
        proposed = searcher.ask(number, ())
        assert proposed is not None  # a random search is never exhausted
        configuration = proposed.configuration
        written = [format_value(configuration[name]) if name in configuration else "" for name in names]
        curve = curves.build_curve(configuration, number)
        for iteration in range(1, curve.length + 1):
            value = curve.compute_metrics(iteration)[spec.objective.metric]
            writer.writerow([*written, iteration, f"{value:.6g}", f"{curve.compute_seconds(iteration):.6g}"])
