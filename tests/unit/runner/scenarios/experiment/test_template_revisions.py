"""A trial template that changes while its experiment runs: who takes it, and who goes on with what it has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, DesiredState, ExperimentReason, ExperimentState, TrialReason, TrialState
from podtune.api.resources.resume import Resume
from podtune.api.resources.trial_template import MAX_REVISIONS
from podtune.runner.actions import (
    Action,
    ActionResult,
    ActionStatus,
    CreatePod,
    DeletePod,
    DropRevision,
    KeepRevision,
    TryPod,
)
from podtune.runner.attempts import grace_periods
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world.made_anew import assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, Weather, spec

TWO = {"algorithm": "random", "maxTrials": 2, "seed": 7}


def mended(image: str = "mended") -> dict[str, Any]:
    """What a user writes into the template's pod."""
    return {"containers": [{"name": "trial", "image": image}]}


def start(program: Program | None = None, weather: Weather | None = None, **fields: Any) -> Simulation:
    fields = {"checkpoints": {"store": STORE}, **fields}
    return Simulation(spec(**fields), program or Program(steps=6, checkpoint_every=1), weather or Weather())


def first_of(simulation: Simulation) -> str:
    template = simulation.api.experiment.status.template
    assert template is not None
    return template.first


def list_kept(simulation: Simulation) -> list[tuple[str, int]]:
    template = simulation.api.experiment.status.template
    assert template is not None
    return [(revision.name, revision.number) for revision in template.revisions]


def revisions_of(simulation: Simulation) -> dict[str, list[str]]:
    """By trial, the revisions that pods were asked for with."""
    made: dict[str, list[str]] = {}
    for action in simulation.created_pods():
        made.setdefault(action.trial, []).append(action.revision)
    return made


def test_a_template_that_never_changes_costs_no_trial_a_word() -> None:
    simulation = start().run()
    revision = simulation.api.experiment.spec.trial_template.revision
    assert {trial.status.revision for trial in simulation.api.trials.values()} == {""}
    assert {action.revision for action in simulation.created_pods()} == {revision}
    assert (first_of(simulation), list_kept(simulation)) == (revision, [(revision, 1)])
    assert len(simulation.actions(KeepRevision)) == 1
    status = simulation.api.experiment.status
    assert find_condition(status.conditions, ConditionType.TEMPLATE_CURRENT) is None


def test_trials_that_run_go_on_and_those_that_start_take_the_present_template() -> None:
    simulation = start().run(2.5)
    first = first_of(simulation)
    second = simulation.edit_template(**mended())
    simulation.run(1.0)
    condition = find_condition(simulation.api.experiment.status.conditions, ConditionType.TEMPLATE_CURRENT)
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", ExperimentReason.TEMPLATE_CHANGED)
    assert condition.message == "2 trials run template revision 1; new attempts take the present one"
    simulation.run()
    assert revisions_of(simulation) == {"e-0": [first], "e-1": [first], "e-2": [second], "e-3": [second]}
    assert [simulation.status(index).revision for index in range(4)] == ["", "", second, second]
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE
    condition = find_condition(simulation.api.experiment.status.conditions, ConditionType.TEMPLATE_CURRENT)
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", ExperimentReason.TEMPLATE_TAKEN)


def test_the_revision_is_on_record_before_there_is_a_pod_of_it() -> None:
    simulation = start().run(2.5)
    second = simulation.edit_template(**mended())
    on_record: list[str] = []

    def look(action: Action) -> ActionResult | None:
        if isinstance(action, CreatePod) and action.revision == second:
            on_record.append(simulation.api.trials[action.trial].status.revision)
        return None

    simulation.refuse = look
    simulation.run()
    assert on_record == [second, second]


