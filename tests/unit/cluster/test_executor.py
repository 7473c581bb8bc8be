"""Every action can be repeated, whatever the API server or somebody else does in between."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from podtune.api.names import ExperimentReason
from podtune.api.resources.experiment import ExperimentStatus
from podtune.api.resources.trial import TrialSpec, TrialStatus
from podtune.cluster.events import Reporter
from podtune.cluster.executor import Executor
from podtune.cluster.pods.manifest import AgentSettings
from podtune.kube.manifests import Manifest
from podtune.runner.actions import (
    DONE,
    ActionResult,
    ActionStatus,
    AdoptTrial,
    ClusterAction,
    CreatePod,
    CreateTrial,
    DeleteFinishedPods,
    DeletePod,
    EmitEvent,
    FetchLogs,
    TryPod,
    WriteExperimentStatus,
    WriteMetadata,
    WriteTrialStatus,
)
from tests.unit.cluster.fake_client import FakeCluster, no_answer, refusal
from tests.unit.cluster.objects import (
    EXPERIMENTS,
    NAMESPACE,
    PODS,
    REVISION,
    TRIALS,
    experiment_body,
    experiment_record,
    pod_body,
    trial_body,
)

SPEC = TrialSpec(experiment="digits", index=0, parameters={"lr": "0.01", "units": "32"})
CREATE_TRIAL = CreateTrial("digits-0", SPEC)
CREATE_POD = CreatePod("digits-0", "t-1", 1, SPEC, restore=(), iteration=0, revision=REVISION)
TRY_POD = TryPod(CREATE_POD)


@dataclass
class Seen:
    """The observer; remembers names and versions."""

    bodies: list[dict[str, Any]] = field(default_factory=list)
    statuses: list[tuple[str, str, Any]] = field(default_factory=list)

    def observe_experiment(self, body: dict[str, Any]) -> None:
        self.bodies.append(body)

    observe_trial = observe_pod = observe_experiment

    def observe_trial_status(self, metadata: dict[str, Any], status: Any) -> None:
        self.statuses.append((metadata["name"], metadata["resourceVersion"], status))

    observe_experiment_status = observe_trial_status

    @property
    def names(self) -> list[str]:
        return [body["metadata"]["name"] for body in self.bodies]


class Bench:
    """An executor at work on one experiment."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.seen = Seen()
        reporter = Reporter(
            "operator-1",
            lambda: "2024-05-01T12:00:00.000000Z",
            lambda _, trial: f"uid-of-{trial}",
            namespace="podtune-system",
            lease="podtune-operator",
        )
        self.executor = Executor(self.cluster, self.seen, AgentSettings("agent:1", "Always", "http://r"), reporter)

    async def do(self, action: ClusterAction, **spec: Any) -> ActionResult:
        return await self.executor.execute(experiment_record(**spec), action)


@pytest.fixture
def bench() -> Bench:
    return Bench()


# Trials and pods are made once


async def test_a_trial_belongs_to_its_experiment(bench: Bench) -> None:
    assert await bench.do(CREATE_TRIAL) == DONE
    made = bench.cluster.get(f"{TRIALS}/digits-0")
    assert made is not None
    assert made["metadata"]["labels"]["podtune.dev/experiment"] == "digits"
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Experiment", "e-1", True)
    assert made["spec"] == {
        "experiment": "digits",
        "index": 0,
        "parameters": {"lr": "0.01", "units": "32"},
    }
    assert bench.seen.names == ["digits-0"]


async def test_a_trial_that_a_person_has_made_gets_its_owner_and_labels(bench: Bench) -> None:
    made = bench.cluster.put(TRIALS, trial_body(100_000))
    del made["metadata"]["ownerReferences"]
    version = int(made["metadata"]["resourceVersion"])
    assert await bench.do(AdoptTrial("digits-100000", version, {"units": "32"})) == DONE
    adopted = bench.cluster.get(f"{TRIALS}/digits-100000")
    assert adopted is not None
    assert adopted["metadata"]["labels"]["podtune.dev/experiment"] == "digits"
    assert [owner["uid"] for owner in adopted["metadata"]["ownerReferences"]] == ["e-1"]
    assert bench.seen.names == ["digits-100000"]
    assert (await bench.do(AdoptTrial("digits-100000", version))).status is ActionStatus.FAILED, "it has changed"


