"""Memory that is raised after an out-of-memory failure, and limits that a user sets for one trial."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.api.names import DesiredState, ExperimentReason, TrialReason, TrialState
from podtune.runner.actions import Action, ActionResult, ActionStatus, CreatePod, TryPod
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world.made_anew import assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import FAIR, STORE, Simulation, Weather, spec

HELP = {"raiseMemoryBy": 1.5, "upTo": "8Gi"}
ONE = {"algorithm": "random", "maxTrials": 1, "seed": 7}
HUNGRY = Program(steps=6, checkpoint_every=1, memory={0: (3, "4Gi")})
"""From its third iteration on the first trial needs 4Gi."""
REFUSED = ActionResult(ActionStatus.REFUSED, "maximum memory usage per Container is 1Gi", ExperimentReason.POD_REFUSED)


def make_container(memory: str, image: str = "example") -> dict[str, Any]:
    """The training container of a template."""
    return {"name": "trial", "image": image, "resources": {"limits": {"memory": memory}} if memory else {}}


def start(
    memory: str = "2Gi",
    program: Program = HUNGRY,
    weather: Weather = FAIR,
    *,
    template: dict[str, Any] | None = None,
    failures: dict[str, Any] | None = None,
    **fields: Any,
) -> Simulation:
    """Trials with so much memory, of which the first needs more."""
    containers = [make_container(memory)]
    fields = {
        "search": ONE,
        "checkpoints": {"store": STORE},
        "trialTemplate": {"spec": {"containers": containers}, **(template or {})},
        "failures": {"outOfMemory": HELP, "backoff": {"initial": "1s", "max": "2s"}, **(failures or {})},
        **fields,
    }
    return Simulation(spec(**fields), program, weather)


def list_memory(simulation: Simulation, trial: str = "e-0") -> list[str]:
    """The memory limits of a trial's pods that were asked for, without repetitions."""
    asked = {
        action.attempt: action.limits.get("memory", "") for action in simulation.created_pods() if action.trial == trial
    }
    return list(asked.values())


def is_waiting(simulation: Simulation, reason: TrialReason) -> bool:
    return simulation.status_exists() and simulation.status().reason == reason


def test_memory_is_raised_until_it_suffices_and_the_trial_goes_on_from_its_checkpoint() -> None:
    simulation = start().run(until=lambda: False)
    status = simulation.status()
    assert (status.state, status.iteration, status.failures) == (TrialState.TERMINATED, 6, 2)
    assert list_memory(simulation) == ["", "3Gi", "4608Mi"]
    assert status.limits == {"memory": "4608Mi"}
    assert (status.raised_memory.previous, status.raised_memory.limit) == ("3Gi", "4608Mi")
    assert [simulation.pods[f"e-0-{attempt}"].restored.step for attempt in (2, 3)] == [3, 3]
    retries = [entry.message for entry in status.ledger if entry.action == "RETRY"]
    assert retries[0] == (
        "container trial used more memory than its limit; memory raised from 2Gi to 3Gi after an out-of-memory "
        "failure; will be retried from the checkpoint of iteration 3"
    )


def test_the_message_names_the_raise_while_the_trial_waits_and_runs() -> None:
    simulation = start()
    simulation.run(until=lambda: is_waiting(simulation, TrialReason.BACKING_OFF))
    words = "memory raised from 2Gi to 3Gi after an out-of-memory failure"
    assert words in simulation.status().message
    assert simulation.events[-1].reason == "OOMKilled"
    assert words in simulation.events[-1].message
    simulation = start(program=Program(steps=60, checkpoint_every=1, memory={0: (3, "3Gi")}))
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().attempt == 2)
    simulation.run(20.0)
    assert simulation.status().message.endswith(f"attempt 2 resumed from iteration 3 after exit code 137; {words}")


def test_a_trial_that_needs_nothing_has_nothing_on_record() -> None:
    simulation = start(program=Program(steps=3)).run()
    assert (simulation.status().limits, simulation.status().raised_memory) == ({}, None)
    assert list_memory(simulation) == [""]


def test_a_raise_counts_as_a_failure() -> None:
    simulation = start(failures={"maxFailures": 1}).run()
    status = simulation.status()
    assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.MAX_FAILURES_EXCEEDED)
    assert list_memory(simulation) == ["", "3Gi"]
    assert "; raise its limits.memory in spec.trialTemplate (last line" in status.message
    assert status.message.endswith("; not retried: failure 2, maxFailures is 1")


