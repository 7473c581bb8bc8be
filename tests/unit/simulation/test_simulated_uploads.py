"""Checkpoints that take their time, in virtual time: what a pod waits for at its end, and what is lost.

Each trial trains alone, 60 s an iteration, and has its GPU from the experiment's first second on.
"""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.resources.trial import TrialStatus
from podtune.simulation.cluster import ClusterModel
from podtune.simulation.trace import SimulationResult
from tests.unit.simulation.test_simulated_experiment import run, spec

OUT_OF_TIME = "there is no time left; raise checkpoints.drain"
STOP_AT_3 = {"metrics": {"training_iteration": 3}}


def train(
    *,
    upload: float,
    every: int = 3,
    iterations: int = 3,
    pod_stop: float = 5,
    trials: int = 1,
    checkpoints: dict[str, Any] | None = None,
    grace: int = 30,
    reuse: bool = False,
    **fields: Any,
) -> SimulationResult:
    """Trains one trial after the other.

    Args:
        upload: Seconds that a checkpoint takes.
        every: Iterations between two checkpoints.
        iterations: Those of the whole training.
        pod_stop: Seconds until a program has ended that is told to.
        trials: How many there are.
        checkpoints: Further settings of checkpoints.
        grace: Seconds of the template's grace period.
        reuse: Whether pods run trial after trial.
        fields: Further fields of the Experiment.
    """
    template = {"containers": [{"name": "trial", "image": "i"}], "terminationGracePeriodSeconds": grace}
    manifest = spec(
        search={"algorithm": "random", "maxTrials": trials, "seed": 7},
        maxConcurrentTrials=1,
        checkpoints={"store": {"bucket": "bucket"}, **(checkpoints or {})},
        trialTemplate={"spec": template, "reuse": reuse},
        **fields,
    )
    model = ClusterModel(pod_start=0, pod_stop=pod_stop, checkpoint=upload, checkpoint_every=every)
    return run(manifest, model, iterations=iterations)


def lived(outcome: SimulationResult) -> float:
    """Seconds that pods have had a GPU."""
    return outcome.gpu_hours * 3600


def stored_and_lost(outcome: SimulationResult) -> tuple[int | None, str]:
    """The iteration of the only trial's newest stored checkpoint, and what is told of a lost one."""
    status: TrialStatus = outcome.trials[0].status
    lost = status.lost_checkpoint
    step = None if status.checkpoint is None else status.checkpoint.step
    return step, lost.message if lost is not None else ""


def test_a_pod_whose_program_has_ended_stays_until_its_checkpoint_is_stored() -> None:
    outcome = train(upload=200)
    assert outcome.trials[0].status.reason == "Completed"
    assert stored_and_lost(outcome) == (3, "")
    assert lived(outcome) == pytest.approx(180 + 200)


def test_an_upload_that_takes_longer_than_drain_is_lost_and_the_operator_says_so() -> None:
    outcome = train(upload=200, checkpoints={"drain": "100s"})
    assert outcome.trials[0].status.reason == "Completed"
    lost = f"the checkpoint of iteration 3 is lost; no checkpoint is stored: {OUT_OF_TIME}"
    assert stored_and_lost(outcome) == (None, lost)
    assert outcome.status.lost_checkpoints == 1
    condition = next(c for c in outcome.status.conditions if c.type == "CheckpointsStored")
    assert (condition.status, condition.message) == (
        "False",
        f"1 attempt ended before the newest checkpoint was stored; simulated-0: {lost}",
    )
    assert lived(outcome) == pytest.approx(180 + 100)


def test_checkpoints_are_stored_one_after_the_other() -> None:
    """Three, reported after 60, 120 and 180 s."""
    outcome = train(upload=100, every=1)
    assert stored_and_lost(outcome) == (3, "")
    assert lived(outcome) == pytest.approx(60 + 3 * 100)


