"""Trials that are deleted by hand: what is made in their place says so, and goes on from their checkpoints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from podtune.agent.state.result_line import MAX_VALUES
from podtune.api.names import DesiredState, ExperimentReason, TrialState
from podtune.api.resources.trial import Checkpoint, FormerTrial, RestoreSource, TrialSpec, TrialStatus
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.messages import Report, Restored
from podtune.runner.actions import ActionResult, ActionStatus, CreateTrial, WriteTrialStatus
from podtune.runner.checkpoints.former_trials import FormerTrials
from podtune.runner.trial.reports import take_report
from podtune.simulation.curves.functions import compute_rising_value
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world.made_anew import assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, Weather, spec

ONE = {"search": {"algorithm": "random", "maxTrials": 1, "seed": 7}, "checkpoints": {"store": STORE}}
TWO = {**ONE, "search": {"algorithm": "random", "maxTrials": 2, "seed": 7}}
PODS = {"spec": {"containers": [{"name": "trial", "image": "example"}]}}
SAVES = Program(steps=20, checkpoint_every=4)


def running(program: Program = SAVES, weather: Weather | None = None, **fields: Any) -> Simulation:
    """One trial, whose last checkpoint is that of iteration 8, or which has come to iteration 10 without any."""
    simulation = Simulation(spec(**ONE | fields), program, weather or Weather())
    simulation.api.allowed_alive = None
    if not program.checkpoint_every:
        return simulation.run(until=lambda: simulation.status_exists() and simulation.status().iteration >= 10)
    return simulation.run(until=lambda: last_checkpoint(simulation) == 8)


LOOKS = "recreated because the Trial was deleted; no checkpoint is on record, so the agent looks in the bucket"
FOUND = "continues from the checkpoint of iteration 8, found in the bucket"
NOTHING_FOUND = "starts from scratch: the bucket has no checkpoint of its configuration"


def deleted_unseen(index: int = 0, weather: Weather | None = None, **fields: Any) -> Simulation:
    """Two trials with checkpoints of iteration 8, one of which is deleted while no operator runs."""
    simulation = Simulation(spec(**TWO | fields), SAVES, weather or Weather())
    simulation.api.allowed_alive = None
    simulation.run(until=lambda: last_checkpoint(simulation, 0) == last_checkpoint(simulation, 1) == 8)
    simulation.restart()
    assert simulation.machine is None
    simulation.delete_trial(f"e-{index}")
    return simulation


def last_checkpoint(simulation: Simulation, index: int = 0) -> int:
    """The iteration of the last one on record; 0 for none."""
    known = simulation.status(index).checkpoints if simulation.status_exists(index) else []
    return known[-1].step if known else 0


def made_anew(simulation: Simulation, index: int = 0) -> list[str]:
    return [entry.message for entry in simulation.status(index).ledger if entry.action == "RECREATE"]


def warnings(simulation: Simulation) -> list[str]:
    """What the Experiment's Events warn of."""
    events = [event for event in simulation.events if not event.trial and event.warning]
    return [event.message for event in events if event.reason == ExperimentReason.TRIAL_MADE_ANEW]


def test_a_deleted_trial_goes_on_from_its_last_checkpoint_and_says_so() -> None:
    simulation = running()
    before = simulation.api.trials["e-0"]
    simulation.delete_trial("e-0")
    simulation.run()
    after = simulation.api.trials["e-0"]
    assert after.uid != before.uid
    assert (after.spec.former.uid, after.spec.former.checkpoints) == (before.uid, before.status.checkpoints)
    assert simulation.pods["e-0-1"].restored.step == 8
    assert (after.status.state, after.status.iteration) == (TrialState.TERMINATED, 20)
    message = "recreated because the Trial was deleted; continues from the checkpoint of iteration 8"
    assert made_anew(simulation) == [message]
    assert warnings(simulation) == [f"e-0 was {message}"]


def test_what_it_goes_on_from_is_on_record_before_its_pod_is_made() -> None:
    simulation = running()
    simulation.delete_trial("e-0")
    simulation.fail(WriteTrialStatus, "no")
    pods = len(simulation.created_pods())
    simulation.run(60.0)
    assert len(simulation.created_pods()) == pods, "its first status is not written yet"
    simulation.refuse = lambda action: None
    simulation.run()
    assert simulation.created_pods()[-1].iteration == 8
    assert simulation.status().iteration == 20