def test_a_rule_has_it_count_as_something_else() -> None:
    rules = [{"reason": "OOMKilled", "action": "Ignore"}]
    status = start(failures={"maxFailures": 0, "rules": rules}).run().status()
    assert (status.state, status.failures, status.ignored) == (TrialState.TERMINATED, 0, 2)


def test_at_the_highest_limit_it_fails_as_before() -> None:
    simulation = start(failures={"outOfMemory": {"raiseMemoryBy": 1.5, "upTo": "3Gi"}, "maxFailures": 2}).run()
    assert list_memory(simulation) == ["", "3Gi", "3Gi"]
    status = simulation.status()
    assert status.state is TrialState.ERROR
    retries = [entry.message for entry in status.ledger if entry.action == "RETRY"]
    assert "is not below failures.outOfMemory.upTo, 3Gi; raise upTo" in retries[-1]


def test_only_the_trial_that_was_killed_gets_more() -> None:
    simulation = start(search={**ONE, "maxTrials": 3}).run()
    assert [list_memory(simulation, f"e-{index}") for index in range(3)] == [["", "3Gi", "4608Mi"], [""], [""]]


def test_all_ranks_of_a_gang_get_more() -> None:
    faults = {0: (ScheduledFault(Fault.OOM, 1, rank=1),)}
    program = Program(steps=4, checkpoint_every=1, faults=faults)
    simulation = start(program=program, template={"replicas": 2})
    simulation.run(until=lambda: "e-0-2-1" in simulation.api.pods)
    assert [simulation.api.pods[f"e-0-2-{rank}"].memory for rank in range(2)] == ["3Gi", "3Gi"]
    assert simulation.run().status().state is TrialState.TERMINATED


def test_a_template_with_more_memory_is_not_lowered_by_a_raise() -> None:
    simulation = start()
    simulation.run(until=lambda: is_waiting(simulation, TrialReason.BACKING_OFF))
    simulation.edit_template(containers=[make_container("5Gi")])
    simulation.run()
    assert list_memory(simulation) == ["", ""]
    assert (simulation.status().limits, simulation.status().iteration) == ({}, 6)


def test_a_raise_comes_before_the_limits_of_the_template() -> None:
    simulation = start(memory="", template={"limits": {"memory": {"expression": "'2Gi'"}, "cpu": "1"}}).run()
    assert list_memory(simulation) == ["2Gi", "3Gi", "4608Mi"]
    assert simulation.created_pods()[-1].limits == {"memory": "4608Mi", "cpu": "1"}


def test_what_pods_depend_on_is_written_at_once() -> None:
    simulation = start().run()
    records = [write for write in simulation.writes_of("e-0") if write.status.limits and write.status.attempt < 2]
    assert records
    assert not records[0].routine


def test_a_pod_that_vanished_while_no_operator_was_there_is_a_disruption() -> None:
    """Nobody knows any more what it was made with: that its limits were others is not to be concluded."""
    weather = Weather(downtime=5.0)
    program = Program(steps=30, checkpoint_every=1, memory={0: (3, "3Gi")})
    simulation = start(program=program, weather=weather)
    simulation.run(until=lambda: is_waiting(simulation, TrialReason.BACKING_OFF))
    simulation.edit_template(containers=[make_container("2Gi", "mended")])
    simulation.run(until=lambda: "e-0-2" in simulation.api.pods and simulation.status().iteration > 5)
    simulation.run(3.0)
    assert (simulation.status().limits, simulation.status().revision != "") == ({"memory": "3Gi"}, True)
    simulation.restart()
    simulation.pods["e-0-2"].strike(Fault.VANISHED)
    simulation.run(until=lambda: simulation.status().attempt == 3)
    assert (simulation.status().disruptions, simulation.status().last_attempt.reason) == (1, "PodVanished")
    assert simulation.run().status().state is TrialState.TERMINATED


