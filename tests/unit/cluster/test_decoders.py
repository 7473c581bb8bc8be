"""Every shape that a pod takes on a real cluster, and every one that it should not, comes out as the right record.

The bodies in `pods/` were recorded from a cluster (see their first lines); what varies between them is what matters.
"""

from __future__ import annotations

import contextlib
import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.api.names import TrialState
from podtune.cluster.decoders import MalformedObject, decode_experiment, decode_pod, decode_trial
from podtune.runner.records import ContainerEnd, Pod, PodPhase, Waiting
from tests.unit.cluster.objects import experiment_body, pod_body, trial_body

Manifest = dict[str, Any]
PODS = Path(__file__).parent / "pod_examples"


def recorded(name: str) -> Manifest:
    body: Manifest = yaml.safe_load((PODS / f"{name}.yaml").read_text())
    return body


def read(name: str, *, gone: bool = False) -> Pod:
    return decode_pod(recorded(name), gone=gone)


# Recorded pods


def test_every_recorded_pod_can_be_read() -> None:
    for path in PODS.glob("*.yaml"):
        read(path.stem)


def test_a_running_pod() -> None:
    pod = read("running")
    assert (pod.phase, pod.training, pod.ends, pod.waiting) == (PodPhase.RUNNING, True, (), None)
    assert (pod.trial, pod.attempt, pod.node) == ("running", 1, "n1")
    assert pod.started > 0
    assert not pod.deleting


def test_a_program_that_came_to_its_end() -> None:
    pod = read("complete")
    assert (pod.phase, pod.training, pod.is_over, pod.interrupted) == (PodPhase.SUCCEEDED, True, True, False)
    assert pod.ends == (ContainerEnd("main", 0, "Completed"),)
    assert pod.agent_message == "final"


def test_what_a_pod_has_used_can_be_told_from_it() -> None:
    complete, running = read("complete"), read("running")
    assert complete.ended - complete.started == 3
    assert complete.training_until - complete.training_since == 1
    assert running.training_since >= running.started > 0
    assert (running.ended, running.training_until) == (0, 0)
    body = recorded("running")
    body["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "2"}}
    assert (running.gpus, decode_pod(body).gpus) == (0, 2)
    assert (read("unschedulable").started, read("image-missing").training_since) == (0, 0)


def test_what_is_asked_of_a_pod_that_runs_is_told_by_the_pod() -> None:
    body = recorded("running")
    assert (decode_pod(body).program, decode_pod(body).memory) == ("main", "")
    body["spec"]["containers"][0]["resources"] = {"limits": {"memory": "2Gi"}}
    body["spec"]["containers"].append({"name": "trainer", "resources": {"limits": {"memory": "8Gi"}}})
    assert decode_pod(body).memory == "2Gi"
    body["metadata"].setdefault("annotations", {})["kubectl.kubernetes.io/default-container"] = "trainer"
    assert (decode_pod(body).program, decode_pod(body).memory) == ("trainer", "8Gi")
    body["metadata"]["annotations"]["podtune.dev/own-limits"] = '{"memory":"8Gi"}'
    assert (read("running").own_limits, decode_pod(body).own_limits) == ("", '{"memory":"8Gi"}')


@pytest.mark.parametrize(
    ("annotated", "given", "own"), [(None, None, 30), (None, 5, 5), ("20", 320, 20), ("0", 300, 0)]
)
def test_the_programs_part_of_the_grace_period_is_what_the_annotation_says(
    annotated: str | None, given: int | None, own: int
) -> None:
    body = recorded("running")
    body["spec"]["terminationGracePeriodSeconds"] = given
    annotations = body["metadata"].setdefault("annotations", {})
    annotations.pop("podtune.dev/grace-period-seconds", None)
    if annotated is not None:
        annotations["podtune.dev/grace-period-seconds"] = annotated
    assert decode_pod(body).own_grace == own


def test_a_program_that_crashed() -> None:
    pod = read("crashed")
    assert pod.phase is PodPhase.FAILED
    assert pod.ends == (ContainerEnd("main", 3, "Error"),)
    assert pod.agent_message == "final"


def test_an_init_container_that_failed_kept_the_program_from_starting() -> None:
    pod = read("init-failed")
    assert (pod.phase, pod.training) == (PodPhase.FAILED, False)
    assert pod.ends == (ContainerEnd("fetch", 7, "Error"),)


def test_a_program_that_used_too_much_memory() -> None:
    assert read("oom").ends == (ContainerEnd("main", 137, "OOMKilled"),)


def test_a_pod_that_used_too_much_disk() -> None:
    pod = read("evicted")
    assert (pod.phase, pod.reason, pod.disruption) == (PodPhase.FAILED, "Evicted", "")
    assert "ephemeral" in pod.message


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("image-missing", "ErrImageNeverPull"),
        ("secret-missing", "CreateContainerConfigError"),
        ("agent-crashing", "CrashLoopBackOff"),
    ],
)
def test_what_waiting_rarely_mends_is_told_in_the_kubelets_words(name: str, reason: str) -> None:
    pod = read(name)
    assert (pod.waiting.reason, pod.waiting.hopeless, pod.training) == (reason, True, False)
    assert pod.waiting.message