@pytest.mark.parametrize("moment", [0.2 * n for n in range(16)])
def test_an_operator_that_is_killed_once_the_trial_is_there_again_goes_on_from_the_same(moment: float) -> None:
    simulation = running(weather=Weather(latency=0.5, watch_delay=0.5))
    before = simulation.api.trials["e-0"].uid
    simulation.delete_trial("e-0")
    simulation.run(until=lambda: simulation.status_exists() and simulation.api.trials["e-0"].uid != before)
    simulation.run(moment)
    simulation.restart()
    simulation.run()
    assert simulation.pods["e-0-1"].restored.step == 8
    assert simulation.status().iteration == 20
    assert len(made_anew(simulation)) == 1


def test_a_machine_made_anew_agrees() -> None:
    simulation = running()
    simulation.delete_trial("e-0")
    simulation.run(5.0)
    assert_made_anew_agrees(simulation)


def test_one_that_had_stored_its_last_checkpoint_ends_well_with_what_it_had_reported() -> None:
    """There is nothing left to do for it, and nothing to report."""
    simulation = Simulation(spec(**ONE), Program(steps=8, checkpoint_every=4, upload=0.0), Weather())
    simulation.api.allowed_alive = None
    simulation.run(until=lambda: last_checkpoint(simulation) == 8)
    before = simulation.status()
    assert before.state is TrialState.RUNNING
    simulation.delete_trial("e-0")
    simulation.run()
    status = simulation.status()
    assert simulation.pods["e-0-1"].restored.step == 8
    assert (status.state, status.reason) == (TrialState.TERMINATED, "Completed")
    assert (status.best, status.best_value) == (before.best, before.best_value)
    best = simulation.api.experiment.status.best
    assert best.trial == "e-0"


def test_without_a_checkpoint_it_starts_afresh() -> None:
    simulation = running(Program(steps=20))
    simulation.delete_trial("e-0")
    simulation.run()
    assert simulation.status().iteration == 20
    assert made_anew(simulation) == [LOOKS, NOTHING_FOUND]


def test_without_a_store_nothing_is_looked_for() -> None:
    simulation = running(Program(steps=20), checkpoints={})
    simulation.delete_trial("e-0")
    simulation.run()
    assert not any(action.find for action in simulation.created_pods())
    assert made_anew(simulation) == [
        "recreated because the Trial was deleted; starts from scratch: no checkpoint is on record"
    ]


def test_one_that_had_ended_is_run_from_the_beginning() -> None:
    simulation = Simulation(spec(**TWO, maxConcurrentTrials=1), SAVES)
    simulation.run(until=lambda: simulation.status_exists(1))
    assert simulation.status().checkpoints[-1].step == 20
    simulation.delete_trial("e-0")
    simulation.run()
    assert simulation.pods["e-0-1"].restored.step == 0
    assert simulation.status().best, "with its last checkpoint it would have had nothing to report"
    assert made_anew(simulation) == [
        "recreated because the Trial was deleted; starts from scratch: the deleted Trial had already ended"
    ]


def test_checkpoints_of_other_parameters_are_left() -> None:
    """A user has changed its parameters: what it has learnt since belongs to those."""
    simulation = running(Program(steps=40, checkpoint_every=4))
    simulation.api.edit_trial("e-0", desired_state=DesiredState.PAUSED)
    simulation.run(until=lambda: simulation.status().state is TrialState.PAUSED)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.RUNNING, overrides={"learning_rate": "0.01"})
    simulation.run(until=lambda: simulation.status().iteration >= 30)
    simulation.delete_trial("e-0")
    simulation.run()
    assert simulation.api.trials["e-0"].status.overrides == {}
    assert made_anew(simulation) == [
        "recreated because the Trial was deleted; starts from scratch: its checkpoints were taken with other parameters"
    ]


@pytest.mark.parametrize("index", [0, 1], ids=["before another one", "the last one"])
def test_one_that_is_deleted_while_no_operator_runs_goes_on_from_what_its_agent_finds(index: int) -> None:
    simulation = deleted_unseen(index).run()
    name = f"e-{index}"
    assert simulation.pods[f"{name}-1"].restored.step == 8
    assert simulation.status(index).iteration == 20
    assert made_anew(simulation, index) == [LOOKS, FOUND]
    assert made_anew(simulation, 1 - index) == []
    assert warnings(simulation) == [f"{name} was {LOOKS}", f"{name} {FOUND}"]
    assert [action.find for action in simulation.created_pods()] == [False, False, True]