@pytest.mark.parametrize("moment", [0.0, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0])
def test_a_restarted_operator_makes_the_same_pods(moment: float) -> None:
    simulation = start(weather=Weather(latency=0.2, watch_delay=0.3))
    simulation.run(until=lambda: any(pod.phase.is_finished for pod in simulation.api.pods.values()))
    simulation.run(moment)
    simulation.restart()
    simulation.run(3.0)
    assert_made_anew_agrees(simulation)
    simulation.frozen = False
    assert list_memory(simulation)[:2] == ["", "3Gi"]


# Limits that a user sets


def test_limits_of_a_trial_hold_from_its_next_attempt_on() -> None:
    simulation = start(program=Program(steps=8, checkpoint_every=1), failures={"outOfMemory": None}).run(3.0)
    simulation.api.edit_trial("e-0", limits={"memory": "16Gi", "nvidia.com/gpu": "2"})
    simulation.run(2.0)
    status = simulation.status()
    assert (status.attempt, status.limits) == (1, {})
    assert "spec.limits takes effect with its next attempt" in status.message
    simulation.pods["e-0-1"].strike(Fault.CRASH)
    simulation.run(until=lambda: "e-0-2" in simulation.api.pods)
    assert simulation.status().limits == {"memory": "16Gi", "nvidia.com/gpu": "2"}
    assert simulation.api.pods["e-0-2"].memory == "16Gi"
    simulation.run(3.0)
    assert simulation.status().message.endswith("with memory 16Gi, nvidia.com/gpu 2")
    assert simulation.run().status().iteration == 8


def test_limits_of_a_paused_trial_hold_when_it_goes_on() -> None:
    simulation = start().run(2.0)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.PAUSED, limits={"memory": "4Gi"})
    simulation.run(until=lambda: simulation.status().state is TrialState.PAUSED)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.RUNNING)
    assert simulation.run().status().failures == 0
    assert list_memory(simulation) == ["", "4Gi"]


def test_what_a_user_has_set_comes_first_and_is_not_raised() -> None:
    simulation = start(failures={"maxFailures": 5})
    simulation.run(until=lambda: is_waiting(simulation, TrialReason.BACKING_OFF))
    simulation.api.edit_trial("e-0", limits={"memory": "3500Mi"})
    simulation.run(until=lambda: simulation.status().failures == 2)
    assert (
        "spec.limits of the Trial sets its memory, so it is not raised; set more there" in simulation.status().message
    )
    simulation.api.edit_trial("e-0", limits={})
    simulation.run()
    assert list_memory(simulation) == ["", "3500Mi", "3Gi", "4608Mi"], "what was raised before holds again"
    assert simulation.status().state is TrialState.TERMINATED


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"memory": "16GB"}, "spec.limits.memory: '16GB' is not a quantity; write it like 4, 500m or 16Gi"),
        (
            {"mem": "16Gi"},
            "spec.limits.mem: '16Gi' is set for an unknown resource; write cpu, memory, ephemeral-storag",
        ),
        ({"nvidia.com/gpu": "1.5"}, "spec.limits.nvidia.com/gpu: '1.5' is a fraction of a device"),
    ],
)
def test_limits_that_no_pod_can_have_are_named_and_waited_for(limits: dict[str, str], problem: str) -> None:
    simulation = start()
    simulation.run(until=lambda: is_waiting(simulation, TrialReason.BACKING_OFF))
    simulation.api.edit_trial("e-0", limits=limits)
    simulation.run(60.0)
    status = simulation.status()
    assert (status.state, status.reason) == (TrialState.PENDING, TrialReason.INVALID_RESOURCES)
    assert status.message.startswith(problem)
    assert len(simulation.created_pods()) == 1
    simulation.api.edit_trial("e-0", limits={"memory": "4Gi"})
    assert simulation.run().status().state is TrialState.TERMINATED
    assert list_memory(simulation) == ["", "4Gi"]


def test_a_mistake_is_named_while_the_trial_still_runs() -> None:
    simulation = start(program=Program(steps=8)).run(3.0)
    simulation.api.edit_trial("e-0", limits={"memory": "16GB"})
    simulation.run(2.0)
    assert "spec.limits.memory: '16GB' is not a quantity" in simulation.status().message
    assert simulation.run().status().state is TrialState.TERMINATED


