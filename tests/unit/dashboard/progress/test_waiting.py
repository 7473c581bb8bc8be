"""What an experiment waits for, in a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.cli.client.resources import read_experiment, read_trial
from podtune.dashboard.progress.waiting import describe_waiting
from podtune.dashboard.trial_rows import collect_rows
from tests.unit.dashboard.archives import BASE, done, experiment_body, make_source, read_page, serve, trial_body


def tell(*trials: dict[str, Any], state: str = "Running") -> str:
    view = read_experiment(experiment_body(status={"state": state}))
    bodies = [trial_body(index, **status) for index, status in enumerate(trials)]
    return describe_waiting(collect_rows(view, [read_trial(body) for body in bodies]))


TRAINING: dict[str, Any] = {"state": "RUNNING", "reason": "Training"}
QUEUED: dict[str, Any] = {"state": "PENDING", "reason": "Queued"}
NO_NODE: dict[str, Any] = {
    "state": "PENDING",
    "reason": "Unschedulable",
    "message": "0/3 nodes have 1 nvidia.com/gpu left",
}


@pytest.mark.parametrize(
    ("trials", "sentence"),
    [
        ((TRAINING, TRAINING, done(0.5)), "It waits for 2 trials to train."),
        (
            (TRAINING, NO_NODE),
            "It waits for digits-0 to train and a node for digits-1 (0/3 nodes have 1 nvidia.com/gpu left).",
        ),
        ((QUEUED, TRAINING, QUEUED, {}), "It waits for digits-1 to train and room for 3 trials in the queue."),
        (
            ({"state": "PENDING", "reason": "InvalidOverrides"}, TRAINING),
            "It waits for a correction of digits-0 and digits-1 to train.",
        ),
        (({"state": "PENDING", "reason": "PullingImage"},), "It waits for digits-0 to start."),
        (({"state": "PENDING", "reason": "BackingOff"},), "It waits for another attempt of digits-0."),
        (({"state": "RUNNING", "reason": "Pondering"},), "It waits for digits-0 to go on."),
        ((done(0.5),), "It waits for the search to propose the next trials."),
    ],
)
def test_it_waits_for_its_trials(trials: tuple[dict[str, Any], ...], sentence: str) -> None:
    assert tell(*trials) == sentence


@pytest.mark.parametrize("state", ["Complete", "Failed", "Stalled", "Suspended", ""])
def test_an_experiment_that_does_not_run_has_a_message_that_says_why(state: str) -> None:
    assert tell(QUEUED, state=state) == ""


async def test_the_overview_says_it() -> None:
    async with serve(make_source([trial_body(0, **NO_NODE)])) as client:
        assert "It waits for a node for digits-0 (0/3 nodes" in await read_page(client, f"{BASE}/")
