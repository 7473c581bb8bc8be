"""Trials stay small, whatever happens to them: 3 KiB with spec and status, typically, and 1.5 KiB for the curve."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podtune.api.resources.trial_curve import MAX_CURVE
from podtune.runner.records import Trial
from podtune.runner.trial.ledger import MAX_TRIAL
from podtune.simulation.cluster import ClusterModel
from podtune.simulation.curves.functions import CURVE_FUNCTIONS
from podtune.simulation.curves.synthetic import SyntheticCurves
from podtune.simulation.simulation import Simulation
from tests.unit.tuning.manifests import experiment

EVENTFUL = ClusterModel(gpus=4, crashes_per_hour=1.0, disruptions_per_hour=1.0)
LARGEST = 4784
"""Of a trial that was retried and cloned over and over, with seven parameters and long names: it keeps one decision of
each kind, four of them where one was to go on."""
HALVING = {"maxTime": 27, "reductionFactor": 3}
SCHEDULERS: dict[str, dict[str, Any]] = {
    "asha": HALVING,
    "ashaPromotion": HALVING,
    "hyperband": HALVING,
    "median": {"gracePeriod": 2, "minSamples": 2},
    "pbt": {"interval": 3},
}


def written_size(trial: Trial) -> int:
    """Bytes of a Trial without its learning curve."""
    parts = (trial.spec, trial.status.model_copy(update={"curve": None}))
    return sum(len(part.model_dump_json(by_alias=True, exclude_defaults=True).encode()) for part in parts)


def written_curve(trial: Trial) -> int:
    assert trial.status.curve is not None
    return len(json.dumps(trial.status.curve.to_arrays(), separators=(",", ":")))


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_trial_with_many_decisions_behind_it_stays_small(scheduler: str) -> None:
    spec = experiment(
        search={"algorithm": "random", "maxTrials": 12, "seed": 3},
        scheduler={scheduler: SCHEDULERS[scheduler]},
        checkpoints={"store": {"bucket": "some-team-s-checkpoints", "prefix": "experiments/vision"}},
        failures={"maxFailures": 100},
        maxConcurrentTrials=4,
    )
    curves = SyntheticCurves(
        CURVE_FUNCTIONS["styblinski-tang"], spec.parameters, spec.objective, iterations=27, seconds=60, seed=3
    )
    trials = Simulation(spec, curves, EVENTFUL, seed=5).run().trials
    assert max(trial.status.ledger[-1].number for trial in trials if trial.status.ledger) > 5
    assert max(map(written_size, trials)) <= LARGEST
    assert 0 < max(map(written_curve, trials)) <= MAX_CURVE
    large = [trial.status for trial in trials if written_size(trial) > MAX_TRIAL]
    for status in large:
        newest = {entry.action: entry.number for entry in status.ledger}.values()
        assert all(e.number > status.ledger_exported or e.number in newest for e in status.ledger)
