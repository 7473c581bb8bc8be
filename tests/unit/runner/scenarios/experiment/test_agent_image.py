"""The agent's image in the Experiment's status: a person's pod that reads the volume is made of it."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.runner.settings import RunnerSettings
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, spec

VOLUME = {"volume": {"claimName": "weights"}}


@pytest.mark.parametrize(("store", "image"), [(VOLUME, "agent:2"), (STORE, "")])
def test_it_is_recorded_where_checkpoints_are_on_a_volume(store: dict[str, Any], image: str) -> None:
    settings = RunnerSettings(agent_image="agent:2")
    simulation = Simulation(spec(checkpoints={"store": store}), Program(steps=2, checkpoint_every=1), settings=settings)
    simulation.run()
    status = simulation.api.experiment.status
    assert (status.completion_time is not None, status.agent_image) == (True, image)
