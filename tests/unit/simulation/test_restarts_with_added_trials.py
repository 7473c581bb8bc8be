"""A person adds trials while the experiment runs: an operator that is killed goes on as if it had not been.

Cuts are all over the run: before the trials are there, between any two writes that take one in, and afterwards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from podtune.api.restore_from import RestoreFrom
from podtune.runner.records import Trial
from podtune.simulation.simulation import Simulation
from podtune.simulation.trace import SimulationResult
from tests.unit.simulation.test_restart_matrix import assert_is, check_whole_runs, make_simulation, make_spec

OWN = {"rate": "0.01", "width": "64", "kind": "tanh"}
CUTS = 6
GANG: dict[str, Any] = {"replicas": 2, "spec": {"containers": [{"name": "trial", "image": "none"}]}}
WARM: dict[str, Any] = {"reuse": True, "spec": {"containers": [{"name": "trial", "image": "none"}]}}


def make_added(algorithm: str, scheduler: str, changes: dict[str, Any]) -> Simulation:
    """A run to which a user adds trials: two at almost the same time, one of another's weights, and one that is bad."""
    simulation = make_simulation(make_spec(algorithm, scheduler, changes))
    own = {name: value for name, value in OWN.items() if algorithm != "bruteForce" or name != "rate"}
    simulation.add_trial_after(120.0, "simulated-100001", {**own, "width": "32"})
    simulation.add_trial_after(400.0, "simulated-100000", own)
    simulation.add_trial_after(401.0, "simulated-100007", {**own, "kind": "relu"}, RestoreFrom(trial="simulated-0"))
    simulation.add_trial_after(402.0, "simulated-100008", {**own, "width": "17"})
    return simulation


@pytest.mark.parametrize(
    ("algorithm", "scheduler", "changes"),
    [
        ("tpe", "asha", {}),
        pytest.param("cmaes", "fifo", {}, marks=pytest.mark.long),
        pytest.param("nsga2", "fifo", {}, marks=pytest.mark.long),
        pytest.param("bruteForce", "median", {}, marks=pytest.mark.long),
        ("random", "hyperband", {}),
        ("random", "ashaPromotion", {}),
        ("bohb", "bohb", {}),
        pytest.param("random", "pbt", {"trialTemplate": WARM}, marks=pytest.mark.long),
        pytest.param("random", "pbt", {"scheduler": {"synchronous": True}}, marks=pytest.mark.long),
        ("random", "asha", {"trialTemplate": GANG}),
        pytest.param("tpe", "fifo", {"search": {"repeats": 2}}, marks=pytest.mark.long),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value) or "plain",
)
def test_added_trials_stand_cuts(algorithm: str, scheduler: str, changes: dict[str, Any]) -> None:
    recorded = make_added(algorithm, scheduler, changes)
    uncut = recorded.run()
    added = find_added(uncut)
    assert [trial.status.state for trial in added] == ["TERMINATED"] * 3 + ["ERROR"]
    assert added[-1].status.reason == "Refused"
    places = [trial.status.observation_seq for trial in added[:3]]
    assert None not in places
    assert len(uncut.trials) == 12 + 4
    cuts = {1 + place * (recorded.events - 2) // (CUTS - 1) for place in range(CUTS)}

    def check(cut: SimulationResult) -> None:
        assert_is(without_added(cut), without_added(uncut))
        assert [trial.status for trial in find_added(cut)] == [trial.status for trial in added]

    check_whole_runs(
        lambda: make_added(algorithm, scheduler, changes),
        cuts,
        check,
        lambda simulation: count_known(simulation.outcome),
    )


def find_added(outcome: SimulationResult) -> list[Trial]:
    return [trial for trial in outcome.trials if trial.spec.index >= 100_000]


def without_added(outcome: SimulationResult) -> SimulationResult:
    return replace(outcome, trials=tuple(trial for trial in outcome.trials if trial.spec.index < 100_000))


def count_known(outcome: SimulationResult) -> int:
    """How many steps the added trials have made so far."""
    return sum(trial.version for trial in find_added(outcome) if trial.status.observation_seq is None)