async def test_a_trial_has_the_labels_that_hold_parameters(bench: Bench) -> None:
    labels = {"team": "vision", "units": "$(PODTUNE_PARAM_units)", "momentum": "$(PODTUNE_PARAM_momentum)"}
    parameters = [{"name": name, "float": {"min": 0, "max": 64}} for name in ("lr", "units", "momentum")]
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "i"}]}}
    assert await bench.do(CREATE_TRIAL, parameters=parameters, trialTemplate=template) == DONE
    made = bench.cluster.get(f"{TRIALS}/digits-0")
    assert made is not None
    assert made["metadata"]["labels"].items() >= {"units": "32"}.items()
    assert not {"team", "momentum"} & made["metadata"]["labels"].keys()


@pytest.mark.parametrize("action", [CREATE_TRIAL, CREATE_POD], ids=["trial", "pod"])
async def test_what_was_made_by_a_request_whose_answer_was_lost_is_found(bench: Bench, action: ClusterAction) -> None:
    bench.cluster.fail("POST", "", no_answer(), carried_out=True)
    assert (await bench.do(action)).status is ActionStatus.FAILED
    assert bench.seen.bodies == []
    assert await bench.do(action) == DONE
    assert len(bench.seen.bodies) == 1
    assert len(bench.cluster.all("trials")) + len(bench.cluster.all("pods")) == 1


@pytest.mark.parametrize(
    ("action", "path", "body"),
    [
        (CREATE_TRIAL, TRIALS, trial_body(owner="e-0")),
        (CREATE_POD, PODS, pod_body(owner="t-0")),
        (CREATE_POD, PODS, {"metadata": {"name": "digits-0-1"}}),
    ],
    ids=["trial of a namesake", "pod of a namesake", "somebody's pod"],
)
async def test_a_name_that_another_owner_has_is_waited_for(
    bench: Bench, action: ClusterAction, path: str, body: dict[str, Any]
) -> None:
    bench.cluster.put(path, body)
    outcome = await bench.do(action)
    assert outcome.status is ActionStatus.FAILED
    assert "another owner" in outcome.message
    assert bench.seen.bodies == []


async def test_an_object_of_ours_that_somebody_has_spoilt_is_named(bench: Bench) -> None:
    spoilt = pod_body()
    del spoilt["metadata"]["labels"]["podtune.dev/attempt"]
    bench.cluster.put(PODS, spoilt)
    outcome = await bench.do(CREATE_POD)
    assert outcome.status is ActionStatus.FAILED  # DONE would have it tried again at once, and for ever
    assert f"{NAMESPACE}/digits-0-1" in outcome.message


async def test_an_object_that_goes_between_the_two_looks_is_tried_again(bench: Bench) -> None:
    bench.cluster.fail("POST", "pods", refusal(409, "exists", "AlreadyExists"))
    assert (await bench.do(CREATE_POD)).status is ActionStatus.FAILED
    assert await bench.do(CREATE_POD) == DONE


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (403, 'pods "digits-0-1" is forbidden: violates PodSecurity "restricted:latest": hostPort (container uses 80)'),
        (403, 'admission webhook "policy" denied the request: no GPUs on Mondays'),
        (400, 'admission webhook "policy" denied the request: who are you'),
        (403, "maximum cpu usage per Container is 1, but limit is 2"),
        (403, "failed quota: compute: must specify limits.cpu"),
        (422, 'Pod "digits-0-1" is invalid: spec.containers[0].image: Required value'),
        (413, "Request entity too large"),
        (500, "etcdserver: request is too large"),
    ],
)
async def test_a_pod_that_will_never_be_taken_is_refused_in_the_servers_own_words(
    bench: Bench, status: int, message: str
) -> None:
    bench.cluster.fail("POST", "pods", refusal(status, message))
    expected = ActionResult(ActionStatus.REFUSED, message, ExperimentReason.POD_REFUSED)
    assert await bench.do(CREATE_POD) == expected
    bench.cluster.fail("POST", "pods", refusal(status, message))
    assert await bench.do(TRY_POD) == expected


