"""Pods that the API server refuses for what they are hold the experiment until it takes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.api.conditions import MAX_MESSAGE, find_condition
from podtune.api.names import ConditionType, DesiredState, ExperimentReason, ExperimentState, TrialReason, TrialState
from podtune.api.resources.experiment import ExperimentStatus
from podtune.api.resources.trial_template import TrialTemplate
from podtune.runner.actions import (
    Action,
    ActionResult,
    ActionStatus,
    CreatePod,
    CreateTrial,
    EmitEvent,
    Propose,
    TryPod,
)
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world.examples import draw
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import FAIR, START, Simulation, Weather, spec

WORDS = 'pods "e-0-1" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'
REFUSED = ActionResult(ActionStatus.REFUSED, WORDS, ExperimentReason.POD_REFUSED)
LONG = {"startDeadline": "20h"}
"""Trials wait for their pods for as long as it takes."""


def is_pod(action: Action) -> bool:
    return isinstance(action, CreatePod | TryPod)


def refused(takes: Callable[[float], bool] = lambda _: False, **fields: object) -> Simulation:
    """Twelve trials, three at once, whose pods are refused but at the times, in seconds, at which they are taken."""
    fields = {"maxConcurrentTrials": 3, "failures": LONG, **fields}
    simulation = Simulation(spec(search={"algorithm": "random", "maxTrials": 12, "seed": 7}, **fields))
    simulation.refuse = lambda action: REFUSED if is_pod(action) and not takes(simulation.now - START) else None
    return simulation


def status_of(simulation: Simulation) -> ExperimentStatus:
    return simulation.api.experiment.status


def test_the_first_refusal_holds_the_experiment() -> None:
    simulation = refused().run(3600.0)
    assert len(simulation.actions(CreatePod)) == 3, "those that were under way together"
    assert len(simulation.actions(CreateTrial)) == 3
    asked = len(simulation.actions(TryPod))
    assert 10 <= asked <= 13, "every five minutes"
    for trial in simulation.api.trials.values():
        assert trial.status.infrastructure_failures == 0
        assert trial.status.last_attempt is None
        assert (trial.status.state, trial.status.reason) == (TrialState.PENDING, TrialReason.POD_REFUSED)
        assert WORDS in trial.status.message


def test_what_only_a_dry_run_passes_is_tried_once_in_five_minutes_and_told_once() -> None:
    """As the database refuses what is too large for it, of which a dry run knows nothing."""
    simulation = refused()
    simulation.refuse = lambda action: REFUSED if isinstance(action, CreatePod) else None
    simulation.run(3600.0)
    assert 10 <= len(simulation.actions(CreatePod)) / 3 <= 14
    assert len(simulation.api.trials) == 3, "no other trial is proposed in between"
    assert [event.reason for event in simulation.events] == ["PodRefused"]
    assert status_of(simulation).state is ExperimentState.STALLED


def test_an_experiment_whose_trials_have_all_ended_unstarted_has_failed() -> None:
    simulation = refused(maxConcurrentTrials=12, failures={"startDeadline": "20s"}).run(60.0)
    status = status_of(simulation)
    assert (status.state, status.trials.error) == (ExperimentState.FAILED, 12)


def test_one_condition_says_what_the_api_server_says_and_what_to_do() -> None:
    simulation = refused().run(60.0)
    status = status_of(simulation)
    assert status.state is ExperimentState.STALLED
    stalled = find_condition(status.conditions, ConditionType.STALLED)
    ready = find_condition(status.conditions, ConditionType.READY)
    assert (stalled.status, stalled.reason, ready.status) == ("True", "PodRefused", "False")
    assert stalled.message.startswith(f"spec.trialTemplate: the API server refuses the pod of e-0: {WORDS}; ")
    assert "pod-security.kubernetes.io/enforce" in stalled.message
    assert stalled.message == status.message
    assert [event.reason for event in simulation.events] == ["PodRefused"], "told once"


def test_words_without_end_leave_room_for_the_remedy() -> None:
    simulation = refused()
    wordy = ActionResult(ActionStatus.REFUSED, "x" * 5000, ExperimentReason.POD_REFUSED)
    simulation.refuse = lambda action: wordy if is_pod(action) else None
    simulation.run(10.0)
    message = status_of(simulation).message
    assert len(message) <= MAX_MESSAGE
    assert message.endswith("Podtune tries again every five minutes, and when the spec changes")
    assert "; correct spec.trialTemplate; Podtune tries again" in message


def test_everything_goes_on_within_five_minutes_of_the_mend() -> None:
    simulation = refused(lambda at: at > 1000).run(1000.0)
    assert not simulation.pods
    simulation.run(until=lambda: bool(simulation.pods))
    assert simulation.now - START < 1000 + 335
    simulation.run()
    status = status_of(simulation)
    assert (status.state, status.trials.terminated, status.pod_refusal) == (ExperimentState.COMPLETE, 12, None)
    stalled = find_condition(status.conditions, ConditionType.STALLED)
    assert stalled.status == "False"
    accepted = find_condition(simulation.status().conditions, ConditionType.POD_ACCEPTED)
    assert accepted.status == "True"


def test_a_change_of_the_spec_is_asked_about_at_once() -> None:
    simulation = refused(lambda at: at > 10).run(20.0)
    simulation.edit_spec(max_pending_trials=5)
    simulation.run(until=lambda: bool(simulation.pods))
    assert simulation.now - START < 25


def test_a_restarted_operator_asks_and_does_not_send_all_pods_again() -> None:
    simulation = refused(maxConcurrentTrials=8).run(20.0)
    made = len(simulation.actions(CreatePod))
    for _ in range(5):
        simulation.restart()
        simulation.run(10.0)
    assert len(simulation.actions(CreatePod)) == made
    assert len(simulation.actions(TryPod)) == 0, "it is not time yet"
    message = status_of(simulation).message
    simulation.run(3600.0)
    assert status_of(simulation).message == message
    assert len(simulation.actions(CreatePod)) == made


def has_tried(simulation: Simulation) -> bool:
    return bool(simulation.actions(TryPod))


def test_the_questions_of_many_experiments_come_apart() -> None:
    moments = set()
    for uid in range(5):
        simulation = refused()
        simulation.api.experiment = replace(simulation.api.experiment, uid=f"e-{uid}")
        simulation.run(until=partial(has_tried, simulation))
        moments.add(round(simulation.now - START))
        assert 265 <= simulation.now - START <= 335
    assert len(moments) > 2


def test_a_trial_that_never_got_a_pod_ends_by_the_start_deadline() -> None:
    simulation = refused(failures={"startDeadline": "20s"}).run(600.0)
    for trial in simulation.api.trials.values():
        status = trial.status
        assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.START_DEADLINE_EXCEEDED)
        assert status.message.endswith("(for longer than failures.startDeadline, 20s)")
        assert WORDS in status.message
    assert len(simulation.api.trials) == 3, "no other trial is proposed in their places"
    assert status_of(simulation).state is ExperimentState.STALLED
    assert len(simulation.actions(TryPod)) >= 1, "it is asked about an ended trial's pod"


def test_the_start_deadline_counts_from_the_first_refusal_whoever_leads() -> None:
    simulation = refused(failures={"startDeadline": "20m"})
    for _ in range(8):
        simulation.restart()
        simulation.run(140.0)
    assert simulation.status().state is TrialState.PENDING
    simulation.run(until=lambda: simulation.status().state is TrialState.ERROR)
    assert 1195 <= simulation.now - START <= 1210


def test_what_ended_by_the_deadline_does_not_keep_others_from_going_on() -> None:
    simulation = refused(lambda at: at > 900, failures={"startDeadline": "20s"}).run()
    status = status_of(simulation)
    assert (status.trials.error, status.trials.terminated) == (3, 9)
    assert status.state is ExperimentState.COMPLETE


def test_a_trial_that_has_trained_before_waits_on() -> None:
    program = Program(steps=8, checkpoint_every=1, faults={0: (ScheduledFault(Fault.EVICTED, 4),)})
    fields = {"checkpoints": {"store": {"bucket": "bucket", "prefix": "demo"}}, "failures": {"startDeadline": "20s"}}
    simulation = Simulation(spec(search={"algorithm": "random", "maxTrials": 1}, **fields), program)
    simulation.refuse = lambda action: (
        REFUSED if is_pod(action) and simulation.api.attempts and simulation.now < START + 2000 else None
    )
    simulation.run(1900.0)
    assert (simulation.status().state, simulation.status().reason) == (TrialState.PENDING, TrialReason.POD_REFUSED)
    simulation.run()
    assert (simulation.status().state, simulation.status().attempt) == (TrialState.TERMINATED, 2)
    assert simulation.pods["e-0-2"].restored.step > 0


def test_trials_that_run_go_on() -> None:
    simulation = refused(lambda at: at < 1 or at > 500).run(100.0)
    status = status_of(simulation)
    assert status.trials.terminated == 3
    assert status.state is ExperimentState.STALLED
    assert len(simulation.pods) == 3
    simulation.run()
    assert status_of(simulation).trials.terminated == 12


def test_one_that_its_user_stops_is_not_asked_about_any_more() -> None:
    """Only the pod of one trial is refused: the others go on when that one is out of the way."""
    simulation = refused()
    simulation.refuse = lambda action: (
        REFUSED
        if (isinstance(action, CreatePod) and action.trial == "e-0")
        or (isinstance(action, TryPod) and action.creation.trial == "e-0")
        else None
    )
    simulation.run(100.0)
    assert status_of(simulation).trials.total == 3
    simulation.api.edit_trial("e-0", desired_state=DesiredState.STOPPED)
    simulation.edit_spec(max_pending_trials=5)
    simulation.run(until=lambda: len(simulation.api.trials) > 3)
    assert simulation.now - START < 110


def test_an_answer_that_does_not_come_is_asked_for_again_soon() -> None:
    simulation = refused()
    simulation.refuse = lambda action: (
        ActionResult(ActionStatus.FAILED, "no answer")
        if isinstance(action, TryPod) and len(simulation.actions(TryPod)) < 4
        else REFUSED
        if isinstance(action, CreatePod) and not simulation.actions(TryPod)
        else None
    )
    simulation.run(until=lambda: bool(simulation.pods))
    assert len(simulation.actions(TryPod)) == 4
    assert simulation.now - START < 345


def test_what_the_searcher_answers_meanwhile_waits() -> None:
    simulation = refused().run(2000.0)
    asked = len(simulation.actions(Propose))
    simulation.run(3000.0)
    assert len(simulation.actions(Propose)) == asked


def test_limits_of_a_rung_are_named() -> None:
    fields: dict[str, Any] = {
        "scheduler": {
            "asha": {"gracePeriod": 2, "maxTime": 8, "reductionFactor": 2},
            "resources": [{"atRung": 1, "limits": {"memory": "64Gi"}}],
        },
        "checkpoints": {"store": {"bucket": "bucket", "prefix": "demo"}},
    }
    with pytest.raises(ValueError, match="rung"):  # asha never pauses: its pods keep what they have
        spec(**fields)
    fields["scheduler"] = {"ashaPromotion": fields["scheduler"]["asha"], "resources": fields["scheduler"]["resources"]}
    simulation = Simulation(spec(maxConcurrentTrials=2, failures={"startDeadline": "20s"}, **fields), Program(steps=8))
    simulation.refuse = lambda action: (
        REFUSED if isinstance(creation := getattr(action, "creation", action), CreatePod) and creation.limits else None
    )
    simulation.run(2000.0)
    message = status_of(simulation).message
    assert "with memory 64Gi (scheduler.resources)" in message
    refused_trials = [t.status for t in simulation.api.trials.values() if t.status.reason == TrialReason.POD_REFUSED]
    assert refused_trials, "one that has trained is kept"
    assert all(status.state is TrialState.PENDING for status in refused_trials)


# Limits that follow from a trial's parameters


WORKERS = [{"name": "workers", "choice": {"values": [1, 2, 4, 8]}}]


def with_workers(expression: str, weather: Weather = FAIR, **fields: Any) -> Simulation:
    """Four trials, two at once, each with as many GPUs as an expression says."""
    template = {
        "limits": {"memory": "8Gi", "nvidia.com/gpu": {"expression": expression}},
        "spec": {"containers": [{"name": "trial", "image": "i"}]},
    }
    search = {"algorithm": "bruteForce", "maxTrials": 4}
    fields = {"maxConcurrentTrials": 2, "failures": {"startDeadline": "10m"}, **fields}
    return Simulation(
        spec(parameters=WORKERS, search=search, trialTemplate=template, **fields), Program(steps=3), weather
    )


def refuse_large(simulation: Simulation, *, without_limits: bool = False) -> None:
    """Has the API server refuse pods of eight GPUs, as a LimitRange does; or also those of none."""

    def refuse(action: Action) -> ActionResult | None:
        if not isinstance(action, CreatePod | TryPod):
            return None
        creation = action.creation if isinstance(action, TryPod) else action
        gpus = creation.limits.get("nvidia.com/gpu", "")
        return REFUSED if gpus == "8" or (without_limits and not gpus) else None

    simulation.refuse = refuse


def by_workers(simulation: Simulation) -> dict[str, Any]:
    return {trial.spec.parameters["workers"]: trial.status for trial in simulation.api.trials.values()}


def test_a_refusal_of_what_only_one_trial_asks_for_is_that_trials() -> None:
    simulation = with_workers("workers")
    refuse_large(simulation)
    simulation.run(500.0)
    assert status_of(simulation).state is ExperimentState.RUNNING
    large = by_workers(simulation)["8"]
    assert (large.state, large.reason) == (TrialState.PENDING, TrialReason.POD_REFUSED)
    assert large.message.startswith("the API server refuses its pod with memory 8Gi, nvidia.com/gpu 8: ")
    assert large.message.endswith("; correct spec.trialTemplate.limits, or have an administrator allow as much")
    simulation.run()
    assert status_of(simulation).state is ExperimentState.COMPLETE
    ends = {workers: (status.state, status.reason) for workers, status in by_workers(simulation).items()}
    completed = (TrialState.TERMINATED, TrialReason.COMPLETED)
    failed = (TrialState.ERROR, TrialReason.START_DEADLINE_EXCEEDED)
    assert ends == {"1": completed, "2": completed, "4": completed, "8": failed}


def test_a_trial_that_is_refused_alone_goes_on_once_the_template_asks_for_less() -> None:
    simulation = with_workers("workers")
    refuse_large(simulation)
    simulation.run(300.0)
    assert by_workers(simulation)["8"].reason == TrialReason.POD_REFUSED
    fewer = {"limits": {"nvidia.com/gpu": {"expression": "4 if workers > 4 else workers"}}}
    template = simulation.api.experiment.spec.trial_template.model_dump() | fewer
    simulation.edit_spec(trial_template=TrialTemplate.model_validate(template))
    simulation.run()
    large = by_workers(simulation)["8"]
    assert (large.state, large.reason) == (TrialState.TERMINATED, TrialReason.COMPLETED)
    assert simulation.created_pods()[-1].limits["nvidia.com/gpu"] == "4"


def test_a_template_that_is_refused_whatever_the_trial_asks_for_holds_the_experiment() -> None:
    simulation = with_workers("8 if workers > 0 else workers")
    refuse_large(simulation, without_limits=True)
    simulation.run(60.0)
    status = status_of(simulation)
    assert status.state is ExperimentState.STALLED
    assert "scheduler.resources" not in status.message
    refuse_large(simulation)
    simulation.run(400.0)
    assert status_of(simulation).state is ExperimentState.RUNNING, "a pod without GPUs would be taken"


def test_a_hold_is_lifted_once_the_template_is_taken_whatever_the_trial_asks_for() -> None:
    simulation = with_workers("workers")
    refuse_large(simulation, without_limits=True)
    simulation.run(60.0)
    simulation.refuse = lambda _: None
    simulation.run()
    assert status_of(simulation).trials.terminated == 4


def test_parameters_that_come_to_no_resources_end_their_trial_before_its_pod() -> None:
    simulation = with_workers("workers / 2").run()
    statuses = by_workers(simulation)
    assert (statuses["1"].state, statuses["1"].reason) == (TrialState.ERROR, TrialReason.INVALID_RESOURCES)
    problem = "'0.5' is a fraction of a device: the expression 'workers / 2' comes to that; correct it"
    assert problem in statuses["1"].message
    assert [statuses[workers].state for workers in ("2", "4", "8")] == [TrialState.TERMINATED] * 3
    asked = {action.limits["nvidia.com/gpu"] for action in simulation.actions(CreatePod)}
    assert asked == {"1", "2", "4"}


@settings(deadline=None, max_examples=draw(40))
@given(restarts=st.lists(st.floats(1, 900), max_size=4), deadline=st.sampled_from(["20s", "5m", "10m"]))
def test_a_trial_that_is_refused_alone_holds_up_no_other_whenever_the_operator_restarts(
    restarts: list[float], deadline: str
) -> None:
    weather = Weather(latency=0.5, watch_delay=1.0, fails=0.1, loses_reply=0.1, restarts=tuple(restarts))
    simulation = with_workers("workers", weather, failures={"startDeadline": deadline})
    refuse_large(simulation)
    simulation.run()
    ends = {workers: status.state for workers, status in by_workers(simulation).items()}
    assert ends == {"8": TrialState.ERROR, **dict.fromkeys(("1", "2", "4"), TrialState.TERMINATED)}


@settings(deadline=None, max_examples=draw(40))
@given(seed=st.integers(0, 10_000), mend=st.integers(0, 1500), restarts=st.lists(st.floats(1, 400), max_size=4))
def test_whatever_happens_meanwhile_all_trials_come_to_their_ends(seed: int, mend: int, restarts: list[float]) -> None:
    weather = Weather(latency=0.5, watch_delay=1.0, fails=0.1, loses_reply=0.1, repeats=0.1, restarts=tuple(restarts))
    fields = {"maxConcurrentTrials": 3, "failures": LONG}
    simulation = Simulation(spec(**fields), Program(steps=3), weather, seed=seed)
    simulation.refuse = lambda action: REFUSED if is_pod(action) and simulation.now < START + mend else None
    simulation.run()
    status = status_of(simulation)
    assert (status.state, status.trials.terminated) == (ExperimentState.COMPLETE, 4)
    assert all(not trial.status.infrastructure_failures for trial in simulation.api.trials.values())
    limit = 3 * (2 + len(restarts)) + 12
    assert sum(isinstance(action, CreatePod) for action in simulation.log) <= 4 * limit
    assert sum(isinstance(action, EmitEvent) for action in simulation.log) <= 2 + 2 * len(restarts)