@pytest.mark.parametrize("kind", [Fault.STUCK, Fault.UNSCHEDULABLE])
def test_pods_that_can_not_start_are_made_anew_at_once(kind: Fault) -> None:
    """Nobody has to retry what runs nothing; it costs an attempt's number, and no failure."""
    faults = {index: (ScheduledFault(kind),) for index in range(2)}
    simulation = start(Program(steps=4, faults=faults), search=TWO).run(20.0)
    reason = TrialReason.PULLING_IMAGE if kind is Fault.STUCK else TrialReason.UNSCHEDULABLE
    assert (simulation.status().state, simulation.status().reason) == (TrialState.PENDING, reason)
    second = simulation.edit_template(**mended())
    simulation.run(4.0)
    for index in range(2):
        status = simulation.status(index)
        assert (status.state, status.attempt, status.revision) == (TrialState.RUNNING, 2, second)
        assert (status.failures, status.infrastructure_failures, status.disruptions) == (0, 0, 0)
        assert status.last_attempt is not None
        assert status.last_attempt.reason == TrialReason.TEMPLATE_CHANGED
        assert "has changed before its pod could start" in status.ledger[-1].message
    assert simulation.run().api.experiment.status.trials.terminated == 2


def test_a_template_that_is_as_bad_is_tried_as_well() -> None:
    bad = spec(trialTemplate={"spec": mended("worse")}).trial_template.revision
    first = spec().trial_template.revision
    simulation = start(Program(steps=4, unusable=frozenset({first, bad})), search=TWO).run(10.0)
    simulation.edit_template(**mended("worse"))
    simulation.run(10.0)
    assert (simulation.status().attempt, simulation.status().reason) == (2, TrialReason.PULLING_IMAGE)
    simulation.edit_template(**mended())
    assert simulation.run().api.experiment.status.trials.terminated == 2
    assert simulation.status().attempt == 3


def test_a_trial_that_is_retried_takes_the_present_template() -> None:
    faults = {0: (ScheduledFault(Fault.CRASH, 2),)}
    simulation = start(Program(steps=6, checkpoint_every=1, faults=faults), failures={"backoff": {"initial": "10s"}})
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().reason == TrialReason.BACKING_OFF)
    first, second = first_of(simulation), simulation.edit_template(**mended())
    simulation.run()
    assert revisions_of(simulation)["e-0"] == [first, second]
    assert simulation.status().iteration == 6


def test_a_trial_that_was_paused_goes_on_with_the_present_template() -> None:
    simulation = start().run(2.5)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.PAUSED)
    simulation.run(until=lambda: simulation.status().state is TrialState.PAUSED)
    second = simulation.edit_template(**mended())
    simulation.run(5.0)
    assert simulation.status().revision == "", "nothing is written before it goes on"
    simulation.api.edit_trial("e-0", desired_state=DesiredState.RUNNING)
    simulation.run()
    assert revisions_of(simulation)["e-0"][-1] == second
    assert simulation.status().iteration == 6


def test_a_gang_that_is_made_in_part_is_given_up_and_all_ranks_are_of_one_template() -> None:
    template = {"spec": {"containers": [{"name": "trial", "image": "example"}]}, "replicas": 2}
    simulation = start(trialTemplate=template, maxConcurrentTrials=1)
    first = simulation.api.experiment.spec.trial_template.revision

    def make_rank_0_alone(action: Action) -> ActionResult | None:
        if not isinstance(action, CreatePod) or action.revision != first:
            return None
        if action.name not in simulation.api.pods:
            simulation._create_rank(action, 0)
        return ActionResult(ActionStatus.FAILED, "exceeded quota")

    simulation.refuse = make_rank_0_alone
    simulation.run(10.0)
    assert [pod.name for pod in simulation.api.pods.values()] == ["e-0-1-0"]
    second = simulation.edit_template(**mended())
    simulation.run(until=lambda: "e-0-2-1" in simulation.api.pods)
    assert {pod.revision for pod in simulation.api.pods.values()} == {second}
    assert simulation.status().last_attempt.reason == TrialReason.TEMPLATE_CHANGED
    assert simulation.run().api.experiment.status.trials.terminated == 4


def test_a_gang_is_made_anew_if_one_of_its_pods_can_not_start_though_others_wait_for_it() -> None:
    template = {"spec": {"containers": [{"name": "trial", "image": "example"}]}, "replicas": 2}
    program = Program(steps=4, faults={0: (ScheduledFault(Fault.STUCK, rank=1),)}, seconds=60.0)
    simulation = start(program, search={**TWO, "maxTrials": 1}, trialTemplate=template).run(20.0)
    assert simulation.api.pods["e-0-1-0"].training
    simulation.edit_template(**mended())
    simulation.run(10.0)
    status = simulation.status()
    assert (status.attempt, status.failures, status.infrastructure_failures) == (2, 0, 0)
    assert simulation.run().api.experiment.status.trials.terminated == 1


