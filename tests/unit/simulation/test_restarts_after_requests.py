"""A person has trials retried while the experiment runs: an operator that is killed goes on as if it had not been.

Cuts are all over the run: before the requests, between any two writes that answer one, and after the new attempts.
"""

from __future__ import annotations

from typing import Any

import pytest

from podtune.simulation.simulation import Simulation
from podtune.simulation.trace import SimulationResult
from tests.unit.runner.world.examples import draw
from tests.unit.simulation.test_restart_matrix import assert_is, check_whole_runs, make_simulation, make_spec

RETRIED = ((200.0, 0), (400.0, 1), (401.0, 1), (700.0, 2), (740.0, 3))
"""After how many seconds which trial is retried: one of them twice at almost the same time."""
CUTS = draw(16)
GANG: dict[str, Any] = {"replicas": 2, "spec": {"containers": [{"name": "trial", "image": "none"}]}}
WARM: dict[str, Any] = {"reuse": True, "spec": {"containers": [{"name": "trial", "image": "none"}]}}


def make_retried(algorithm: str, scheduler: str, template: dict[str, Any] | None) -> Simulation:
    """A run some of whose trials are retried by request."""
    simulation = make_simulation(
        make_spec(algorithm, scheduler, {} if template is None else {"trialTemplate": template})
    )
    for seconds, index in RETRIED:
        simulation.retry_after(seconds, f"simulated-{index}")
    return simulation


@pytest.mark.parametrize(
    ("algorithm", "scheduler", "template"),
    [("tpe", "asha", None), ("random", "hyperband", None), ("random", "pbt", WARM), ("random", "asha", GANG)],
    ids=["asha", "hyperband", "warm pods", "gangs"],
)
def test_requests_to_retry_stand_cuts(algorithm: str, scheduler: str, template: dict[str, Any] | None) -> None:
    recorded = make_retried(algorithm, scheduler, template)
    uncut = recorded.run()
    assert count_retries(uncut) >= 2
    cuts = {1 + place * (recorded.events - 2) // (CUTS - 1) for place in range(CUTS)}
    check_whole_runs(
        lambda: make_retried(algorithm, scheduler, template), cuts, lambda cut: assert_is(cut, uncut), count_answers
    )


def count_answers(simulation: Simulation) -> int:
    return sum(trial.status.retried_attempt for trial in simulation.outcome.trials)


def count_retries(outcome: SimulationResult) -> int:
    """How many attempts were ended by request, by the decisions that are on record."""
    entries = [decided.entry for decided in outcome.decisions]
    return sum("by request" in entry.message for entry in entries if entry.action == "RETRY")
