"""An operator that is killed before, while and after an experiment is suspended goes on as if it had not been."""

from __future__ import annotations

import pytest

from podtune.api.resources.experiment import ExperimentSpec
from podtune.simulation.cluster import ClusterModel
from podtune.simulation.curves.functions import CURVE_FUNCTIONS
from podtune.simulation.curves.synthetic import SyntheticCurves
from podtune.simulation.simulation import Simulation
from tests.unit.runner.world.examples import draw
from tests.unit.simulation.test_restart_matrix import LENGTH, PROMPT, assert_is, check_whole_runs, make_spec

SUSPENDED, RESUMED = 200.0, 2000.0
CUTS = draw(25)
ITERATION = 30
"""Shorter than a pause waits for its checkpoint, so that a restart, which has it wait anew, changes nothing."""


def make(spec: ExperimentSpec) -> Simulation:
    curves = SyntheticCurves(
        CURVE_FUNCTIONS["styblinski-tang"],
        spec.parameters,
        spec.objective,
        iterations=LENGTH,
        seconds=ITERATION,
        seed=3,
    )
    simulation = Simulation(spec, curves, ClusterModel(gpus=3, checkpoint=0), seed=5, settings=PROMPT)
    simulation.change_after(SUSPENDED, spec.model_copy(update={"suspend": True}))
    simulation.change_after(RESUMED, spec)
    return simulation


@pytest.mark.parametrize(
    ("algorithm", "scheduler"), [("tpe", "asha"), ("random", "hyperband"), ("random", "pbt"), ("random", "fifo")]
)
def test_a_cut_run_goes_on_as_the_uncut_one(algorithm: str, scheduler: str) -> None:
    spec = make_spec(algorithm, scheduler, {})
    recorded = make(spec)
    uncut = recorded.run()
    assert uncut.seconds > RESUMED
    assert not [start for start in uncut.starts if SUSPENDED < start.seconds < RESUMED], "nothing starts meanwhile"
    assert any(decision.entry.action == "PAUSE" for decision in uncut.decisions)
    cuts = {1 + place * (recorded.events - 2) // (CUTS - 1) for place in range(CUTS)}
    check_whole_runs(lambda: make(spec), cuts, lambda cut: assert_is(cut, uncut))