NEW_KIND = (
    "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion podtune.dev/v1alpha1 "
    'Kind Trial: no matches for kind "Trial" in version "podtune.dev/v1alpha1"'
)
"""What an API server says whose definitions are new, where owners are looked at."""


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (403, 'pods "digits-0-1" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1'),
        (403, "unable to create new content in namespace team because it is being terminated"),
        (403, 'pods is forbidden: User "system:serviceaccount:x:podtune" cannot create resource "pods" in API group'),
        (403, 'pods "digits-0-1" is forbidden: error looking up service account team/default: "default" not found'),
        (403, f'pods "digits-0-1" is forbidden: {NEW_KIND}'),
        (401, "Unauthorized"),
        (404, 'namespaces "team" not found'),
        (409, "Operation cannot be fulfilled on resourcequotas: the object has been modified"),
        (500, 'failed calling webhook "policy": connection refused'),
        (429, "too many requests"),
    ],
)
async def test_a_pod_that_may_be_taken_later_is_not_refused(bench: Bench, status: int, message: str) -> None:
    bench.cluster.fail("POST", "pods", refusal(status, message))
    assert await bench.do(CREATE_POD) == ActionResult(ActionStatus.FAILED, message)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (403, 'pods "digits-0-1" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1'),
        (403, 'pods "digits-0-1" is forbidden: error looking up service account team/default: "default" not found'),
        (403, f'pods "digits-0-1" is forbidden: {NEW_KIND}'),
        (400, 'admission webhook "policy" does not support dry run'),
        (409, 'pods "digits-0-1" already exists'),
    ],
)
async def test_what_a_dry_run_can_not_tell_is_left_to_the_request_itself(
    bench: Bench, status: int, message: str
) -> None:
    bench.cluster.fail("POST", "pods", refusal(status, message, "AlreadyExists" if status == 409 else ""))
    assert await bench.do(TRY_POD) == DONE


async def test_no_pod_is_made_from_another_template_than_is_on_record(bench: Bench) -> None:
    result = await bench.do(replace(CREATE_POD, revision="0123456789"))
    assert (result.status, result.reason) == (ActionStatus.FAILED, ExperimentReason.TEMPLATE_CHANGED)
    assert bench.cluster.calls == []


async def test_one_pods_refusal_stands_for_those_that_were_to_be_made_with_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = bench.cluster.request

    async def later(*args: Any, **options: Any) -> Any:
        await asyncio.sleep(0)
        return await request(*args, **options)

    monkeypatch.setattr(bench.cluster, "request", later)
    message = 'pods "digits-0-1" is forbidden: violates PodSecurity "restricted:latest": hostPort (container uses 80)'
    others = [replace(CREATE_POD, trial=f"digits-{index}", trial_uid=f"t-{index}") for index in range(2, 5)]
    bench.cluster.fail("POST", "pods", refusal(403, message))
    outcomes = await asyncio.gather(*map(bench.do, [CREATE_POD, *others]))
    assert outcomes == [ActionResult(ActionStatus.REFUSED, message, ExperimentReason.POD_REFUSED)] * 4
    assert await bench.do(others[0]) == outcomes[0], "it was on its way when the answer came"
    assert len(bench.cluster.writes("pods")) == 1
    assert await bench.do(TRY_POD) == DONE
    assert await asyncio.gather(*map(bench.do, [CREATE_POD, *others])) == [DONE] * 4, "a dry run has passed"


async def test_a_pod_with_other_limits_is_no_others_kin(bench: Bench) -> None:
    larger = replace(CREATE_POD, trial="digits-1", trial_uid="t-1b", limits={"memory": "1Gi"})
    bench.cluster.fail("POST", "pods", refusal(422, "too much"))
    outcomes = await asyncio.gather(bench.do(larger), bench.do(CREATE_POD))
    assert sorted(outcome.status for outcome in outcomes) == sorted([ActionStatus.REFUSED, ActionStatus.DONE])