def test_a_pod_that_fits_on_no_node_is_told_in_the_schedulers_words() -> None:
    pod = read("unschedulable")
    assert (pod.waiting.reason, pod.waiting.hopeless) == ("Unschedulable", False)
    assert "nvidia.com/gpu" in pod.waiting.message
    assert (pod.started, pod.node) == (0.0, "")


def test_a_sidecar_of_the_users_own_that_is_told_to_end_is_no_failure() -> None:
    pod = read("user-sidecar")
    assert pod.phase is PodPhase.SUCCEEDED
    assert [end.name for end in pod.ends] == ["main"]


def test_an_agent_that_was_restarted_has_left_its_termination_message_behind() -> None:
    pod = read("agent-restarted")
    assert pod.phase is PodPhase.RUNNING
    assert pod.agent_message == "first-words"


@pytest.mark.parametrize("name", ["deleted", "trapped"])
def test_a_pod_that_somebody_deleted_was_interrupted_even_if_its_program_ended_well(name: str) -> None:
    pod = read(name, gone=True)
    assert (pod.deleting, pod.interrupted, pod.gone, pod.is_over) == (True, True, True, True)
    assert pod.ends[0].exit_code == {"deleted": 137, "trapped": 0}[name]


# What a kubelet and a control plane do now and then


def ended(at: str = "2024-05-01T12:00:05Z", code: int = 0) -> Manifest:
    terminated = {"exitCode": code, "startedAt": "2024-05-01T12:00:00Z", "finishedAt": at}
    return {"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": {"terminated": terminated}}]}


@pytest.mark.parametrize(
    ("deletion", "grace", "interrupted"),
    [
        ("2024-05-01T12:00:34Z", 30, True),  # asked for a second before the end
        ("2024-05-01T12:00:35Z", 30, True),  # in the same second
        ("2024-05-01T12:00:36Z", 30, False),  # a second after it
        ("2024-05-01T12:00:06Z", 0, False),
        ("2024-05-01T12:00:06Z", None, False),
    ],
)
def test_a_deletion_counts_from_when_it_was_asked_for(deletion: str, grace: int | None, interrupted: bool) -> None:
    metadata: dict[str, Any] = {"deletionTimestamp": deletion, "deletionGracePeriodSeconds": grace}
    assert decode_pod(pod_body(status=ended(), **metadata)).interrupted is interrupted


@pytest.mark.parametrize("type_", ["DisruptionTarget", "TerminationTarget"])
def test_a_disruption_is_told_with_its_reason(type_: str) -> None:
    condition = {"type": type_, "status": "True", "reason": "PreemptionByScheduler", "message": "by a bigger one"}
    pod = decode_pod(pod_body(status={"phase": "Failed", "conditions": [condition]}))
    assert pod.disruption == "PreemptionByScheduler: by a bigger one"
    without = decode_pod(pod_body(status={"phase": "Failed", "conditions": [condition | {"status": "False"}]}))
    assert without.disruption == ""