def test_what_was_found_is_the_trials_own_from_the_first_report_on() -> None:
    simulation = deleted_unseen()
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().former is not None)
    status = simulation.status()
    value = repr(compute_rising_value(0, 8))
    assert (status.former.step, status.former.uri) == (8, status.checkpoints[0].uri)
    assert (status.checkpoint, status.iteration) == (status.checkpoints[0], 8)
    assert (status.checkpoints[0].metric, status.best_value) == (value, value)
    assert_made_anew_agrees(simulation)


@pytest.mark.parametrize("moment", [0.2 * n for n in range(16)])
def test_an_operator_that_is_killed_while_an_agent_looks_goes_on_from_what_it_has_found(moment: float) -> None:
    simulation = deleted_unseen(weather=Weather(latency=0.5, watch_delay=0.5))
    simulation.run(until=simulation.status_exists)
    simulation.run(moment)
    simulation.restart()
    simulation.run()
    assert simulation.pods["e-0-1"].restored.step == 8
    assert simulation.status().iteration == 20
    assert made_anew(simulation) == [LOOKS, FOUND]


def test_an_attempt_that_could_not_tell_what_it_found_has_the_next_one_look() -> None:
    faults = {0: (ScheduledFault(Fault.STORE_AWAY),)}
    simulation = Simulation(spec(**TWO), Program(steps=20, checkpoint_every=4))
    simulation.api.allowed_alive = None
    simulation.run(until=lambda: last_checkpoint(simulation, 0) == last_checkpoint(simulation, 1) == 8)
    simulation.restart()
    simulation.delete_trial("e-0")
    simulation.program = replace(simulation.program, faults=faults)
    simulation.run()
    assert [action.find for action in simulation.created_pods() if action.trial == "e-0"] == [False, True, True]
    assert simulation.pods["e-0-2"].restored.step == 8
    assert made_anew(simulation) == [LOOKS, FOUND]


def test_a_retry_goes_on_from_what_was_found_and_looks_no_more() -> None:
    simulation = Simulation(spec(**TWO), Program(steps=20, checkpoint_every=4))
    simulation.api.allowed_alive = None
    simulation.run(until=lambda: last_checkpoint(simulation, 0) == last_checkpoint(simulation, 1) == 8)
    simulation.restart()
    simulation.delete_trial("e-0")
    simulation.program = replace(simulation.program, faults={0: (ScheduledFault(Fault.EVICTED, 10),)})
    simulation.run()
    assert simulation.pods["e-0-2"].restored.step == 8
    assert [action.find for action in simulation.created_pods() if action.trial == "e-0"] == [False, True, False]


def test_checkpoints_of_another_configuration_are_not_found() -> None:
    """Its user had changed it: what is made anew has the configuration that was proposed."""
    simulation = Simulation(spec(**ONE), Program(steps=40, checkpoint_every=4))
    simulation.api.allowed_alive = None
    simulation.run(until=lambda: last_checkpoint(simulation) == 8)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.PAUSED)
    simulation.run(until=lambda: simulation.status().state is TrialState.PAUSED)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.RUNNING, overrides={"learning_rate": "0.01"})
    simulation.run(until=lambda: simulation.status().iteration >= 30)
    simulation.restart()
    simulation.delete_trial("e-0")
    simulation.run()
    assert simulation.pods["e-0-1"].restored.step == 0
    assert made_anew(simulation) == [LOOKS, NOTHING_FOUND]


def test_one_that_has_nothing_left_to_do_ends_well_with_the_value_of_its_checkpoint() -> None:
    simulation = Simulation(spec(**ONE), Program(steps=8, checkpoint_every=4, upload=0.0), Weather(latency=0.1))
    simulation.api.allowed_alive = None
    simulation.run(until=lambda: last_checkpoint(simulation) == 8)
    simulation.restart()
    simulation.delete_trial("e-0")
    simulation.run()
    status = simulation.status()
    assert simulation.pods["e-0-1"].restored.step == 8
    assert (status.state, status.reason, status.best_value) == (
        TrialState.TERMINATED,
        "Completed",
        repr(compute_rising_value(0, 8)),
    )