async def test_a_pod_that_is_tried_is_not_made(bench: Bench) -> None:
    assert await bench.do(TRY_POD) == DONE
    (call,) = bench.cluster.writes("pods")
    assert (call.params, call.body["metadata"]["name"]) == ({"dryRun": "All"}, "digits-0-1")  # type: ignore[index]
    assert bench.cluster.all("pods") == []
    assert bench.seen.bodies == []


async def test_a_question_without_an_answer_is_none(bench: Bench) -> None:
    bench.cluster.fail("POST", "pods", refusal(500, "etcd is away"))
    assert (await bench.do(TRY_POD)).status is ActionStatus.FAILED


async def test_no_answer_is_a_failure_that_says_so(bench: Bench) -> None:
    bench.cluster.fail("POST", "pods", no_answer())
    outcome = await bench.do(CREATE_POD)
    assert (outcome.status, outcome.message) == (ActionStatus.FAILED, "connection reset by peer")


# Statuses are written onto the version that they were made from


async def test_a_status_replaces_the_one_that_it_was_made_from(bench: Bench) -> None:
    version = int(bench.cluster.put(TRIALS, trial_body())["metadata"]["resourceVersion"])
    status = TrialStatus(attempt=1, failures=0, last_result={"accuracy": "0.9"})
    assert await bench.do(WriteTrialStatus("digits-0", "t-1", version, status)) == DONE
    assert bench.cluster.get(f"{TRIALS}/digits-0")["status"] == {  # type: ignore[index]
        "attempt": 1,
        "lastResult": {"accuracy": "0.9"},
    }
    (call,) = bench.cluster.writes("trials")[-1:]
    assert (call.method, call.path, call.params) == ("PUT", f"{TRIALS}/digits-0/status", {"fieldManager": "podtune"})
    assert bench.seen.statuses == [("digits-0", str(version + 1), status)]


async def test_a_stale_status_is_not_written_and_the_present_one_is_told(bench: Bench) -> None:
    version = int(bench.cluster.put(TRIALS, trial_body())["metadata"]["resourceVersion"])
    bench.cluster.change(f"{TRIALS}/digits-0", lambda body: body["spec"].update(desiredState="Stopped"))
    outcome = await bench.do(WriteTrialStatus("digits-0", "t-1", version, TrialStatus(attempt=1)))
    assert outcome.status is ActionStatus.FAILED
    assert bench.seen.bodies[0]["spec"]["desiredState"] == "Stopped"
    assert bench.cluster.get(f"{TRIALS}/digits-0")["status"] == {}  # type: ignore[index]


async def test_a_status_whose_answer_was_lost_comes_back_as_a_conflict(bench: Bench) -> None:
    version = int(bench.cluster.put(TRIALS, trial_body())["metadata"]["resourceVersion"])
    write = WriteTrialStatus("digits-0", "t-1", version, TrialStatus(attempt=1))
    bench.cluster.fail("PUT", "trials", no_answer(), carried_out=True)
    assert (await bench.do(write)).status is ActionStatus.FAILED
    assert (await bench.do(write)).status is ActionStatus.FAILED
    assert bench.seen.bodies[0]["status"] == {"attempt": 1}


async def test_a_status_of_what_is_gone_needs_no_writing(bench: Bench) -> None:
    assert await bench.do(WriteTrialStatus("digits-0", "t-1", 5, TrialStatus())) == DONE
    assert await bench.do(WriteExperimentStatus(5, ExperimentStatus())) == DONE
    assert bench.seen.bodies == []
    assert bench.seen.statuses == []


async def test_an_experiments_status_is_written_like_a_trials(bench: Bench) -> None:
    version = int(bench.cluster.put(EXPERIMENTS, experiment_body())["metadata"]["resourceVersion"])
    status = ExperimentStatus(message="1 of 3 done")
    assert await bench.do(WriteExperimentStatus(version, status)) == DONE
    assert bench.cluster.get(f"{EXPERIMENTS}/digits")["status"]["message"] == "1 of 3 done"  # type: ignore[index]
    assert bench.seen.statuses == [("digits", str(version + 1), status)]
    bench.cluster.change(f"{EXPERIMENTS}/digits", lambda body: body["spec"].update(desiredState="Paused"))
    assert (await bench.do(WriteExperimentStatus(version + 1, status))).status is ActionStatus.FAILED
    assert bench.seen.bodies[-1]["spec"]["desiredState"] == "Paused"