def test_a_refusal_of_them_is_that_trials_alone() -> None:
    def refuse(action: Action) -> ActionResult | None:
        creation = action.creation if isinstance(action, TryPod) else action
        is_large = isinstance(creation, CreatePod) and creation.limits.get("memory") == "16Gi"
        return REFUSED if is_large else None

    simulation = start(search={**ONE, "maxTrials": 4}, program=Program(steps=4, checkpoint_every=1)).run(2.0)
    simulation.refuse = refuse
    simulation.api.edit_trial("e-0", limits={"memory": "16Gi"})
    simulation.pods["e-0-1"].strike(Fault.CRASH)
    simulation.run(300.0)
    status = simulation.status()
    assert (status.state, status.reason) == (TrialState.PENDING, TrialReason.POD_REFUSED)
    assert status.message.startswith("the API server refuses its pod with memory 16Gi: maximum memory usage")
    assert status.message.endswith("; correct spec.limits of the Trial, or have an administrator allow as much")
    assert simulation.api.experiment.status.trials.terminated == 3
    simulation.api.edit_trial("e-0", limits={"memory": "1Gi"})
    assert simulation.run().status().state is TrialState.TERMINATED


def test_a_raise_that_is_refused_says_what_to_do() -> None:
    simulation = start()
    simulation.refuse = lambda action: REFUSED if isinstance(action, CreatePod) and action.own_limits else None
    simulation.run(until=lambda: is_waiting(simulation, TrialReason.POD_REFUSED))
    assert simulation.status().message.endswith(
        "; set memory in spec.limits of the Trial, or have an administrator allow as much"
    )


def test_a_pod_of_a_late_request_with_other_limits_counts_for_nothing() -> None:
    simulation = start()
    simulation.run(until=lambda: is_waiting(simulation, TrialReason.BACKING_OFF))
    simulation.fail(CreatePod)
    simulation.run(until=lambda: len(simulation.created_pods()) == 2)
    request = simulation.created_pods()[-1]
    simulation.api.edit_trial("e-0", limits={"memory": "6Gi"})
    simulation.run(until=lambda: simulation.status().limits == {"memory": "6Gi"})
    simulation.refuse = lambda action: None
    simulation._create_rank(request, 0)
    simulation.run(until=lambda: "e-0-3" in simulation.api.pods)
    assert (request.limits, simulation.api.pods["e-0-3"].memory) == ({"memory": "3Gi"}, "6Gi")
    assert "limits of the trial have changed while its pod was made" in simulation.status().ledger[-1].message
    status = simulation.run().status()
    assert (status.state, status.failures, status.iteration) == (TrialState.TERMINATED, 1, 6)


def test_warm_pods_are_not_given_to_trials_with_other_limits() -> None:
    program = Program(steps=4, checkpoint_every=1)
    template = {"reuse": True}
    simulation = start(program=program, template=template, search={**ONE, "maxTrials": 3}, maxConcurrentTrials=1)
    simulation.run(2.5)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.PAUSED)
    simulation.run(until=lambda: simulation.status().state is TrialState.PAUSED)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.RUNNING, limits={"memory": "4Gi"})
    simulation.run()
    assert simulation.api.experiment.status.trials.terminated == 3
    large = {action.name for action in simulation.created_pods() if action.limits}
    served = {pod.name: pod.served for pod in simulation.pods.values()}
    assert {name: served[name] for name in large} == {"e-0-2": ["e-0"]}
    assert [name for name in served if "e-0" in served[name]] == ["e-0-1", "e-0-2"]


@given(
    st.lists(st.sampled_from(["", "1Gi", "3Gi", "4Gi", "9Gi"]), max_size=4),
    st.lists(st.floats(0.5, 20.0), max_size=3),
    st.integers(0, 2**32),
)
def test_whatever_happens_pods_have_what_is_on_record(limits: list[str], restarts: list[float], seed: int) -> None:
    """The simulated API server holds each pod to the record; the trial comes to its end once it may have enough."""
    weather = Weather(latency=0.5, watch_delay=1.0, fails=0.1, loses_reply=0.1, repeats=0.1, restarts=tuple(restarts))
    simulation = start(weather=weather, failures={"maxFailures": 50})
    for limit in limits:
        simulation.run(4.0)
        if simulation.status_exists() and not simulation.is_over:
            simulation.api.edit_trial("e-0", limits={"memory": limit} if limit else {})
    simulation.run(10.0)
    if not simulation.is_over:
        simulation.api.edit_trial("e-0", limits={})
    assert simulation.run().status().state is TrialState.TERMINATED