def test_one_that_is_deleted_again_before_its_agent_has_told_is_looked_for_again() -> None:
    simulation = deleted_unseen()
    simulation.run(until=lambda: simulation.status_exists() and bool(simulation.status().ledger))
    assert simulation.status().former is None
    simulation.delete_trial("e-0")
    simulation.run()
    assert simulation.pods["e-0-1"].restored.step == 8
    assert made_anew(simulation) == [LOOKS, FOUND]


def test_the_pods_of_a_gang_do_not_look() -> None:
    simulation = deleted_unseen(trialTemplate={**PODS, "replicas": 2}).run()
    assert not any(action.find for action in simulation.created_pods())
    assert made_anew(simulation) == [
        "recreated because the Trial was deleted; starts from scratch: no checkpoint is on record"
    ]


@pytest.mark.parametrize("uri", ["s3://bucket/demo/other-uid/e-0/a/4", "s3://bucket/demo/e-uid/e-1/a/4"])
def test_what_lies_elsewhere_was_not_found(uri: str) -> None:
    simulation = deleted_unseen()
    simulation.run(until=lambda: simulation.status_exists() and bool(simulation.status().ledger))
    trial = simulation.machine._trials["e-0"]
    take_report(
        trial,
        Report("a", restored=Restored(CheckpointRef(uri, "sha256:00", 4), 0.5)),
        simulation.machine._planner._processor,
        0.0,
    )
    assert (trial.status.checkpoints, trial.status.former) == ([], RestoreSource())


def test_a_number_that_was_never_made_a_trial_is_none_that_was_deleted() -> None:
    """An operator that is killed while it makes several may leave out the first of them."""
    simulation = Simulation(spec(**TWO), SAVES)
    fails = ActionResult(ActionStatus.FAILED, "busy")
    simulation.refuse = lambda action: fails if isinstance(action, CreateTrial) and action.name == "e-0" else None
    simulation.run(5.0)
    assert list(simulation.api.trials) == ["e-1"]
    simulation.refuse = lambda action: None
    simulation.restart()
    simulation.run()
    assert made_anew(simulation, 0) == made_anew(simulation, 1) == []
    assert [simulation.status(index).iteration for index in (0, 1)] == [20, 20]


def test_one_that_is_deleted_twice_still_goes_on_from_its_checkpoint() -> None:
    simulation = running()
    first = simulation.api.trials["e-0"].uid
    simulation.delete_trial("e-0")
    simulation.fail(WriteTrialStatus, "no")
    simulation.run(until=lambda: simulation.status_exists() and simulation.api.trials["e-0"].uid != first)
    simulation.run(1.0)
    simulation.delete_trial("e-0")
    simulation.refuse = lambda action: None
    simulation.run()
    assert simulation.pods["e-0-1"].restored.step == 8
    assert simulation.status().iteration == 20
    assert len(made_anew(simulation)) == 1


def test_a_trial_that_was_not_deleted_says_nothing() -> None:
    simulation = Simulation(spec(**TWO), SAVES).run()
    assert made_anew(simulation) == []
    assert warnings(simulation) == []
    assert all(action.spec.former is None for action in simulation.actions(CreateTrial))


def test_another_configuration_goes_on_from_nothing() -> None:
    """A searcher that has learnt more meanwhile may propose something else under the same number."""
    simulation = running()
    assert simulation.machine is not None
    known = TrialSpec(experiment="e", index=0, parameters={"lr": "0.1"}, seed=3)
    former = FormerTrials()
    former.record_deletion(simulation.machine._trials["e-0"])
    made = former.add_former("e-0", known).former
    assert (made.checkpoints, made.lack) == ([], "the search proposes another configuration for it")
    same = simulation.api.trials["e-0"].spec
    again = former.add_former("e-0", same).former
    assert (again.checkpoints, again.lack) == (simulation.status().checkpoints, "")
    assert former.add_former("e-1", known).former is None