# Deletions


async def test_only_the_pod_that_was_meant_is_deleted(bench: Bench) -> None:
    bench.cluster.put(PODS, pod_body(uid="new"))
    assert await bench.do(DeletePod("digits-0", "digits-0-1", "old")) == DONE
    assert bench.cluster.get(f"{PODS}/digits-0-1") is not None
    assert await bench.do(DeletePod("digits-0", "digits-0-1", "new")) == DONE
    assert bench.cluster.get(f"{PODS}/digits-0-1") is None
    assert await bench.do(DeletePod("digits-0", "digits-0-1", "new")) == DONE


async def test_a_conflict_does_not_pass_for_another_pod_of_the_name(bench: Bench) -> None:
    """Else a pod that was to be deleted would keep its GPUs: nobody would ask for it again."""
    bench.cluster.put(PODS, pod_body(uid="meant"))
    bench.cluster.fail("DELETE", "pods", refusal(409, "the object has been modified", "Conflict"))
    refused = await bench.do(DeletePod("digits-0", "digits-0-1", "meant"))
    assert refused.status is ActionStatus.FAILED
    assert await bench.do(DeletePod("digits-0", "digits-0-1", "meant")) == DONE
    assert bench.cluster.get(f"{PODS}/digits-0-1") is None


@pytest.mark.parametrize(("grace", "named"), [(None, {}), (30, {"gracePeriodSeconds": 30})])
async def test_a_pod_has_the_time_to_end_that_it_is_given(
    bench: Bench, grace: int | None, named: dict[str, int]
) -> None:
    bench.cluster.put(PODS, pod_body(uid="new"))
    await bench.do(DeletePod("digits-0", "digits-0-1", "new", grace))
    (deletion,) = [call for call in bench.cluster.calls if call.method == "DELETE"]
    assert deletion.body == {"preconditions": {"uid": "new"}, **named}


async def test_finished_pods_go_in_one_request(bench: Bench) -> None:
    for index in range(3):
        bench.cluster.put(PODS, pod_body(f"digits-{index}", uid=f"p-{index}", status={"phase": "Succeeded"}))
    bench.cluster.put(PODS, pod_body("digits-2", attempt=2, uid="p-4", status={"phase": "Running"}))
    foreign = pod_body("digits-0", attempt=3, uid="p-5", status={"phase": "Succeeded"})
    foreign["metadata"]["labels"]["podtune.dev/experiment"] = "another"
    bench.cluster.put(PODS, foreign)
    assert await bench.do(DeleteFinishedPods(("digits-0", "digits-2"))) == DONE
    left = {pod["metadata"]["name"]: pod["metadata"].get("deletionTimestamp") for pod in bench.cluster.all("pods")}
    assert left == {"digits-0-3": None, "digits-1-1": None, "digits-2-2": None}, "what runs, or is another's, stays"
    assert len(bench.cluster.writes("pods")) == 1


# Logs


async def test_the_programs_last_lines_and_the_agents_results_are_fetched(bench: Bench) -> None:
    bench.cluster.put(PODS, pod_body())
    bench.cluster.logs["digits-0-1/main"] = "".join(f"line {n}\n" for n in range(300))
    bench.cluster.logs["digits-0-1/podtune-agent"] = "podtune-result {}\nother\n"
    outcome = await bench.do(FetchLogs("digits-0", "digits-0-1", program="main", agent=True))
    assert outcome.logs.program_tail.splitlines() == [f"line {n}" for n in range(100, 300)]
    assert outcome.logs.agent_lines == ("podtune-result {}", "other")


async def test_a_line_without_end_is_not_kept_whole(bench: Bench) -> None:
    bench.cluster.put(PODS, pod_body())
    bench.cluster.logs["digits-0-1/main"] = "\r".join(f"{n}%" for n in range(100_000)) + " the end"
    outcome = await bench.do(FetchLogs("digits-0", "digits-0-1", program="main", agent=False))
    assert outcome.logs.program_tail.endswith("the end")
    assert len(outcome.logs.program_tail) <= 4096
    assert int(bench.cluster.calls[-1].params["limitBytes"]) < 1 << 24


