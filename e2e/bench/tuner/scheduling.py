"""Regret over virtual time: schedulers beside random search, on real curves."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from e2e.bench.tuner.problems import digits_curves
from podtune.api.resources.experiment import ExperimentSpec
from podtune.simulation.cluster import ClusterModel
from podtune.simulation.simulation import Simulation

GPUS = 4
HOURS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0)
"""When regret is looked at."""
MODEL = ClusterModel(gpus=GPUS, pod_start=20.0, pod_stop=5.0, restore=5.0, checkpoint=5.0)
_HALVING = {"timeAttribute": "epoch", "maxTime": 27, "reductionFactor": 3}
CONTENDERS: Mapping[str, Mapping[str, Any]] = {
    "random": {"search": {"algorithm": "random"}, "scheduler": {"fifo": {}}},
    "TPE": {"search": {"algorithm": "tpe"}, "scheduler": {"fifo": {}}},
    "ASHA": {"search": {"algorithm": "random"}, "scheduler": {"asha": _HALVING}},
    "ASHA promotion": {"search": {"algorithm": "random"}, "scheduler": {"ashaPromotion": _HALVING}},
    "HyperBand": {"search": {"algorithm": "random"}, "scheduler": {"hyperband": _HALVING}},
    "BOHB": {"search": {"algorithm": "bohb"}, "scheduler": {"bohb": _HALVING}},
    "PBT": {
        "search": {"algorithm": "random", "maxTrials": 12},
        "scheduler": {"pbt": {"timeAttribute": "epoch", "interval": 3, "clip": True}},
    },
}
"""What is compared; all of them train 27 epochs at most, a minute each."""


@dataclass(frozen=True)
class Regret:
    """How far one contender was from the best value that there is.

    Attributes:
        medians: Over all seeds, by time.
        quartiles: The lower and upper ones.
        trials: Mean number of trials.
    """

    name: str
    medians: Sequence[float]
    quartiles: Sequence[tuple[float, float]]
    trials: float


def compare(seeds: int) -> list[Regret]:
    """Simulates every contender with seeds from 0 on."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        asked = {name: [pool.submit(simulate, name, seed) for seed in range(seeds)] for name in CONTENDERS}
        return [_summary(name, [future.result() for future in futures]) for name, futures in asked.items()]


def simulate(name: str, seed: int) -> tuple[list[float], int]:
    """Regret at each of the times, and how many trials there were."""
    example, curves = digits_curves()
    outcome = Simulation(_spec(example, CONTENDERS[name], seed), curves, MODEL, seed=seed).run()
    regrets = []
    for hours in HOURS:
        known = [each for each in outcome.improvements if each.seconds <= hours * 3600]
        regret = outcome.compute_regret(known[-1]) if known else None
        regrets.append(1.0 if regret is None else regret)
    return regrets, len(outcome.trials)


def _spec(example: ExperimentSpec, contender: Mapping[str, Any], seed: int) -> ExperimentSpec:
    search = {"maxTrials": 2000, "seed": seed, **contender["search"]}
    return ExperimentSpec.model_validate(
        {
            **example.model_dump(mode="json", by_alias=True, exclude_unset=True),
            "search": search,
            "scheduler": contender["scheduler"],
            "stop": {"totalTime": f"{round(max(HOURS) * 60)}m"},
            "maxConcurrentTrials": GPUS,
        }
    )


def _summary(name: str, runs: Sequence[tuple[Sequence[float], int]]) -> Regret:
    by_time = list(zip(*(regrets for regrets, _ in runs), strict=True))
    quartiles = [statistics.quantiles(regrets, n=4) if len(regrets) > 1 else [regrets[0]] * 3 for regrets in by_time]
    return Regret(
        name=name,
        medians=[statistics.median(regrets) for regrets in by_time],
        quartiles=[(low, high) for low, _, high in quartiles],
        trials=statistics.fmean(trials for _, trials in runs),
    )
