"""Checkpoints that are recorded, and decisions that wait until all that they rest on is durable."""

from __future__ import annotations

import math

import pytest

from podtune.api.names import DesiredState, TrialReason, TrialState
from podtune.api.resources.checkpoints import Keep
from podtune.api.resources.trial import Checkpoint
from podtune.api.tuning.objective import Objective
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.messages import CheckpointCommit, FinalCommit, Reply, Report, Result, StoreProblem
from podtune.runner.actions import ActionResult, ActionStatus, DeletePod, WriteTrialStatus
from podtune.runner.checkpoints import retention
from podtune.runner.experiment_machine import Unaccepted
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import START, STORE, Simulation, spec

ONE = {"search": {"algorithm": "random", "maxTrials": 1, "seed": 7}, "checkpoints": {"store": STORE}}
TWO = {**ONE, "search": {"algorithm": "random", "maxTrials": 2, "seed": 7}}
ASHA = {"asha": {"maxTime": 9, "gracePeriod": 1, "reductionFactor": 3}}
UP, DOWN = Objective(metric="accuracy", mode="max"), Objective(metric="accuracy", mode="min")


def stored(*values: float | None) -> list[Checkpoint]:
    return [
        Checkpoint(step=step, uri=f"s3://b/{step}", digest="sha256:0", metric="" if value is None else repr(value))
        for step, value in enumerate(values)
    ]


def steps(kept: list[Checkpoint]) -> list[int]:
    return [checkpoint.step for checkpoint in kept]


@pytest.mark.parametrize(
    ("keep", "objective", "values", "expected"),
    [
        (Keep(count=2), UP, (0.9, 0.1, 0.2, 0.3), [2, 3]),
        (Keep(count=2, by="best"), UP, (0.9, 0.1, 0.2, 0.3), [0, 3]),
        (Keep(count=1, by="best"), UP, (0.9, 0.1, 0.2, 0.3), [0, 3]),
        (Keep(count=2, by="best"), DOWN, (0.9, 0.1, 0.2, 0.3), [1, 2, 3]),
        (Keep(count=2, by="best"), UP, (0.5, 0.5, 0.5), [1, 2]),
        (Keep(count=1, by="best"), UP, (None, math.nan, 0.1, None), [2, 3]),
        (Keep(count=1, by="best"), UP, (math.inf, 0.1, None), [1, 2]),
        (Keep(count=1, by="best"), DOWN, (-math.inf, 0.1, None), [1, 2]),
    ],
)
def test_which_checkpoints_are_kept(
    keep: Keep, objective: Objective, values: tuple[float, ...], expected: list[int]
) -> None:
    assert steps(retention.keep_some(stored(*values), keep, objective)) == expected


def test_the_best_checkpoint_is_the_newest_among_equals() -> None:
    assert retention.find_best_checkpoint(stored(0.1, 0.9, 0.9, 0.2), UP) == stored(0.1, 0.9, 0.9)[2]
    assert retention.find_best_checkpoint([], UP) is None


def test_checkpoints_are_recorded_with_the_value_they_were_taken_at() -> None:
    simulation = Simulation(spec(**ONE), Program(steps=4, checkpoint_every=2)).run()
    status = simulation.status()
    assert steps(status.checkpoints) == [2, 4]
    assert status.checkpoint == status.checkpoints[-1]
    assert [c.metric for c in status.checkpoints] == [repr(simulation.program.metric(0, step)) for step in (2, 4)]
    assert simulation.api.experiment.status.best.checkpoint in simulation.bucket


def posted(simulation: Simulation, uri: str, *, results: bool = True) -> Reply:
    """An agent's report of its first result and the checkpoint that was taken with it."""
    assert simulation.machine is not None
    result = Result(1, 0.0, {"training_iteration": 1, "accuracy": 0.5}, 1, checkpoint=True)
    commit = CheckpointCommit(CheckpointRef(uri, "sha256:1", 1), 1, 0.5)
    report = Report(simulation.pods["e-0-1"].uid, results=(result,) * results, checkpoints=(commit,))
    reply = simulation.machine.report("e-0", "e-0-1", report, simulation.now)
    assert isinstance(reply, Reply)
    simulation.wake()
    simulation.run(5.0)
    return reply


def test_a_checkpoint_of_another_attempt_is_not_recorded_and_not_asked_for_again() -> None:
    simulation = Simulation(spec(**ONE), Program(steps=10**6, silent=True)).run(5.0)
    uri = "s3://bucket/demo/e-uid/e-0/another-attempt/1"
    assert posted(simulation, uri).acked_checkpoints == (uri,)
    assert simulation.status().checkpoints == []


