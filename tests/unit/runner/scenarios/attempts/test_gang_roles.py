"""Gangs with roles: what a failure, a changed template and limits of one trial mean for each role."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.api.names import ExperimentState, TrialReason, TrialState
from podtune.api.resources.trial_template import TrialTemplate
from podtune.runner.actions import Action, ActionResult, ActionStatus, CreatePod, DeletePod
from podtune.runner.records import Waiting
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.scenarios.attempts.test_gangs import BACKOFF, STEPS, bounded, faults, weathers
from tests.unit.runner.world.made_anew import assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import FAIR, STORE, Simulation, Weather, spec
from tests.unit.runner.world.weather import Faults, seeds

HELP = {"raiseMemoryBy": 1.5, "upTo": "8Gi"}


def make_role(name: str, memory: str, replicas: int = 1, image: str = "example") -> dict[str, Any]:
    container = {"name": "trial", "image": image, "resources": {"limits": {"memory": memory}}}
    return {"name": name, "replicas": replicas, "template": {"spec": {"containers": [container]}}}


ROLES = [make_role("driver", "1Gi"), make_role("worker", "2Gi", replicas=2)]


def start(
    *planned: ScheduledFault, weather: Weather = FAIR, steps: int = STEPS, seed: int = 1, **fields: Any
) -> Simulation:
    """A driver and two workers, whose attempts these faults end."""
    whole: dict[str, Any] = {
        "trialTemplate": {"roles": ROLES, "placementTimeout": "60s"},
        "search": {"algorithm": "random", "maxTrials": 1, "seed": 7},
        "checkpoints": {"store": STORE},
        "failures": {"outOfMemory": HELP, "backoff": BACKOFF, "maxFailures": 6, "maxDisruptions": 8},
        **fields,
    }
    program = Program(steps=steps, checkpoint_every=1, faults={0: planned})
    return Simulation(spec(**whole), program, weather, seed=seed)


def edit_role(simulation: Simulation, position: int, image: str) -> str:
    """A user changes the template of a role; returns the new revision."""
    known = simulation.api.experiment.spec.trial_template
    roles = copy.deepcopy(ROLES)
    roles[position]["template"]["spec"]["containers"][0]["image"] = image
    template = TrialTemplate.model_validate({"roles": roles, "placementTimeout": known.placement_timeout})
    simulation.edit_spec(trial_template=template)
    return template.revision


def list_memory(simulation: Simulation, attempt: int) -> list[str]:
    """The memory limits of an attempt's pods, by rank."""
    return [simulation.api.pods[f"e-0-{attempt}-{rank}"].memory for rank in range(3)]


def run_until_attempt(simulation: Simulation, attempt: int) -> None:
    simulation.run(until=lambda: f"e-0-{attempt}-2" in simulation.api.pods)


def test_memory_is_raised_for_the_role_that_was_killed() -> None:
    simulation = start(ScheduledFault(Fault.OOM, 2, rank=1))
    run_until_attempt(simulation, 2)
    assert list_memory(simulation, 2) == ["1Gi", "3Gi", "3Gi"]
    status = simulation.status()
    assert status.limits == {"worker:memory": "3Gi"}
    assert status.raised_memory is not None
    assert (status.raised_memory.role, status.raised_memory.limit) == ("worker", "3Gi")
    assert "memory of role worker raised from 2Gi to 3Gi after an out-of-memory failure" in status.ledger[-1].message
    assert simulation.run().status().state is TrialState.TERMINATED


def test_what_one_role_got_stays_when_another_is_killed() -> None:
    simulation = start(*(ScheduledFault(Fault.OOM, 2, rank=rank) for rank in (2, 0, 1)))
    for attempt, memory in (
        (2, ["1Gi", "3Gi", "3Gi"]),
        (3, ["1536Mi", "3Gi", "3Gi"]),
        (4, ["1536Mi", "4608Mi", "4608Mi"]),
    ):
        run_until_attempt(simulation, attempt)
        assert list_memory(simulation, attempt) == memory
    assert simulation.run().status().state is TrialState.TERMINATED


def test_a_pod_that_was_killed_by_itself_is_named_with_its_role() -> None:
    simulation = start(ScheduledFault(Fault.CRASH, 2, rank=2))
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().decision is not None)
    assert "the pod of rank 2 (worker) has ended, so the other pods are deleted" in simulation.status().message
    status = simulation.run().status()
    assert (status.state, status.failures, status.disruptions) == (TrialState.TERMINATED, 1, 0)


def test_limits_that_a_user_sets_name_a_role() -> None:
    simulation = start(ScheduledFault(Fault.CRASH, 3, rank=0), steps=8).run(3.0)
    simulation.api.edit_trial("e-0", limits={"memory": "16Gi"})
    simulation.run(until=lambda: simulation.status().reason == TrialReason.INVALID_RESOURCES)
    assert simulation.status().message == (
        "spec.limits.memory: names no role, but the trial's pods have roles; write a role before it, such as "
        "worker:memory"
    )
    simulation.api.edit_trial("e-0", limits={"worker:memory": "16Gi"})
    run_until_attempt(simulation, 2)
    assert list_memory(simulation, 2) == ["1Gi", "16Gi", "16Gi"]
    assert simulation.status().limits == {"worker:memory": "16Gi"}
    assert simulation.run().status().state is TrialState.TERMINATED