def test_soon_after_the_programs_end_only_the_newest_of_those_that_wait_is_stored() -> None:
    """The fourth is on its way from 510 to 660 s, five more wait when the program ends after 540 s."""
    outcome = train(upload=150, every=1, iterations=9)
    assert stored_and_lost(outcome) == (9, "")
    assert lived(outcome) == pytest.approx(660 + 150)


def test_a_stop_waits_for_the_checkpoint_that_was_reported_by_then() -> None:
    outcome = train(upload=150, iterations=9, stop=STOP_AT_3)
    assert outcome.trials[0].status.reason == "StoppedByCriterion"
    assert stored_and_lost(outcome) == (3, "")
    assert lived(outcome) == pytest.approx(180 + 150 + 5)


def test_what_is_reported_after_a_stop_has_the_programs_part_of_the_grace_period_and_is_no_loss() -> None:
    """Iteration 6 is reported after 360 s, that of iteration 3 is stored after 380 s."""
    outcome = train(upload=200, iterations=9, stop=STOP_AT_3)
    assert stored_and_lost(outcome) == (3, "")
    assert lived(outcome) == pytest.approx(180 + 200 + 30)


def test_a_stop_waits_no_longer_than_sync_timeout_and_the_agent_then_has_drain() -> None:
    outcome = train(upload=150, iterations=9, stop=STOP_AT_3, checkpoints={"sync": {"timeout": "100s"}, "drain": "60s"})
    lost = f"the checkpoint of iteration 3 is lost; no checkpoint is stored: {OUT_OF_TIME}"
    assert stored_and_lost(outcome) == (None, lost)
    assert lived(outcome) == pytest.approx(180 + 100 + 5 + 60)


def test_a_deleted_pod_is_killed_when_the_templates_grace_period_and_drain_are_over() -> None:
    """The program takes longer to end than it is given, at the agent's expense."""
    checkpoints = {"sync": {"timeout": "100s"}, "drain": "60s"}
    outcome = train(upload=150, iterations=9, pod_stop=25, stop=STOP_AT_3, checkpoints=checkpoints, grace=10)
    too_long = "it took longer than checkpoints.sync.timeout of 100 s; raise it"
    assert stored_and_lost(outcome) == (
        None,
        f"the checkpoint of iteration 3 is lost; no checkpoint is stored: {too_long}",
    )
    assert lived(outcome) == pytest.approx(180 + 100 + 10 + 60)


def test_a_checkpoint_that_takes_longer_than_sync_timeout_is_given_up_after_its_retries() -> None:
    outcome = train(upload=150, checkpoints={"sync": {"timeout": "100s", "retries": 1}})
    stored, lost = stored_and_lost(outcome)
    assert stored is None
    assert "can't be stored: it took longer than checkpoints.sync.timeout of 100 s; raise it" in lost
    assert lived(outcome) == pytest.approx(180 + 2 * 100)


def test_a_warm_pod_goes_on_when_the_checkpoint_of_its_last_trial_is_stored() -> None:
    outcome = train(upload=200, trials=2, reuse=True)
    assert [trial.status.checkpoint and trial.status.checkpoint.step for trial in outcome.trials] == [3, 3]
    assert lived(outcome) == pytest.approx(2 * (180 + 200), abs=5)


def test_a_node_that_shuts_down_leaves_no_time_to_store_and_one_that_is_drained_does() -> None:
    manifest = spec(checkpoints={"store": {"bucket": "bucket"}}, failures={"maxDisruptions": 100})
    outcome = run(manifest, ClusterModel(checkpoint=50, disruptions_per_hour=4))
    retries = [decided.entry.message for decided in outcome.decisions if decided.entry.action == "RETRY"]
    shut_down = [message for message in retries if "the node shuts down" in message]
    drained = [message for message in retries if "the node is drained" in message]
    assert len(shut_down) + len(drained) == sum(trial.status.disruptions for trial in outcome.trials)
    assert drained
    assert 0 < outcome.status.lost_checkpoints <= len(shut_down), "one is on its way nearly all the time"