@pytest.mark.parametrize(("code", "status"), [(404, "done"), (400, "done"), (403, "done"), (502, "failed")])
async def test_logs_that_are_gone_are_not_waited_for(bench: Bench, code: int, status: str) -> None:
    bench.cluster.fail("GET", "/log$", refusal(code, "container main is not available"))
    outcome = await bench.do(FetchLogs("digits-0", "digits-0-1", program="main", agent=False))
    assert outcome.status == status


# Events


async def event(bench: Bench, action: EmitEvent) -> dict[str, Any]:
    assert await bench.do(action) == DONE
    body = bench.cluster.calls[-1].body
    assert body is not None
    return body


async def test_an_event_has_all_that_the_api_server_wants(bench: Bench) -> None:
    body = await event(bench, EmitEvent("digits-0", "OOMKilled", "out of memory", warning=True))
    assert body["metadata"]["namespace"] == body["regarding"]["namespace"] == NAMESPACE
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", body["eventTime"])
    assert (body["reportingController"], body["reportingInstance"]) == ("podtune.dev/operator", "operator-1")
    assert (body["type"], body["reason"], body["note"]) == ("Warning", "OOMKilled", "out of memory")
    assert body["action"]


async def test_describe_finds_events_of_both_kinds_by_their_uids(bench: Bench) -> None:
    assert (await event(bench, EmitEvent("digits-0", "A", "a")))["regarding"]["uid"] == "uid-of-digits-0"
    assert (await event(bench, EmitEvent("", "A", "a")))["regarding"]["uid"] == "e-1"


@pytest.mark.parametrize("message", ["x" * 1024, "x" * 1025, "é" * 600, "x" * 1022 + "日本", "🧪" * 1000])
async def test_a_note_fits_into_1024_bytes(bench: Bench, message: str) -> None:
    note = (await event(bench, EmitEvent("", "A", message)))["note"]
    assert len(note.encode()) <= 1024
    assert note == message or (note.endswith("…") and message.startswith(note[:-1]) and len(note.encode()) > 1015)


async def test_what_is_left_in_a_bucket_is_told_in_the_operators_own_namespace_too(bench: Bench) -> None:
    """The Experiment's namespace is going, and takes no Events."""
    bench.cluster.fail("POST", f"/namespaces/{NAMESPACE}/events$", refusal(403, "it is being terminated"))
    action = EmitEvent("", "CheckpointsLeft", "left at s3://b/u/", warning=True, left_at="s3://b/u/")
    assert (await bench.do(action)).status is ActionStatus.FAILED
    (body,) = [call.body for call in bench.cluster.calls if "/namespaces/podtune-system/events" in call.path]
    assert body is not None
    assert body["metadata"]["namespace"] == body["regarding"]["namespace"] == "podtune-system"
    assert (body["regarding"]["kind"], body["regarding"]["name"]) == ("Lease", "podtune-operator")
    assert (body["related"]["namespace"], body["related"]["name"]) == (NAMESPACE, "digits")
    assert (body["type"], body["note"]) == ("Warning", f"Experiment {NAMESPACE}/digits: left at s3://b/u/")


async def test_it_is_told_in_the_experiments_namespace_though_the_operators_own_takes_no_events(bench: Bench) -> None:
    bench.cluster.fail("POST", "/namespaces/podtune-system/events$", refusal(403, "no right"))
    action = EmitEvent("", "CheckpointsLeft", "left at s3://b/u/", warning=True, left_at="s3://b/u/")
    assert (await bench.do(action)).status is ActionStatus.FAILED
    assert f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events" in [call.path for call in bench.cluster.calls]


def restart(bench: Bench, instance: str, time: str) -> Executor:
    """Another operator on the same cluster."""
    reporter = Reporter(
        instance, lambda: time, lambda _, trial: f"uid-of-{trial}", "podtune-system", "podtune-operator"
    )
    return Executor(bench.cluster, bench.seen, AgentSettings("agent:1", "Always", "http://r"), reporter)


