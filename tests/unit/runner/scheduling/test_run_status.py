"""What a trial's run in a tracker is shown as, while it has an agent and when it has none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from podtune.api.names import DecisionAction, TrialReason, TrialState
from podtune.api.resources.experiment import BestTrial, ExperimentStatus
from podtune.protocol.tracking import RunFacts, RunStatus
from podtune.runner.records import ContainerEnd, Experiment
from podtune.runner.scheduling.run_status import (
    build_run_facts,
    describe_tracked_run,
    find_run_status,
    foresee_run_status,
)
from podtune.runner.trial.machine import TrialMachine
from tests.unit.runner.objects import make_machine, make_pod, make_spec, make_trial
from tests.unit.runner.world.simulated_agent import DistantAgent
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import Simulation, spec

TRACKED: dict[str, Any] = {"trackers": {"mlflow": {"uri": "http://mlflow:5000"}}}


def make_running(**fields: Any) -> TrialMachine:
    made = make_machine(make_trial(), make_spec(**{**TRACKED, **fields}))
    made.observe_pod(make_pod(made))
    return made


@pytest.mark.parametrize(
    ("state", "reason", "status"),
    [
        (TrialState.TERMINATED, TrialReason.COMPLETED, RunStatus.FINISHED),
        (TrialState.TERMINATED, TrialReason.STOPPED_BY_CRITERION, RunStatus.FINISHED),
        (TrialState.TERMINATED, TrialReason.STOPPED_BY_SCHEDULER, RunStatus.KILLED),
        (TrialState.TERMINATED, TrialReason.STOPPED_BY_USER, RunStatus.KILLED),
        (TrialState.TERMINATED, TrialReason.STOPPED_BY_EXPERIMENT, RunStatus.KILLED),
        (TrialState.ERROR, TrialReason.MAX_FAILURES_EXCEEDED, RunStatus.FAILED),
        (TrialState.PAUSED, TrialReason.PAUSED_BY_USER, RunStatus.SCHEDULED),
        (TrialState.PENDING, TrialReason.BACKING_OFF, RunStatus.SCHEDULED),
        (TrialState.RUNNING, TrialReason.TRAINING, RunStatus.RUNNING),
    ],
)
def test_a_run_is_shown_by_the_state_of_its_trial(state: TrialState, reason: str, status: RunStatus) -> None:
    assert find_run_status(make_trial(state=state, reason=reason).status) is status


@pytest.mark.parametrize(("code", "status"), [(0, RunStatus.FINISHED), (1, RunStatus.FAILED), (137, RunStatus.FAILED)])
def test_while_the_agent_ends_the_programs_exit_code_tells(code: int, status: RunStatus) -> None:
    made = make_running()
    assert foresee_run_status(made, is_flushed=True) is RunStatus.RUNNING
    made.observe_pod(make_pod(made, version=2, ends=(ContainerEnd("trial", code),), training_until=5.0))
    assert foresee_run_status(made, is_flushed=True) is status


def test_a_pod_that_is_deleted_for_no_decision_comes_again() -> None:
    made = make_running()
    made.observe_pod(make_pod(made, version=2, deleting=True, deletion_requested=4.0))
    assert foresee_run_status(made, is_flushed=True) is RunStatus.SCHEDULED
    made.observe_pod(
        make_pod(made, version=3, deleting=True, deletion_requested=4.0, ends=(ContainerEnd("trial", 143),))
    )
    assert foresee_run_status(made, is_flushed=True) is RunStatus.SCHEDULED


@pytest.mark.parametrize(
    ("action", "reason", "status"),
    [
        (DecisionAction.STOP, TrialReason.STOPPED_BY_SCHEDULER, RunStatus.KILLED),
        (DecisionAction.STOP, TrialReason.MAX_TIME_REACHED, RunStatus.FINISHED),
        (DecisionAction.PAUSE, TrialReason.PAUSED_BY_SCHEDULER, RunStatus.SCHEDULED),
        (DecisionAction.FAIL, TrialReason.MAX_FAILURES_EXCEEDED, RunStatus.FAILED),
        (DecisionAction.RETRY, TrialReason.RETRY_REQUESTED, RunStatus.SCHEDULED),
    ],
)
def test_a_decision_tells_more_than_the_exit_code_once_it_is_durable(
    action: DecisionAction, reason: str, status: RunStatus
) -> None:
    decision = {"action": action, "reason": reason, "attempt": 1}
    made = make_machine(make_trial(state=TrialState.RUNNING, decision=decision), make_spec(**TRACKED))
    made.observe_pod(make_pod(made, ends=(ContainerEnd("trial", 1),), training_until=5.0))
    assert foresee_run_status(made, is_flushed=True) is status
    assert foresee_run_status(made, is_flushed=False) is RunStatus.FAILED


def test_nobody_is_told_of_runs_without_a_tracker() -> None:
    made = make_machine(make_trial())
    assert build_run_facts(made, is_flushed=True, is_best=True) is None
    experiment = Experiment("ml", "e", "u", 1, 1, make_spec(), ExperimentStatus())
    assert describe_tracked_run(experiment, made) == {}


def test_agents_that_store_event_files_are_told_of_ends_and_so_are_storage_pods() -> None:
    spec_ = make_spec(trackers={"tensorBoard": {}}, checkpoints={"store": {"bucket": "models"}})
    made = make_machine(make_trial(state=TrialState.TERMINATED, reason=TrialReason.COMPLETED), spec_)
    assert build_run_facts(made, is_flushed=True, is_best=False) == RunFacts(RunStatus.FINISHED)
    experiment = Experiment("ml", "e", "u", 1, 1, spec_, ExperimentStatus())
    told = {"uid": "trial-0", "run": RunFacts(RunStatus.FINISHED), "attempt": 0}
    assert describe_tracked_run(experiment, made) == told
    last = {"attempt": 3, "class": "Crash", "reason": "NonZeroExitCode"}
    failed = make_trial(state=TrialState.ERROR, last_attempt=last)
    told = {"uid": "trial-0", "run": RunFacts(RunStatus.FAILED), "attempt": 3}
    assert describe_tracked_run(experiment, make_machine(failed, spec_)) == told


def test_storage_pods_are_told_of_the_best_trial() -> None:
    made = make_machine(make_trial(state=TrialState.ERROR), make_spec(**TRACKED))
    status = ExperimentStatus(best=BestTrial(trial="e-0", value="1"))
    experiment = Experiment("ml", "e", "u", 1, 1, make_spec(**TRACKED), status)
    assert describe_tracked_run(experiment, made)["run"] == RunFacts(RunStatus.FAILED, is_best=True)
    other = replace(experiment, status=ExperimentStatus(best=BestTrial(trial="e-1", value="1")))
    assert describe_tracked_run(other, made)["run"] == RunFacts(RunStatus.FAILED)


def test_agents_hear_whose_trial_is_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: dict[str, RunFacts | None] = {}
    learn = DistantAgent._learn

    def record(agent: DistantAgent, reply: Any) -> None:
        heard[agent._trial] = reply.run
        learn(agent, reply)

    monkeypatch.setattr(DistantAgent, "_learn", record)
    simulation = Simulation(
        spec(**TRACKED, maxConcurrentTrials=4), Program(steps=5, metric=lambda trial, step: trial / 10 + step / 100)
    ).run()
    best = simulation.api.experiment.status.best
    assert best is not None
    assert [name for name, facts in heard.items() if facts is not None and facts.is_best] == [best.trial]