@pytest.mark.parametrize(
    "place",
    [
        "s3://bucket/demo/e-uid/e-1/{uid}/1",
        "s3://other/1",
        "s3://bucket/demo/e-uid/e-0/{uid}/../../e-1/1",
        "s3://bucket/demo/e-uid/e-0/./{uid}/1",
        "s3://bucket/demo/e-uid/e-0//{uid}/1",
        "s3://bucket/demo/e-uid/e-0/{uid}/..",
        "s3://bucket/demo/e-uid/e-0/",
    ],
)
@pytest.mark.parametrize("is_last_word", [False, True], ids=["while it runs", "at its end"])
def test_a_report_whose_checkpoint_lies_elsewhere_is_not_taken_in(place: str, *, is_last_word: bool) -> None:
    simulation = Simulation(spec(**ONE), Program(steps=10**6, silent=True)).run(5.0)
    uid = simulation.pods["e-0-1"].uid
    commits = (CheckpointCommit(CheckpointRef(place.format(uid=uid), "sha256:1", 1), 1),)
    results = (Result(1, 0.0, {"training_iteration": 1, "accuracy": 0.5}, 1),)
    final = FinalCommit(uid, 1, 1, checkpoints=commits) if is_last_word else None
    report = Report(uid, results=results, checkpoints=() if is_last_word else commits, final=final)
    assert simulation.machine.report("e-0", "e-0-1", report, simulation.now) is Unaccepted.MISPLACED
    simulation.wake()
    simulation.run(5.0)
    assert simulation.status().checkpoints == []
    assert simulation.status().last_result == {}


def test_without_a_store_no_report_of_a_checkpoint_is_taken_in() -> None:
    simulation = Simulation(spec(**{**ONE, "checkpoints": {}}), Program(steps=10**6, silent=True)).run(5.0)
    assert simulation.machine is not None
    uid = simulation.pods["e-0-1"].uid
    report = Report(uid, checkpoints=(CheckpointCommit(CheckpointRef("s3://podtune/team-b/../x", "sha256:1", 1), 1),))
    assert simulation.machine.report("e-0", "e-0-1", report, simulation.now) is Unaccepted.MISPLACED


def test_a_commit_is_acknowledged_once_it_is_recorded() -> None:
    simulation = Simulation(spec(**ONE), Program(steps=10**6, silent=True)).run(5.0)
    uri = f"s3://bucket/demo/e-uid/e-0/{simulation.pods['e-0-1'].uid}/1"
    assert posted(simulation, uri).acked_checkpoints == ()
    reply = posted(simulation, uri)
    assert (reply.acked_checkpoints, reply.kept) == ((uri,), (uri,))
    assert simulation.status().checkpoint == Checkpoint(step=1, uri=uri, digest="sha256:1", metric="0.5")


def test_a_checkpoint_is_recorded_only_after_the_results_up_to_it() -> None:
    """Or a retry would start after results that nobody has."""
    simulation = Simulation(spec(**ONE), Program(steps=10**6, silent=True)).run(5.0)
    uri = f"s3://bucket/demo/e-uid/e-0/{simulation.pods['e-0-1'].uid}/1"
    assert posted(simulation, uri, results=False).acked_checkpoints == ()
    assert simulation.status().checkpoints == []
    posted(simulation, uri)
    assert steps(simulation.status().checkpoints) == [1]


def test_an_older_checkpoint_may_go_only_after_the_newer_one_is_recorded() -> None:
    """The simulation holds every deletion in the bucket to that."""
    simulation = Simulation(spec(**ONE), Program(steps=6, checkpoint_every=1)).run()
    assert steps(simulation.status().checkpoints) == [5, 6]
    assert {uri.rpartition("/")[2] for uri in simulation.bucket} >= {"5", "6"}
    assert not {uri.rpartition("/")[2] for uri in simulation.bucket} & {"1", "2", "3"}


# Decisions


def test_a_decision_waits_for_the_checkpoint_of_its_result() -> None:
    program = Program(steps=20, checkpoint_every=1, upload=1.5)
    simulation = Simulation(spec(**ONE, stop={"metrics": {"training_iteration": 3}}), program).run()
    status = simulation.status()
    assert (status.state, status.reason) == (TrialState.TERMINATED, TrialReason.STOPPED_BY_CRITERION)
    assert status.iteration == 3
    assert steps(status.checkpoints) == [2, 3], "checkpoints of the time until the pod is gone don't push it out"


