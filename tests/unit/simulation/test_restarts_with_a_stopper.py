"""A stopper of another package ends the experiment: an operator that is killed ends it as if it had not been."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

from typing_extensions import override

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType
from podtune.simulation.simulation import Simulation
from podtune.tuning.searchers.base import Observation
from podtune.tuning.stoppers.base import Finding, ObservationStopper
from tests.entry_points import make_installation
from tests.unit.simulation.test_restart_matrix import assert_is, check_whole_runs, make_simulation, make_spec

CUTS = 3


class Steps(ObservationStopper):
    """Ends an experiment when its trials have made so many steps: one that is told twice or never changes that."""

    def __init__(self, **arguments: Any) -> None:
        self._limit: int = arguments["settings"]["limit"]
        self._steps = 0

    @override
    def on_observation(self, observation: Observation) -> Finding | None:
        self._steps += observation.step
        return Finding(f"{self._steps} steps were made", {"steps": self._steps}) if self._steps >= self._limit else None


installed = make_installation(EntryPoint("steps", f"{__name__}:Steps", "podtune.experiment_stoppers"))


def make() -> Simulation:
    rule = {"plugin": {"name": "steps", "settings": {"limit": 30}}}
    return make_simulation(make_spec("tpe", "asha", {"stop": {"experiment": [rule]}}))


def test_an_end_by_a_stopper_stands_cuts() -> None:
    recorded = make()
    uncut = recorded.run()
    end = find_condition(uncut.status.conditions, ConditionType.SUCCESS_CRITERIA_MET)
    assert end is not None
    assert end.message.endswith("steps were made, as stop.experiment[0].plugin asks")
    assert len(uncut.trials) < 12, "the search had not come to its end"
    cuts = {1 + place * (recorded.events - 2) // (CUTS - 1) for place in range(CUTS)}
    check_whole_runs(make, cuts, lambda cut: assert_is(cut, uncut))
