"""A trial template changes while the experiment runs: an operator that is killed goes on with it as if it had not been.

Cuts are all over the run: before the change, right after it, and where trials of both templates run.
"""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.resources.trial_template import TrialTemplate
from podtune.simulation.simulation import Simulation
from podtune.simulation.trace import SimulationResult
from tests.unit.runner.world.examples import draw
from tests.unit.simulation.test_restart_matrix import assert_is, check_whole_runs, make_simulation, make_spec

CHANGED = (400.0, 900.0, 901.0)
"""Seconds after which the template is another one: twice at almost the same time."""
CUTS = draw(12)
GANG: dict[str, Any] = {"replicas": 2, "spec": {"containers": [{"name": "trial", "image": "none"}]}}
WARM: dict[str, Any] = {"reuse": True, "spec": {"containers": [{"name": "trial", "image": "none"}]}}


def make_changing(algorithm: str, scheduler: str, template: dict[str, Any] | None) -> Simulation:
    """A run whose template is changed by its user."""
    spec = make_spec(algorithm, scheduler, {} if template is None else {"trialTemplate": template})
    simulation = make_simulation(spec)
    for number, seconds in enumerate(CHANGED):
        containers = [{"name": "trial", "image": f"image-{number}"}]
        written = spec.trial_template.model_dump() | {"spec": {"containers": containers}}
        changed = spec.model_copy(update={"trial_template": TrialTemplate.model_validate(written)})
        simulation.change_after(seconds, changed)
    return simulation


@pytest.mark.parametrize(
    ("algorithm", "scheduler", "template"),
    [("tpe", "asha", None), ("random", "hyperband", None), ("random", "pbt", WARM), ("random", "asha", GANG)],
    ids=["asha", "hyperband", "warm pods", "gangs"],
)
def test_a_template_that_changes_stands_cuts(algorithm: str, scheduler: str, template: dict[str, Any] | None) -> None:
    recorded = make_changing(algorithm, scheduler, template)
    uncut = recorded.run()
    assert_takes_each_template(uncut)
    cuts = {1 + place * (recorded.events - 2) // (CUTS - 1) for place in range(CUTS)}
    check_whole_runs(lambda: make_changing(algorithm, scheduler, template), cuts, lambda cut: assert_is(cut, uncut))


def assert_takes_each_template(uncut: SimulationResult) -> None:
    template = uncut.status.template
    assert template is not None
    last = template.revisions[-1]
    assert (last.number, last.name != template.first) == (1 + len(CHANGED), True)
    assert any(trial.status.revision == last.name for trial in uncut.trials)