def test_a_pod_evicted_before_it_ran_has_no_containers_to_tell_of() -> None:
    status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    pod = decode_pod(pod_body(status=status))
    assert (pod.reason, pod.training, pod.ends, pod.agent_message) == ("Evicted", False, (), "")


def test_a_pod_on_a_lost_node() -> None:
    status = {"phase": "Running", "reason": "NodeLost", "message": "Node n2 is unresponsive"}
    pod = decode_pod(pod_body(status=status, deletionTimestamp="2024-05-01T12:00:00Z"))
    assert (pod.reason, pod.interrupted, pod.is_over) == ("NodeLost", True, False)


def test_a_container_that_never_started_did_not_train() -> None:
    terminated = {"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": None, "finishedAt": None}
    status = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": terminated}}]}
    assert decode_pod(pod_body(status=status)).training is False


def test_a_gated_pod_waits_and_says_so() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "by a queue"}
    pod = decode_pod(pod_body(status={"phase": "Pending", "conditions": [condition]}))
    assert pod.waiting == Waiting("SchedulingGated", "by a queue")


def test_an_agent_killed_without_a_word_has_left_those_of_its_life_before() -> None:
    agent = {
        "name": "podtune-agent",
        "state": {"terminated": {"exitCode": 137, "message": ""}},
        "lastState": {"terminated": {"exitCode": 1, "message": "before"}},
    }
    assert decode_pod(pod_body(status={"initContainerStatuses": [agent]})).agent_message == "before"


def test_a_container_that_admission_put_first_is_not_taken_for_the_program() -> None:
    body = pod_body(status=ended(), annotations={"kubectl.kubernetes.io/default-container": "main"})
    body["spec"]["containers"].insert(0, {"name": "istio-proxy"})
    proxy = {"name": "istio-proxy", "state": {"running": {}}}
    body["status"]["containerStatuses"].insert(0, proxy)
    pod = decode_pod(body)
    assert pod.training
    body["status"]["containerStatuses"][1]["state"] = {"waiting": {"reason": "ContainerCreating"}}
    assert decode_pod(body).training is False


# Anything at all

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 300) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_FULL = {
    "phase": "Failed",
    "reason": "Evicted",
    "message": "low on disk",
    "startTime": "2024-05-01T12:00:00Z",
    "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"},
        {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "drained"},
    ],
    "initContainerStatuses": [
        {
            "name": "podtune-agent",
            "state": {"running": {"startedAt": "2024-05-01T12:00:00Z"}},
            "lastState": {"terminated": {"exitCode": 1, "message": "{}"}},
        }
    ],
    "containerStatuses": [
        {
            "name": "main",
            "state": {
                "waiting": {"reason": "ImagePullBackOff", "message": "no"},
                "running": {"startedAt": "2024-05-01T12:00:00Z"},
                "terminated": {
                    "exitCode": 1,
                    "reason": "Error",
                    "message": "",
                    "startedAt": "2024-05-01T12:00:00Z",
                    "finishedAt": "2024-05-01T12:00:09Z",
                },
            },
        }
    ],
}
_NEEDED = frozenset({"name", "type", "status"})
"""What a container's status and a condition always have; everything else may be missing."""


@st.composite
def parts_of(draw: st.DrawFn, whole: Any) -> Any:
    """Any part of an object: fields left out, or null."""
    if isinstance(whole, dict):
        kept: Manifest = {}
        for key, value in whole.items():
            choice = "keep" if key in _NEEDED else draw(st.sampled_from(["keep", "keep", "drop", "null"]))
            if choice != "drop":
                kept[key] = None if choice == "null" else draw(parts_of(value))
        return kept
    if isinstance(whole, list):
        return [draw(parts_of(item)) for item in whole if draw(st.booleans())]
    return whole