def test_ranks_that_wait_for_one_that_can_not_start_get_no_time_to_store_a_checkpoint() -> None:
    """One that was not heard yet may train already, and ignore SIGTERM as it does until its handler is there."""
    template = {"spec": {"containers": [{"name": "trial", "image": "example"}]}, "replicas": 2}
    program = Program(steps=4, faults={0: (ScheduledFault(Fault.STUCK, rank=1),)}, seconds=60.0, silent=True)
    simulation = start(program, search={**TWO, "maxTrials": 1}, trialTemplate=template).run(20.0)
    assert simulation.api.pods["e-0-1-0"].training
    simulation.edit_template(**mended())
    simulation.run(10.0)
    assert {action.grace for action in simulation.actions(DeletePod)} == {grace_periods.DEFAULT}


def test_a_pod_that_a_late_request_has_made_of_an_earlier_template_counts_for_nothing() -> None:
    simulation = start(maxConcurrentTrials=1)
    simulation.fail(CreatePod)
    simulation.run(1.0)
    first = first_of(simulation)
    request = simulation.created_pods()[0]
    second = simulation.edit_template(**mended())
    simulation.run(until=lambda: simulation.status().revision == second)
    simulation.refuse = lambda action: None
    simulation._create_rank(request, 0)
    simulation.run(until=lambda: "e-0-2" in simulation.api.pods)
    status = simulation.status()
    assert (request.revision, status.iteration, status.failures) == (first, 0, 0)
    assert status.ledger[-1].message == "trialTemplate has changed while its pod was made; it gets another one"
    assert simulation.api.pods["e-0-2"].revision == second
    assert simulation.run().api.experiment.status.trials.terminated == 4


def test_a_template_that_changes_while_a_pod_is_asked_for_is_no_failure() -> None:
    simulation = start(weather=Weather(latency=0.4))
    simulation.run(until=lambda: bool(simulation.created_pods()))
    simulation.edit_template(**mended())
    simulation.run()
    status = simulation.api.experiment.status
    assert (status.state, status.trials.terminated) == (ExperimentState.COMPLETE, 4)
    assert all(simulation.status(index).failures == 0 for index in range(4))


def test_pods_that_serve_several_trials_get_none_after_a_change() -> None:
    template = {"spec": {"containers": [{"name": "trial", "image": "example"}]}, "reuse": True}
    simulation = start(trialTemplate=template).run(2.5)
    first, second = first_of(simulation), simulation.edit_template(**mended())
    simulation.run()
    served = {pod.name: pod.served for pod in simulation.pods.values()}
    assert revisions_of(simulation) == {"e-0": [first], "e-1": [first], "e-2": [second], "e-3": [second]}
    assert all(len(trials) == 1 for trials in served.values()), served
    assert simulation.api.experiment.status.trials.terminated == 4


def test_a_hold_for_pods_that_are_refused_ends_with_the_template_that_is_taken() -> None:
    words = ActionResult(ActionStatus.REFUSED, "violates PodSecurity", ExperimentReason.POD_REFUSED)
    simulation = start()
    second = ""
    simulation.refuse = lambda action: (
        words
        if isinstance(action, CreatePod | TryPod) and simulation.api.experiment.spec.trial_template.revision != second
        else None
    )
    simulation.run(30.0)
    assert simulation.api.experiment.status.state is ExperimentState.STALLED
    second = simulation.edit_template(**mended())
    simulation.run(5.0)
    assert simulation.api.experiment.status.state is ExperimentState.RUNNING
    assert simulation.status().attempt == 1
    assert simulation.run().api.experiment.status.trials.terminated == 4


def test_a_template_may_return_to_what_it_was() -> None:
    simulation = start(maxConcurrentTrials=1).run(2.5)
    first = simulation.api.experiment.spec.trial_template
    second = simulation.edit_template(**mended())
    simulation.run(until=lambda: simulation.status_exists(1) and simulation.status(1).iteration > 0)
    simulation.edit_spec(trial_template=first)
    simulation.run()
    revision = first.revision
    assert revisions_of(simulation) == {"e-0": [revision], "e-1": [second], "e-2": [revision], "e-3": [revision]}
    assert list_kept(simulation)[-1] == (revision, 3)