def test_a_decision_does_not_wait_for_ever() -> None:
    program = Program(steps=10**6, checkpoint_every=1, upload=math.inf)
    simulation = Simulation(spec(**ONE, stop={"metrics": {"training_iteration": 3}}), program)
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().decision is not None)
    decided = simulation.now
    simulation.run(until=lambda: bool(simulation.actions(DeletePod)))
    assert simulation.now - decided == pytest.approx(1800.0, abs=1.5), "checkpoints.sync.timeout"


def waiting_for_an_upload(seconds: float, **checkpoints: object) -> Simulation:
    """A trial that was stopped at its third iteration; the checkpoint of the second takes so long."""
    fields = {**ONE, "checkpoints": {"store": STORE, **checkpoints}}
    program = Program(steps=1000, checkpoint_every=2, upload=seconds)
    simulation = Simulation(spec(**fields, stop={"metrics": {"training_iteration": 3}}), program)
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().decision is not None)
    return simulation


def test_the_newest_checkpoint_that_was_reported_before_a_decision_is_stored_first() -> None:
    simulation = waiting_for_an_upload(200.0)
    simulation.run(until=lambda: bool(simulation.actions(DeletePod)))
    assert simulation.now - START == pytest.approx(202.0, abs=2.0), "what is reported afterwards is not waited for"
    assert steps(simulation.run().status().checkpoints)[0] == 2


def test_a_restarted_operator_waits_no_longer_and_no_shorter() -> None:
    simulation = waiting_for_an_upload(math.inf, sync={"timeout": "5m"})
    decided = simulation.now
    for _ in range(3):
        simulation.run(90.0)
        simulation.restart()
    assert simulation.actions(DeletePod) == []
    simulation.run(until=lambda: bool(simulation.actions(DeletePod)))
    assert simulation.now - decided == pytest.approx(300.0, abs=1.5)


def test_an_agent_that_is_not_heard_after_a_restart_is_waited_for_a_minute() -> None:
    simulation = waiting_for_an_upload(math.inf)
    simulation.unreachable = True
    simulation.restart()
    restarted = simulation.now
    simulation.run(until=lambda: bool(simulation.actions(DeletePod)))
    assert simulation.now - restarted == pytest.approx(60.0, abs=3.0)


def test_a_pause_waits_for_the_checkpoint_that_its_program_reports() -> None:
    """The program answers at once; its upload takes longer than the answer may."""
    simulation = Simulation(spec(**ONE), Program(steps=1000, upload=200.0)).run(5.5)
    simulation.api.edit_trial("e-0", desired_state="Paused")
    simulation.run(until=lambda: simulation.status().state is TrialState.PAUSED)
    assert simulation.now - START == pytest.approx(208.0, abs=4.0)
    assert steps(simulation.status().checkpoints) == [6]


@pytest.mark.parametrize("every", [0, 1])
def test_a_stop_whose_checkpoint_is_stored_gives_its_pod_the_templates_grace_period_alone(every: int) -> None:
    """In the second case one that was reported after the decision is on its way."""
    program = Program(steps=1000, checkpoint_every=every, upload=4.5)
    simulation = Simulation(spec(**ONE, stop={"metrics": {"training_iteration": 3}}), program)
    simulation.run(until=lambda: bool(simulation.actions(DeletePod)))
    assert [action.grace for action in simulation.actions(DeletePod)] == [30]


def test_a_stop_whose_checkpoint_is_not_stored_in_time_leaves_its_agent_the_pods_whole_grace_period() -> None:
    simulation = waiting_for_an_upload(math.inf, sync={"timeout": "60s"})
    simulation.run(until=lambda: bool(simulation.actions(DeletePod)))
    assert [action.grace for action in simulation.actions(DeletePod)] == [None]


@pytest.mark.parametrize(("upload", "kept"), [(20.0, True), (40.0, False)])
def test_what_is_reported_after_the_answer_to_a_pause_is_kept_if_it_is_stored_in_time(
    upload: float, *, kept: bool
) -> None:
    """The program's grace period is that time, and what is not stored by then is no loss."""
    simulation = Simulation(spec(**ONE), Program(steps=1000, checkpoint_every=1, upload=upload)).run(5.5)
    simulation.api.edit_trial("e-0", desired_state="Paused")
    simulation.run(until=lambda: bool(simulation.actions(DeletePod)))
    deleted, counts = simulation.now, simulation.status().checkpoints[-1].step
    assert [action.grace for action in simulation.actions(DeletePod)] == [30]
    simulation.run(until=lambda: simulation.status().state is TrialState.PAUSED)
    status = simulation.status()
    assert simulation.now - deleted < 35.0
    assert (steps(status.checkpoints)[-1] > counts) is kept
    assert status.lost_checkpoint is None