@settings(deadline=None, max_examples=150)
@given(parts_of(_FULL), st.booleans(), st.booleans())
def test_any_part_of_a_status_can_be_read(status: Manifest, deleting: bool, gone: bool) -> None:
    ending: dict[str, Any] = {"deletionTimestamp": "2024-05-01T12:00:35Z", "deletionGracePeriodSeconds": 30}
    metadata = ending if deleting else {}
    pod = decode_pod(pod_body(status=status, **metadata), gone=gone)
    assert pod.gone is gone
    assert pod.deleting is deleting
    assert pod.interrupted <= pod.deleting


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(["metadata", "spec", "status"]), _JSON)
def test_anything_else_is_unreadable_and_nothing_worse(part: str, value: Any) -> None:
    for body, reader in (
        (pod_body(), decode_pod),
        (trial_body(), decode_trial),
        (experiment_body(), decode_experiment),
    ):
        spoilt = copy.deepcopy(body)
        if part == "metadata" and isinstance(value, dict):
            spoilt["metadata"] |= value
        elif part != "metadata":
            spoilt[part] = value
        with contextlib.suppress(MalformedObject):
            reader(spoilt)


# Experiments and Trials


def test_an_experiment_is_read() -> None:
    experiment = decode_experiment(experiment_body())
    assert (experiment.namespace, experiment.name, experiment.version) == ("team", "digits", 10)
    assert experiment.spec is not None
    assert (experiment.problem, experiment.deleting) == ("", False)


@settings(deadline=None, max_examples=100)
@given(_JSON)
def test_a_template_of_any_form_is_a_problem_told_and_no_crash(template: Any) -> None:
    experiment = decode_experiment(experiment_body(trialTemplate={"spec": {"containers": template}}))
    assert (experiment.spec is None) is bool(experiment.problem)


def test_a_state_of_a_later_version_is_made_anew_and_the_rest_kept() -> None:
    body = experiment_body()
    condition = {"type": "Complete", "status": "True", "reason": "TrialsComplete", "lastTransitionTime": "x"}
    body["status"] = {"state": "Hibernating", "message": "z", "conditions": [condition], "trials": {"total": "many"}}
    status = decode_experiment(body).status
    assert (status.state, status.message, status.trials.total) == (None, "z", 0)
    assert [(c.type, c.status) for c in status.conditions] == [("Complete", "True")]


def test_a_spec_is_not_read_again_while_its_generation_stays() -> None:
    body = experiment_body()
    before = decode_experiment(body)
    body["metadata"]["resourceVersion"] = "11"
    body["status"] = {"message": "1 of 3 done"}
    after = decode_experiment(body, known=before)
    assert after.spec is before.spec
    assert (after.version, after.status.message) == (11, "1 of 3 done")
    body["metadata"]["generation"] = 2
    body["spec"]["maxConcurrentTrials"] = 9
    changed = decode_experiment(body, known=after)
    assert changed.spec.max_concurrent_trials == 9


def test_a_trial_is_read() -> None:
    trial = decode_trial(trial_body(2, state="RUNNING", attempt=1, somethingNew=1))
    assert (trial.name, trial.spec.index, trial.status.state) == ("digits-2", 2, TrialState.RUNNING)


def test_a_trial_of_somebody_elses_making_is_named() -> None:
    body = trial_body()
    body["spec"] = {"lr": 0.1}
    with pytest.raises(MalformedObject, match="Trial team/digits-0"):
        decode_trial(body)


def test_when_a_pod_was_made_and_what_it_avoids() -> None:
    pod = decode_pod(
        pod_body(creationTimestamp="2026-01-01T00:00:10Z", annotations={"podtune.dev/avoided-nodes": "gpu-1,gpu-2"})
    )
    assert pod.avoids == ("gpu-1", "gpu-2")
    assert pod.created == datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC).timestamp()
    assert decode_pod(pod_body()).avoids == ()


def test_a_trial_that_a_person_adds_has_its_index_in_its_name() -> None:
    body = trial_body(100_012)
    del body["spec"]["index"]
    del body["metadata"]["ownerReferences"]
    trial = decode_trial(body)
    assert (trial.spec.index, trial.owned) == (100_012, False)
    for name in ("digits-99999", "digits-x", "other-100012"):
        body["metadata"]["name"] = name
        with pytest.raises(MalformedObject):
            decode_trial(body)