@pytest.mark.parametrize(
    "uri",
    [
        "s3://bucket/demo/other-uid/e-0/a/4",
        "s3://bucket/demo/e-uid/e-1/a/4",
        "s3://bucket/demo/e-uid/e-0/../e-1/a/4",
        "s3://other/demo/e-uid/e-0/a/4",
    ],
)
def test_only_checkpoints_of_its_own_place_are_taken_over(uri: str) -> None:
    """Whoever may make Trials may write anything there."""
    simulation = Simulation(spec(**ONE), SAVES)
    foreign = FormerTrial(checkpoints=[Checkpoint(step=4, uri=uri, digest="sha256:00")])
    simulation.api.create_trial(
        "e-0", TrialSpec(experiment="e", index=0, parameters={"learning_rate": "0.01"}, former=foreign)
    )
    simulation.run()
    assert [action.restore for action in simulation.created_pods()] == [()]
    assert made_anew(simulation) == [
        "recreated because the Trial was deleted; starts from scratch: "
        "its checkpoints lie outside its folder in checkpoints.store"
    ]


def test_a_user_who_has_paused_it_meanwhile_is_heeded_and_it_goes_on_afterwards() -> None:
    simulation = running()
    before = simulation.api.trials["e-0"].uid
    simulation.delete_trial("e-0")
    simulation.run(until=lambda: simulation.status_exists() and simulation.api.trials["e-0"].uid != before)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.PAUSED)
    simulation.run(30.0)
    assert simulation.status().state is TrialState.PAUSED
    simulation.api.edit_trial("e-0", desired_state=DesiredState.RUNNING)
    simulation.run()
    assert made_anew(simulation) == [
        "recreated because the Trial was deleted; continues from the checkpoint of iteration 8"
    ]
    assert simulation.status().iteration == 20


# Those that clone it, or start from it


def from_first(program: Program) -> Simulation:
    """The second trial starts from the first one's checkpoint of iteration 8."""
    initial = [
        {"parameters": {"learning_rate": 0.01}},
        {"parameters": {"learning_rate": 0.02}, "restoreFrom": {"trial": "e-0", "step": 8}},
    ]
    search = {"algorithm": "random", "maxTrials": 2, "seed": 7, "initial": initial}
    simulation = Simulation(spec(search=search, checkpoints={"store": STORE, "keep": {"count": 3}}), program)
    simulation.api.allowed_alive = None
    return simulation


def origin_of(status: TrialStatus) -> int | None:
    return status.restore_source.step if status.restore_source is not None else None


def test_what_waits_for_its_checkpoint_gets_that_of_the_former_one() -> None:
    simulation = from_first(SAVES)
    simulation.run(until=lambda: last_checkpoint(simulation) == 4)
    simulation.delete_trial("e-0")
    simulation.run()
    assert made_anew(simulation) == [
        "recreated because the Trial was deleted; continues from the checkpoint of iteration 4"
    ]
    assert origin_of(simulation.status(1)) == 8
    assert [simulation.status(index).iteration for index in (0, 1)] == [20, 20]


def test_what_has_begun_with_its_checkpoint_can_begin_with_it_once_more() -> None:
    faults = {1: (ScheduledFault(Fault.EVICTED, 9), None)}
    simulation = from_first(Program(steps=20, checkpoint_every=4, faults=faults))
    simulation.run(until=lambda: "e-1-1" in simulation.pods)
    simulation.delete_trial("e-0")
    simulation.run()
    assert [simulation.pods[name].restored.step for name in ("e-1-1", "e-1-2")] == [8, 8]
    assert [simulation.status(index).iteration for index in (0, 1)] == [20, 20]


def test_one_that_started_from_anothers_checkpoint_goes_on_from_its_own() -> None:
    simulation = from_first(SAVES)
    simulation.run(until=lambda: last_checkpoint(simulation, 1) == 12)
    before = simulation.api.trials["e-1"]
    simulation.delete_trial("e-1")
    simulation.run()
    after = simulation.status(1)
    assert made_anew(simulation, 1) == [
        "recreated because the Trial was deleted; continues from the checkpoint of iteration 12"
    ]
    assert (after.restore_source, after.clone, after.iteration) == (before.status.restore_source, None, 20)


def test_a_trial_with_as_many_metrics_as_one_may_have_is_made_anew_too() -> None:
    many = {f"metric{n}": float(n) for n in range(MAX_VALUES - 1)}  # and accuracy
    simulation = running(Program(steps=20, checkpoint_every=4, further=lambda trial, step: many))
    before = len(simulation.status().last_result)
    simulation.delete_trial("e-0")
    simulation.run()
    assert len(simulation.api.trials["e-0"].spec.former.last_result) == before
    assert simulation.status().state is TrialState.TERMINATED
