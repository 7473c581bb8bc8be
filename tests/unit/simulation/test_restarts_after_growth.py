"""A person appends configurations to search.initial: an operator that is killed goes on as if it had not been.

Cuts are all over the run: before the list grows, while what was proposed ahead is thrown away, and afterwards.
"""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.resources.trial import ProposalSource
from podtune.api.tuning.prior_knowledge import InitialConfiguration
from podtune.simulation.simulation import Simulation
from podtune.simulation.trace import SimulationResult
from tests.unit.runner.world.examples import draw
from tests.unit.simulation.test_restart_matrix import (
    INITIAL,
    assert_is,
    check_whole_runs,
    make_simulation,
    make_spec,
)

GROWS = (150.0, 400.0, 401.0)
"""Seconds after which an entry is appended: twice at almost the same time."""
CUTS = draw(16)


def make_growing(algorithm: str, scheduler: str, search: dict[str, Any]) -> Simulation:
    """A run in which a user appends configurations to those that it began with."""
    parameters = {name: value for name, value in INITIAL.items() if algorithm != "bruteForce" or name != "rate"}
    spec = make_spec(algorithm, scheduler, {"search": {"initial": [{"parameters": parameters}], **search}})
    simulation = make_simulation(spec)
    initial = spec.search.initial
    for number, seconds in enumerate(GROWS, start=1):
        initial = [*initial, InitialConfiguration(parameters={**parameters, "width": 64 + 16 * number})]
        grown = spec.model_copy(update={"search": spec.search.model_copy(update={"initial": initial})})
        simulation.change_after(seconds, grown)
    return simulation


@pytest.mark.parametrize(
    ("algorithm", "scheduler", "search"),
    [
        ("tpe", "asha", {}),
        ("cmaes", "fifo", {}),
        ("nsga2", "fifo", {}),
        ("bruteForce", "asha", {}),
        ("random", "hyperband", {}),
        ("tpe", "fifo", {"repeats": 2, "maxTrials": 20}),
    ],
    ids=["tpe", "cmaes", "nsga2", "brute force", "hyperband", "repeats"],
)
def test_a_list_that_grows_stands_cuts(algorithm: str, scheduler: str, search: dict[str, Any]) -> None:
    recorded = make_growing(algorithm, scheduler, search)
    uncut = recorded.run()
    assert count_entries(uncut) == 1 + len(GROWS)
    cuts = {1 + place * (recorded.events - 2) // (CUTS - 1) for place in range(CUTS)}
    check_whole_runs(
        lambda: make_growing(algorithm, scheduler, search),
        cuts,
        lambda cut: assert_is(cut, uncut),
        lambda simulation: count_entries(simulation.outcome),
    )


def count_entries(outcome: SimulationResult) -> int:
    """How many entries of the manifest have become trials."""
    records = [trial.spec.proposal for trial in outcome.trials]
    return len({record.position for record in records if record and record.source is ProposalSource.INITIAL})