def test_a_revision_is_dropped_when_nobody_runs_it_but_not_the_best_trials() -> None:
    best_first = Program(steps=4, metric=lambda trial, step: 1.0 / (trial + 1))
    worst_first = Program(steps=4, metric=lambda trial, step: float(trial))
    for program, stays in ((best_first, True), (worst_first, False)):
        simulation = start(program, maxConcurrentTrials=1).run(2.5)
        first, second = first_of(simulation), simulation.edit_template(**mended())
        simulation.run(1.0)
        assert list_kept(simulation) == [(first, 1), (second, 2)]
        simulation.run()
        assert list_kept(simulation) == ([(first, 1), (second, 2)] if stays else [(second, 2)])
        assert list(simulation.kept_revisions) == [name for name, _ in list_kept(simulation)]


def test_the_oldest_revision_is_dropped_where_there_is_room_for_no_more_even_if_it_runs() -> None:
    count = MAX_REVISIONS + 2
    search = {"algorithm": "random", "maxTrials": count, "seed": 7}
    simulation = start(Program(steps=1000), search=search, maxConcurrentTrials=1)
    first = simulation.run(2.0).api.experiment.spec.trial_template.revision
    made = [first]
    for number in range(2, count + 1):
        made.append(simulation.edit_template(**mended(f"image-{number}")))
        simulation.edit_spec(max_concurrent_trials=number)
        simulation.api.allowed_alive = number
        simulation.run(3.0)
    assert list_kept(simulation) == [(name, number) for number, name in enumerate(made, 1)][-MAX_REVISIONS:]
    assert list(simulation.kept_revisions) == made[-MAX_REVISIONS:], "what no status lists would never be dropped"
    assert {simulation.status(index).revision for index in range(1, count)} == {*made[1:]}, "those that run go on"


def test_trials_in_error_that_run_once_more_run_the_corrected_template() -> None:
    program = Program(steps=6, checkpoint_every=1, faults={0: (ScheduledFault(Fault.CRASH, 2),)})
    simulation = start(program, search=TWO, failures={"maxFailures": 0}).run()
    assert simulation.status().state is TrialState.ERROR
    second = simulation.edit_template(**mended())
    simulation.edit_spec(resume=Resume.model_validate({"id": "again", "errored": "Resume"}))
    simulation.run(300.0)
    assert simulation.status().state is TrialState.TERMINATED
    assert revisions_of(simulation)["e-0"] == [first_of(simulation), second]
    assert simulation.pods["e-0-2"].restored.step == 2, "and go on from the last checkpoint"


def test_what_can_not_be_kept_holds_nobody_up() -> None:
    simulation = start()
    simulation.fail(KeepRevision, "controllerrevisions.apps is forbidden")
    simulation.run(2.5)
    simulation.edit_template(**mended())
    simulation.run()
    status = simulation.api.experiment.status
    assert (status.state, list_kept(simulation)) == (ExperimentState.COMPLETE, [])
    assert simulation.actions(DropRevision) == []


@pytest.mark.parametrize("moment", [0.3, 1.0, 2.5, 2.6, 3.0, 4.5])
def test_an_operator_that_is_killed_after_a_change_goes_on_with_it(moment: float) -> None:
    faults = {0: (ScheduledFault(Fault.STUCK),)}
    weather = Weather(latency=0.2, watch_delay=0.3)
    simulation = start(Program(steps=6, checkpoint_every=1, faults=faults), weather, search=TWO).run(2.5)
    second = simulation.edit_template(**mended())
    simulation.run(moment)
    simulation.restart()
    simulation.run(3.0)
    assert_made_anew_agrees(simulation)
    assert simulation.status().revision == second


def test_a_template_that_changed_while_no_operator_was_there_is_taken_by_the_next() -> None:
    simulation = start(weather=replace(Weather(), downtime=3.0)).run(2.5)
    first = first_of(simulation)
    simulation.restart()
    second = simulation.edit_template(**mended())
    simulation.run()
    assert revisions_of(simulation) == {"e-0": [first], "e-1": [first], "e-2": [second], "e-3": [second]}