async def test_what_happens_again_is_counted_in_the_same_event_by_the_next_operator_too(bench: Bench) -> None:
    action = EmitEvent("", "StorageWorkFailed", "export failed after 3 tries: AccessDenied", warning=True)
    for number, instance in enumerate(["operator-1", "operator-1", "operator-2", "operator-2"]):
        executor = restart(bench, instance, f"2024-05-01T12:00:0{number}.000000Z")
        assert await executor.execute(experiment_record(), action) == DONE
    (made,) = bench.cluster.all("events")
    assert made["series"] == {"count": 4, "lastObservedTime": "2024-05-01T12:00:03.000000Z"}
    assert (made["eventTime"], made["reportingInstance"]) == ("2024-05-01T12:00:00.000000Z", "operator-1")


@pytest.mark.parametrize(
    "other",
    [
        EmitEvent("digits-1", "OOMKilled", "out of memory", warning=True),
        EmitEvent("", "OOMKilled", "out of memory", warning=True),
        EmitEvent("digits-0", "Evicted", "out of memory", warning=True),
        EmitEvent("digits-0", "OOMKilled", "out of memory again", warning=True),
        EmitEvent("digits-0", "OOMKilled", "out of memory"),
    ],
)
async def test_events_that_say_something_else_are_others(bench: Bench, other: EmitEvent) -> None:
    await bench.do(EmitEvent("digits-0", "OOMKilled", "out of memory", warning=True))
    assert await bench.do(other) == DONE
    assert len(bench.cluster.all("events")) == 2


async def test_an_event_whose_answer_is_lost_is_not_counted_twice(bench: Bench) -> None:
    """The client has sent it twice then, and the second answer is that it is there."""
    executor = restart(bench, "operator-1", "2024-05-01T12:00:00.000000Z")
    for _ in range(2):
        assert await executor.execute(experiment_record(), EmitEvent("", "A", "a")) == DONE
    (made,) = bench.cluster.all("events")
    assert "series" not in made


async def test_an_event_that_has_just_expired_is_made_anew(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    request = bench.cluster.request

    async def expire(method: Any, path: str, **options: Any) -> Manifest:
        if method == "PATCH":
            bench.cluster.remove(path)
        return await request(method, path, **options)

    await bench.do(EmitEvent("", "A", "a"))
    monkeypatch.setattr(bench.cluster, "request", expire)
    assert (
        await restart(bench, "operator-2", "2024-05-01T13:00:00.000000Z").execute(
            experiment_record(), EmitEvent("", "A", "a")
        )
        == DONE
    )
    (made,) = bench.cluster.all("events")
    assert (made["eventTime"], made.get("series")) == ("2024-05-01T13:00:00.000000Z", None)


async def test_other_events_are_in_the_experiments_namespace_alone(bench: Bench) -> None:
    await event(bench, EmitEvent("", "A", "a", warning=True))
    assert [call.path for call in bench.cluster.calls if "/events" in call.path] == [
        f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
    ]


# The Experiment's metadata


async def test_finalizers_are_written_onto_the_version_that_they_were_made_for(bench: Bench) -> None:
    bench.cluster.put(f"{EXPERIMENTS}/digits", experiment_body())
    version = int(bench.cluster.get(f"{EXPERIMENTS}/digits")["metadata"]["resourceVersion"])  # type: ignore[index]
    assert await bench.do(WriteMetadata(version, ("podtune.dev/checkpoints",))) == DONE
    assert bench.cluster.get(f"{EXPERIMENTS}/digits")["metadata"]["finalizers"] == ["podtune.dev/checkpoints"]  # type: ignore[index]
    stale = await bench.do(WriteMetadata(version, ()))
    assert stale.status is ActionStatus.FAILED
    assert bench.seen.bodies[-1]["metadata"]["finalizers"] == ["podtune.dev/checkpoints"]


async def test_one_that_is_gone_needs_no_finalizers(bench: Bench) -> None:
    assert await bench.do(WriteMetadata(1, ())) == DONE