def test_a_pod_whose_program_has_not_begun_is_given_the_templates_grace_period_alone() -> None:
    """A kubelet that asks its agent to end before that listens would wait for the rest, too."""
    program = Program(steps=4, faults={0: (ScheduledFault(Fault.STUCK),)})
    simulation = Simulation(spec(**ONE), program).run(5.0)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.PAUSED)
    simulation.run(5.0)
    assert [action.grace for action in simulation.actions(DeletePod)] == [30]


@pytest.mark.parametrize(("written", "grace"), [(None, 30), (0, 1), (7, 7)])
def test_the_templates_grace_period_may_be_null_or_0(written: int | None, grace: int) -> None:
    container = {"name": "trial", "image": "example"}
    template = {"spec": {"containers": [container], "terminationGracePeriodSeconds": written}}
    fields = {"stop": {"metrics": {"training_iteration": 3}}, "trialTemplate": template}
    simulation = Simulation(spec(**ONE, **fields), Program(steps=1000))
    simulation.run(until=lambda: bool(simulation.actions(DeletePod)))
    assert [action.grace for action in simulation.actions(DeletePod)] == [grace]


def test_a_pause_waits_for_one_answer_alone() -> None:
    """A program that goes on to report a checkpoint with each result would else never be paused."""
    simulation = Simulation(spec(**ONE), Program(steps=1000, checkpoint_every=1, upload=20.0)).run(5.5)
    simulation.api.edit_trial("e-0", desired_state="Paused")
    simulation.run(until=lambda: bool(simulation.actions(DeletePod)))
    assert simulation.now - START < 45.0, "one of those that waited for the first upload"


def test_a_decision_without_a_checkpoint_waits_for_nothing() -> None:
    program = Program(steps=20, checkpoint_every=2)
    simulation = Simulation(spec(**ONE, stop={"metrics": {"training_iteration": 3}}), program)
    simulation.run(until=lambda: bool(simulation.actions(DeletePod)))
    assert simulation.now - START < 5.0


def test_nobody_waits_for_a_store_that_does_not_work() -> None:
    problem = StoreProblem("Unreachable", "the store can't be reached", permanent=False)
    program = Program(steps=1000, store_problem={0: problem})
    simulation = Simulation(spec(**ONE), program).run(3.0)
    simulation.api.edit_trial("e-0", desired_state="Paused")
    simulation.run(3.0)
    assert simulation.status().state is TrialState.PAUSED


def test_a_decision_is_durable_before_the_pod_is_deleted() -> None:
    """The simulation holds every deletion of a pod to that; here the write fails for a while."""
    simulation = Simulation(spec(**ONE, stop={"metrics": {"training_iteration": 2}}), Program(steps=1000))
    blocked_until = START + 60.0

    def refuse(action: object) -> ActionResult | None:
        decided = isinstance(action, WriteTrialStatus) and action.status.decision is not None
        return ActionResult(ActionStatus.FAILED, "busy") if decided and simulation.now < blocked_until else None

    simulation.refuse = refuse
    simulation.run(60.0)
    assert simulation.actions(DeletePod) == []
    simulation.run()
    assert [action.name for action in simulation.actions(DeletePod) if action.trial] == ["e-0-1"]
    assert simulation.status().iteration == 2


def test_a_record_that_another_trials_decision_rests_on_is_durable_first() -> None:
    """e-1 falls below e-0's value at the first rung, which can't be written down for a while."""
    values = {0: 0.9, 1: 0.1}
    program = Program(steps=9, metric=lambda trial, step: values[trial])
    simulation = Simulation(spec(**TWO, scheduler=ASHA), program)
    blocked = True
    simulation.fail(WriteTrialStatus, when=lambda action: blocked and action.name == "e-0" and action.status.scheduler)
    simulation.run(4.0)
    stopped = simulation.status(1).decision
    assert stopped.reason == TrialReason.STOPPED_BY_SCHEDULER
    assert simulation.actions(DeletePod) == []
    reply = simulation.machine.report("e-1", "e-1-1", Report(simulation.pods["e-1-1"].uid), simulation.now)
    assert isinstance(reply, Reply)
    assert reply.decision == "CONTINUE", "the agent would act on it"
    blocked = False
    simulation.run(until=lambda: bool(simulation.actions(DeletePod)))
    assert simulation.status(0).scheduler["rungs"]["1"] == "0.9"