def test_a_role_whose_image_would_run_as_root_is_told_where_to_set_its_user() -> None:
    simulation = start(ScheduledFault(Fault.STUCK, rank=1)).run(10.0)
    words = "container has runAsNonRoot and image will run as root"
    waiting = Waiting("CreateContainerConfigError", words, hopeless=True)
    simulation.api.update_pod("e-0-1-1", waiting=waiting)
    message = simulation.run(60.0).status().message
    assert message.startswith(f"rank 1 (worker): CreateContainerConfigError: {words}; set ")
    assert "; set spec.trialTemplate.roles[1].template.spec.securityContext.runAsUser to a user other than 0" in message


def test_limits_without_roles_name_none() -> None:
    template = {"spec": {"containers": [{"name": "trial", "image": "example"}]}, "replicas": 2}
    simulation = start(ScheduledFault(Fault.CRASH, 3), steps=8, trialTemplate=template).run(3.0)
    simulation.api.edit_trial("e-0", limits={"worker:memory": "16Gi"})
    simulation.run(until=lambda: simulation.status().reason == TrialReason.INVALID_RESOURCES)
    assert "names a role, but trialTemplate has no roles; write memory" in simulation.status().message


def test_what_a_user_sets_for_a_role_is_not_raised_and_that_of_others_is() -> None:
    simulation = start(*(ScheduledFault(Fault.OOM, 2, rank=rank) for rank in (1, 0)))
    simulation.run(until=lambda: "e-0-1-2" in simulation.api.pods)
    simulation.api.edit_trial("e-0", limits={"worker:memory": "2Gi"})
    run_until_attempt(simulation, 3)
    assert list_memory(simulation, 3) == ["1536Mi", "2Gi", "2Gi"]


@pytest.mark.parametrize("position", [0, 1])
def test_a_changed_template_of_a_role_is_for_new_attempts_of_the_whole_gang(position: int) -> None:
    simulation = start(ScheduledFault(Fault.CRASH, 4, rank=1), steps=8).run(4.0)
    first = simulation.api.pods["e-0-1-0"].revision
    second = edit_role(simulation, position, "mended")
    simulation.run(1.0)
    assert {pod.revision for pod in simulation.api.pods.values()} == {first}, "pods that run were replaced"
    run_until_attempt(simulation, 2)
    assert {simulation.api.pods[f"e-0-2-{rank}"].revision for rank in range(3)} == {second}
    assert simulation.run().status().state is TrialState.TERMINATED


@pytest.mark.parametrize("gone", [(0,), (1,), (0, 1)])
def test_pods_behind_their_gate_that_are_given_up_are_not_waited_for_after_a_restart(gone: tuple[int, ...]) -> None:
    """The third can't be made, for want of quota say; then some are deleted while no operator is there to see it."""
    simulation = start(weather=Weather(downtime=5.0))

    def no_room(action: Action) -> ActionResult | None:
        if isinstance(action, CreatePod):
            for rank in range(2):
                if action.format_name(rank) not in simulation.api.pods:
                    simulation._create_rank(action, rank)
            return ActionResult(ActionStatus.FAILED, "exceeded quota")
        return ActionResult(ActionStatus.FAILED, "busy") if isinstance(action, DeletePod) else None

    simulation.refuse = no_room
    simulation.run(5.0)
    edit_role(simulation, 1, "mended")
    simulation.run(until=lambda: simulation.status().decision is not None)
    simulation.restart()
    simulation.refuse = lambda action: None
    for rank in gone:
        simulation.api.remove_pod(f"e-0-1-{rank}")
    status = simulation.run().status()
    assert (status.state, status.attempt) == (TrialState.TERMINATED, 2)


@bounded
@given(weathers, faults, seeds, st.lists(st.floats(0.5, 12.0), max_size=2))
def test_gangs_with_roles_end_whatever_happens(
    weather: Weather, planned: Faults, seed: int, edits: list[float]
) -> None:
    """The simulated API server holds all ranks of an attempt to one revision, and to the limits on record."""
    simulation = start(*planned.get(0, ()), weather=weather, seed=seed)
    for number, wait in enumerate(edits):
        simulation.run(wait)
        if not simulation.is_over:
            edit_role(simulation, number % 2, f"image-{number}")
    simulation.run()
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE
    assert (simulation.status().state, simulation.status().iteration) == (TrialState.TERMINATED, STEPS)


@bounded
@given(weathers, faults, seeds, st.floats(0.0, 25.0))
def test_a_machine_made_anew_agrees_on_gangs_with_roles(
    weather: Weather, planned: Faults, seed: int, moment: float
) -> None:
    assert_made_anew_agrees(start(*planned.get(0, ()), weather=weather, seed=seed).run(moment))
