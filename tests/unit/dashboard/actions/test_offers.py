"""Which buttons there are, and what their confirmation says."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.names import TrialReason
from podtune.cli.client.resources import read_experiment, read_trial
from podtune.dashboard.actions.offers import ViewerAction, list_offers
from podtune.dashboard.trial_rows import ExperimentRows, collect_rows
from tests.unit.dashboard.archives import done, experiment_body, trial_body

PAUSE, RESUME, STOP, RETRY = ViewerAction.PAUSE, ViewerAction.RESUME, ViewerAction.STOP, ViewerAction.RETRY
STORE: dict[str, Any] = {"checkpoints": {"store": {"s3": {"bucket": "b"}}}}
RUNNING: dict[str, Any] = {"state": "RUNNING", "reason": "Training", "attempt": 2}


def make_rows(*statuses: dict[str, Any], state: str = "Running", store: bool = True, **spec: Any) -> ExperimentRows:
    body = experiment_body(status={"state": state}, **(STORE if store else {}), **spec)
    trials = [read_trial(trial_body(index, **status)) for index, status in enumerate(statuses)]
    return collect_rows(read_experiment(body), trials, None)


def read_offers(experiment: ExperimentRows, trial: int | None = None) -> dict[ViewerAction, str]:
    offers = list_offers(experiment, None if trial is None else experiment.rows[trial])
    assert {offer.action for offer in offers if offer.is_final} <= {STOP}
    return {offer.action: offer.sentence for offer in offers}


def test_a_running_experiment_can_be_paused_and_stopped() -> None:
    offers = read_offers(make_rows(RUNNING, RUNNING, RUNNING, {}, done(0.5)))
    assert offers == {
        PAUSE: "3 trials are running. They save a checkpoint and give their GPUs back. "
        "No trial starts until the experiment is resumed.",
        STOP: "3 trials are running and end after their last checkpoints. 1 trial that waits starts no more. "
        "The experiment ends for good; results and checkpoints are kept.",
    }


def test_without_a_store_the_loss_is_said() -> None:
    offers = read_offers(make_rows(RUNNING, store=False))
    assert "It loses its progress" in offers[PAUSE]
    assert "1 trial is running and ends at once." in offers[STOP]


def test_a_paused_experiment_can_be_resumed() -> None:
    offers = read_offers(make_rows({"state": "PAUSED"}, {}, state="Suspended", suspend=True))
    assert list(offers) == [RESUME, STOP]
    assert offers[RESUME] == "2 trials are waiting and go on as soon as slots are free; others may follow."


@pytest.mark.parametrize("ended", [{"state": "Complete"}, {"state": "Failed"}, {"stop": {"now": True}}])
def test_what_has_ended_or_is_about_to_offers_nothing(ended: dict[str, Any]) -> None:
    assert not read_offers(make_rows(RUNNING, **ended))


@pytest.mark.parametrize(
    ("status", "store", "offered"),
    [
        (RUNNING, True, [PAUSE, RETRY, STOP]),
        (RUNNING, False, [RETRY, STOP]),
        ({"state": "PENDING", "reason": "Queued"}, True, [PAUSE, STOP]),
        (
            {"state": "PENDING", "reason": "BackingOff"},
            True,
            [PAUSE, RETRY, STOP],
        ),
        (
            {"state": "PENDING", "reason": "PullingImage"},
            True,
            [PAUSE, RETRY, STOP],
        ),
        ({"state": "PAUSED", "reason": TrialReason.PAUSED_BY_USER}, True, [RESUME, STOP]),
        ({"state": "PAUSED", "reason": "PausedByScheduler"}, True, [PAUSE, STOP]),
        (done(0.5), True, []),
        ({"state": "ERROR", "reason": "MaxFailuresExceeded"}, True, []),
    ],
)
def test_a_trial_offers_what_its_state_allows(status: dict[str, Any], store: bool, offered: list[ViewerAction]) -> None:
    assert list(read_offers(make_rows(status, store=store), 0)) == offered


def test_a_retry_is_of_the_attempt_that_is_seen() -> None:
    experiment = make_rows({**RUNNING, "lastAttempt": {"attempt": 1, "class": "user", "reason": "Error"}})
    offer = next(each for each in list_offers(experiment, experiment.rows[0]) if each.action == RETRY)
    assert offer.attempt == 2
    assert offer.sentence.startswith("Attempt 2 saves a checkpoint and ends.")