def test_a_record_that_changes_again_before_it_is_durable_is_still_waited_for() -> None:
    """The write with e-0's first rung alone fails; e-1's decision rests on that, not on what came after."""
    values = {0: 0.9, 1: 0.1}
    program = Program(steps=9, metric=lambda trial, step: values[trial])
    simulation = Simulation(spec(**TWO, scheduler=ASHA), program)
    simulation.fail(WriteTrialStatus, when=lambda action: action.name == "e-0" and action.status.scheduler)
    simulation.run(8.0)
    assert simulation.status(0).scheduler == {}
    assert simulation.actions(DeletePod) == []


def test_a_stopped_trials_decision_is_told_to_its_agent_once_it_is_durable() -> None:
    simulation = Simulation(spec(**ONE, stop={"metrics": {"accuracy": 0.5}}), Program(steps=10**6, silent=True))
    simulation.run(5.0)
    assert simulation.machine is not None
    uid = simulation.pods["e-0-1"].uid
    result = Result(1, 0.0, {"training_iteration": 1, "accuracy": 0.9}, 1)
    first = simulation.machine.report("e-0", "e-0-1", Report(uid, results=(result,)), simulation.now)
    assert isinstance(first, Reply)
    assert first.decision == "CONTINUE"
    simulation.wake()
    simulation.run(0.1)
    second = simulation.machine.report("e-0", "e-0-1", Report(uid), simulation.now)
    assert isinstance(second, Reply)
    assert second.decision == "STOP"


def test_a_decision_stands_although_the_operator_dies() -> None:
    program = Program(steps=200, checkpoint_every=3, upload=30.0)
    simulation = Simulation(spec(**ONE, stop={"metrics": {"training_iteration": 3}}), program)
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().decision is not None)
    decision = simulation.status().decision
    simulation.restart()
    simulation.run()
    assert simulation.status().decision == decision
    assert (simulation.status().state, simulation.status().iteration) == (TrialState.TERMINATED, 3)
    assert 3 in steps(simulation.status().checkpoints), "the agent stores what it has when its pod is deleted"


# The store


def test_a_store_that_can_not_be_used_fails_the_trial_after_the_start_deadline() -> None:
    problem = StoreProblem("BucketNotFound", "bucket 'bucket' does not exist; make it", permanent=True)
    simulation = Simulation(
        spec(**ONE, failures={"startDeadline": "1m"}), Program(steps=1000, store_problem={0: problem})
    ).run(50.0)
    assert simulation.status().state is TrialState.RUNNING
    assert "bucket 'bucket' does not exist; make it" in simulation.status().message
    simulation.run()
    status = simulation.status()
    assert (status.state, status.reason, status.failures) == (TrialState.ERROR, TrialReason.STORE_UNUSABLE, 1)
    assert status.message == "bucket 'bucket' does not exist; make it (for longer than failures.startDeadline, 1m)"


def test_a_store_that_breaks_down_later_is_given_as_much_time() -> None:
    """Also where the operator is restarted meanwhile: the time since is in the status."""
    problem = StoreProblem("AccessDenied", "access denied", permanent=True)
    program = Program(steps=1000)
    simulation = Simulation(spec(**ONE, failures={"startDeadline": "1m"}), program).run(200.0)
    program.store_problem[0] = problem
    simulation.run(40.0)
    simulation.restart()
    simulation.run(10.0)
    assert simulation.status().state is TrialState.RUNNING
    simulation.run(20.0)
    assert simulation.status().decision.reason == TrialReason.STORE_UNUSABLE


def test_a_store_that_can_not_be_used_is_waited_for_no_longer() -> None:
    """The agent has a checkpoint to store all the same, and would try for all of its time."""
    problem = StoreProblem("AccessDenied", "access denied", permanent=True)
    program = Program(steps=1000, checkpoint_every=2, upload=math.inf)
    simulation = Simulation(spec(**ONE, failures={"startDeadline": "1m"}), program).run(10.0)
    program.store_problem[0] = problem
    simulation.run(until=lambda: bool(simulation.actions(DeletePod)))
    assert simulation.now - START == pytest.approx(70.0, abs=5.0)
    assert [action.grace for action in simulation.actions(DeletePod)] == [30]


def test_without_a_store_a_retry_starts_afresh() -> None:
    fields = {**ONE, "checkpoints": {}}
    simulation = Simulation(spec(**fields), Program(checkpoint_every=1, faults={0: (ScheduledFault(Fault.CRASH, 3),)}))
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().failures == 1)
    assert simulation.status().message.endswith("will be retried from scratch (no checkpoint)")
    simulation.run()
    assert simulation.created_pods()[1].restore == ()
    assert simulation.status().iteration == 4
