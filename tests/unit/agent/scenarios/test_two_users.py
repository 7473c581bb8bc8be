"""A pod has two users: what the program hands over, the agent must be able to read, and to delete."""

import os
import subprocess
import sys

import pytest


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become two users")
@pytest.mark.parametrize("scenario", ["agent first", "program first", "restored"])
def test_each_user_gets_at_what_the_other_hands_over(scenario: str) -> None:
    command = [sys.executable, "-m", "tests.unit.agent.scenarios.two_users", scenario]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    played = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert played.returncode == 0, played.stderr
