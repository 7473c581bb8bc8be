"""An operator that is killed anywhere goes on as if it had not been, with every searcher and every scheduler.

For each pair a run is recorded. Then it is run again a hundred times, each time cut after another event: the operator
is made anew of what the Trials record, and has to make the next proposal and the next decision that the uncut run made.
Some of the runs go on to their end, and have to be the uncut run whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from podtune.api.experiment import ExperimentSpec
from podtune.api.trial import TrialSpec
from podtune.runner.records import Trial
from podtune.simulation.cluster import ClusterModel
from podtune.simulation.course import Outcome
from podtune.simulation.curves.functions import FUNCTIONS
from podtune.simulation.curves.synthetic import SyntheticCurves
from podtune.simulation.simulation import Simulation
from tests.unit.tuning.manifests import experiment

CUTS = 100
WHOLE = 5
"""So many of the cut runs go on to their end."""
LENGTH = 9
SPACE: list[dict[str, Any]] = [
    {"name": "rate", "float": {"min": 0.0001, "max": 0.1, "scale": "log"}},
    {"name": "width", "int": {"min": 16, "max": 256, "step": 16}},
    {"name": "kind", "choice": {"values": ["relu", "tanh"]}},
]
SEARCHERS: dict[str, dict[str, Any]] = {
    "random": {},
    "grid": {"grid": {"points": 3}},
    "tpe": {"tpe": {"startupTrials": 3}},
}
SCHEDULERS: dict[str, dict[str, Any]] = {
    "fifo": {},
    "asha": {"maxTime": LENGTH, "reductionFactor": 3, "brackets": 2},
}
ROUGH = ClusterModel(gpus=3, checkpoint=0, crashes_per_hour=1.5, disruptions_per_hour=1.5)
"""Checkpoints take no time: an operator that comes back waits for none that a stopped trial is storing."""


def pairs() -> Iterator[tuple[str, str]]:
    for algorithm in SEARCHERS:
        for scheduler in SCHEDULERS:
            yield algorithm, scheduler


def make_spec(algorithm: str, scheduler: str) -> ExperimentSpec:
    return experiment(
        parameters=SPACE,
        search={"algorithm": algorithm, "maxTrials": 12, "seed": 7, **SEARCHERS[algorithm]},
        scheduler={scheduler: SCHEDULERS[scheduler]},
        maxConcurrentTrials=4,
        checkpoints={"store": {"bucket": "bucket"}},
        failures={"maxFailures": 100},
    )


def make_simulation(spec: ExperimentSpec) -> Simulation:
    curves = SyntheticCurves(
        FUNCTIONS["styblinski-tang"], spec.parameters, spec.objective, iterations=LENGTH, seconds=60, seed=3
    )
    return Simulation(spec, curves, ROUGH, seed=5)


def progress(outcome: Outcome) -> tuple[int, int]:
    """How many proposals and decisions there have been."""
    return len(outcome.trials), len(outcome.decisions) + len(outcome.starts)


def cut_here(simulation: Simulation, *, whole: bool) -> Outcome:
    """How it goes on if the operator is killed now: to the end, or up to the next proposal and the next decision."""
    fork = simulation.fork()
    before = progress(fork.outcome)
    while not fork.is_over:
        fork.step()
        if not whole and all(now > then for now, then in zip(progress(fork.outcome), before, strict=True)):
            break
    return fork.outcome


def assert_begins_like(cut: Outcome, uncut: Outcome) -> None:
    """What was proposed, started and decided is what the uncut run proposed, started and decided first."""
    proposals = [proposed(trial) for trial in cut.trials]
    assert proposals == [proposed(trial) for trial in uncut.trials[: len(proposals)]]
    assert cut.decisions == uncut.decisions[: len(cut.decisions)]
    assert cut.starts == uncut.starts[: len(cut.starts)]


def proposed(trial: Trial) -> TrialSpec:
    """A Trial's spec; what the searcher knew is left out, it has to be the same only where it matters."""
    assert trial.spec.proposal is not None
    proposal = trial.spec.proposal.model_copy(update={"told": 0, "running": ""})
    return trial.spec.model_copy(update={"proposal": proposal})


@pytest.mark.parametrize(("algorithm", "scheduler"), list(pairs()))
def test_a_cut_run_goes_on_as_the_uncut_one(algorithm: str, scheduler: str) -> None:
    spec = make_spec(algorithm, scheduler)
    events = count_events(spec)
    assert events > CUTS
    cuts = [1 + place * (events - 2) // (CUTS - 1) for place in range(CUTS)]
    assert len(set(cuts)) == CUTS

    uncut = make_simulation(spec)
    outcomes: dict[int, Outcome] = {}
    while not uncut.is_over:
        uncut.step()
        if uncut.events in cuts:
            outcomes[uncut.events] = cut_here(uncut, whole=uncut.events in cuts[:: CUTS // WHOLE])

    assert len(outcomes) == CUTS
    for cut in outcomes.values():
        assert_begins_like(cut, uncut.outcome)
    for cut in (outcomes[place] for place in cuts[:: CUTS // WHOLE]):
        assert cut.fingerprint == uncut.outcome.fingerprint
        assert [trial.status for trial in cut.trials] == [trial.status for trial in uncut.outcome.trials]
        assert cut.status == uncut.outcome.status


def count_events(spec: ExperimentSpec) -> int:
    simulation = make_simulation(spec)
    simulation.run()
    return simulation.events
