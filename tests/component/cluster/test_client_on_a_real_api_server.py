"""What the client relies on is what a real API server does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from podtune.api.names import ExperimentReason
from podtune.api.resources.trial import Checkpoint, TrialSpec
from podtune.cluster.client import KubernetesClient, list_pages
from podtune.cluster.decoders import decode_experiment
from podtune.cluster.events import Reporter, make_event
from podtune.cluster.executor import Executor
from podtune.cluster.pods.manifest import AgentSettings, make_pod
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal, NotLeading, ResourceConflict, ResourceExists, ResourceNotFound
from podtune.kube.manifests import Manifest
from podtune.runner.actions import DONE, ActionStatus, CreatePod, DeletePod, EmitEvent, FetchLogs, TryPod
from podtune.runner.records import Experiment
from tests.component.cluster.conftest import IMAGE, RESTRICTED, wait_for
from tests.unit.cluster.objects import REVISION, experiment_body, experiment_record

pytestmark = pytest.mark.cluster

AGENT = AgentSettings(IMAGE, "IfNotPresent", "http://podtune-results.nowhere.svc:8080")


def config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


async def refused(client: KubernetesClient, *args: Any, **kwargs: Any) -> ApiRefusal:
    with pytest.raises(ApiRefusal) as caught:
        await client.request(*args, **kwargs)
    return caught.value


async def until_refused(client: KubernetesClient, *args: Any, **kwargs: Any) -> ApiRefusal:
    """Asks for the same until it is refused: the API server's parts hear of an object one after the other."""
    async with asyncio.timeout(60):
        while True:
            try:
                await client.request(*args, **kwargs)
            except ApiRefusal as refusal:
                return refusal
            await asyncio.sleep(0.05)


# Requests


async def test_an_object_is_made_once_changed_on_its_version_and_deleted_once(
    client: KubernetesClient, namespace: str
) -> None:
    path, body = config_maps(namespace), {"metadata": {"name": "one"}, "data": {"a": "1"}}
    made = await client.request("POST", path, body=body)
    assert isinstance(await refused(client, "POST", path, body=body), ResourceExists)

    version = made["metadata"]["resourceVersion"]
    other = {"metadata": {"name": "one", "resourceVersion": version}, "data": {"a": "2"}}
    params = {"fieldManager": "podtune"}
    changed = await client.request("PUT", f"{path}/one", params=params, body=other)
    assert changed["data"] == {"a": "2"}
    again = await refused(client, "PUT", f"{path}/one", params=params, body=other)
    assert isinstance(again, ResourceConflict)

    wrong = {"preconditions": {"uid": "another"}}
    assert isinstance(await refused(client, "DELETE", f"{path}/one", body=wrong), ResourceConflict)
    right = {"preconditions": {"uid": made["metadata"]["uid"]}}
    await client.request("DELETE", f"{path}/one", body=right)
    assert isinstance(await refused(client, "DELETE", f"{path}/one", body=right), ResourceNotFound)


async def test_a_long_list_comes_in_pages(
    client: KubernetesClient, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podtune.cluster.client.PAGE", 3)
    for n in range(8):
        body = {"metadata": {"name": f"page-{n}", "labels": {"pages": "yes"}}}
        await client.request("POST", config_maps(namespace), body=body)
    pages = [page["items"] async for page in list_pages(client, config_maps(namespace), {"labelSelector": "pages=yes"})]
    assert [len(page) for page in pages] == [3, 3, 2]
    assert len({item["metadata"]["name"] for page in pages for item in page}) == 8


async def test_an_ending_namespace_says_so(client: KubernetesClient) -> None:
    name = "podtune-component-ending"
    finalized = {"metadata": {"name": "holds", "finalizers": ["podtune.dev/test"]}}
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
    await client.request("POST", config_maps(name), body=finalized)
    await client.request("DELETE", f"/api/v1/namespaces/{name}")
    try:
        refusal = await refused(client, "POST", config_maps(name), body={"metadata": {"name": "late"}})
        assert refusal.is_namespace_ending
    finally:
        release = {"metadata": {"finalizers": None}}
        path = f"{config_maps(name)}/holds"
        await client.request("PATCH", path, body=release, content_type="application/merge-patch+json")


async def test_a_quota_that_is_used_up_says_so(client: KubernetesClient, namespace: str) -> None:
    quota = {"metadata": {"name": "full"}, "spec": {"hard": {"count/secrets": "0"}}}
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    await client.request("POST", path, body=quota)
    path, secret = f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "one-too-many"}}
    refusal = await until_refused(client, "POST", path, params={"dryRun": "All"}, body=secret)
    assert refusal.is_over_quota


async def test_a_lack_of_rights_says_so(client: KubernetesClient, namespace: str) -> None:
    class Stranger:
        """The same connection, as a service account without rights."""

        def __init__(self) -> None:
            self._send = client._connection.send

        async def send(self, *args: Any, headers: dict[str, str], **kwargs: Any) -> bytes:
            user = f"system:serviceaccount:{namespace}:default"
            return await self._send(*args, headers=headers | {"Impersonate-User": user}, **kwargs)

    stranger = KubernetesClient(Stranger(), client._rng)  # type: ignore[arg-type]
    refusal = await refused(stranger, "POST", paths.pods(namespace), body={"metadata": {"name": "no"}})
    assert refusal.is_lack_of_rights, refusal


async def test_who_does_not_lead_writes_nothing(client: KubernetesClient, namespace: str) -> None:
    with pytest.raises(NotLeading):
        await client.guard_writes(lambda: False).request(
            "POST", config_maps(namespace), body={"metadata": {"name": "never"}}
        )
    assert isinstance(await refused(client, "GET", f"{config_maps(namespace)}/never"), ResourceNotFound)


# Logs


async def test_a_log_is_followed_until_its_container_ends(
    client: KubernetesClient, namespace: str, pod: Callable[[str, str], Any]
) -> None:
    await pod("talks", "echo one; sleep 2; echo two")
    params = {"container": "main", "follow": "true", "timestamps": "true"}
    lines = b""
    async with (
        asyncio.timeout(30),
        aclosing(client.stream(f"{paths.pods(namespace)}/talks/log", params=params)) as chunks,
    ):
        assert await anext(chunks) == b""
        async for chunk in chunks:
            lines += chunk
    assert [line.split()[1] for line in lines.splitlines()] == [b"one", b"two"]


async def test_last_lines_are_fetched_and_a_log_that_is_not_there_is_empty(
    client: KubernetesClient, namespace: str, pod: Callable[[str, str], Any]
) -> None:
    await pod("counts", "for n in $(seq 300); do echo $n; done; sleep 100")
    await asyncio.sleep(1)
    executor, experiment = Executor(client, Ignores(), AGENT, reporter()), record(namespace)
    outcome = await executor.execute(experiment, FetchLogs("digits-0", "counts", program="main", agent=True))
    assert outcome.logs.program_tail.split() == [str(n) for n in range(101, 301)]
    assert outcome.logs.agent_lines == ()
    outcome = await executor.execute(experiment, FetchLogs("digits-0", "gone", program="main", agent=True))
    assert outcome.status is ActionStatus.DONE


# Trials' pods and Events


class Ignores:
    """An observer that looks away."""

    def observe_experiment(self, body: Manifest) -> None:
        pass

    observe_trial = observe_pod = observe_experiment

    def observe_experiment_status(self, metadata: Manifest, status: object) -> None:
        pass

    observe_trial_status = observe_experiment_status


class Remembers(Ignores):
    """An observer that remembers the pods that were made: what belongs to no Trial is soon collected."""

    def __init__(self) -> None:
        self.pods: list[Manifest] = []

    def observe_pod(self, body: Manifest) -> None:
        self.pods.append(body)


def reporter() -> Reporter:
    return Reporter("component-test", lambda: "2024-05-01T12:00:00.000000Z", lambda *_: "t-1")


def record(namespace: str, **spec: Any) -> Experiment:
    body = experiment_body(**spec)
    body["metadata"]["namespace"] = namespace
    return decode_experiment(body)


STORE = {"bucket": "podtune", "endpoint": "http://s3:9000", "credentialsSecret": "podtune-s3"}
CHECKPOINT = Checkpoint(step=1, uri="s3://podtune/1", digest="sha256:0")
SPEC = TrialSpec(experiment="digits", index=0, parameters={"lr": "0.01", "units": "32"})
CREATE = CreatePod("digits-0", "t-1", 1, SPEC, restore=(CHECKPOINT,), iteration=1, revision=REVISION)
TEMPLATES: dict[str, Manifest] = {
    "small": {"containers": [{"name": "main", "image": IMAGE, "securityContext": RESTRICTED}]},
    "with everything": {
        "terminationGracePeriodSeconds": 7,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000},
        "volumes": [{"name": "data", "emptyDir": {}}],
        "initContainers": [
            {"name": "fetch", "image": IMAGE, "securityContext": RESTRICTED},
            {"name": "proxy", "image": IMAGE, "restartPolicy": "Always", "securityContext": RESTRICTED},
        ],
        "containers": [
            {
                "name": "trial",
                "image": IMAGE,
                "args": ["--lr=$(PODTUNE_PARAM_lr)"],
                "env": [{"name": "A", "value": "$(PODTUNE_PARAM_units)"}],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                "securityContext": RESTRICTED,
            },
            {"name": "other", "image": IMAGE, "securityContext": RESTRICTED},
        ],
    },
}


@pytest.mark.parametrize("name", TEMPLATES)
async def test_a_trials_pod_is_taken_where_pod_security_is_restricted(
    client: KubernetesClient, namespace: str, name: str
) -> None:
    experiment = record(namespace, trialTemplate={"spec": TEMPLATES[name]}, checkpoints={"store": STORE})
    body = make_pod(experiment, CREATE, AGENT)
    params = {"dryRun": "All", "fieldValidation": "Strict"}
    made = await client.request("POST", paths.pods(namespace), params=params, body=body)
    names = [container["name"] for container in made["spec"]["initContainers"]]
    assert names[:2] == ["podtune-restore", "podtune-agent"]


@pytest.mark.parametrize("template_hash", ["", "h"], ids=["pod", "warm pod"])
async def test_a_template_that_says_nothing_of_root_is_made_so_that_it_may_not_run_as_root(
    client: KubernetesClient, namespace: str, template_hash: str
) -> None:
    seen = Remembers()
    executor = Executor(client, seen, AGENT, reporter())
    silent = replace(CREATE, trial=f"silent{template_hash}-0", restore=(), template_hash=template_hash)
    assert await executor.execute(record(namespace), TryPod(silent)) == DONE
    assert await executor.execute(record(namespace), silent) == DONE
    (made,) = seen.pods
    assert made["metadata"]["name"] == silent.name
    assert made["spec"]["securityContext"]["runAsNonRoot"] is True
    assert "runAsNonRoot" not in made["spec"]["containers"][0]["securityContext"]


async def test_a_gang_that_says_nothing_of_root_is_made_too(client: KubernetesClient, namespace: str) -> None:
    seen = Remembers()
    spec = {"containers": [{"name": "main", "image": IMAGE}]}
    experiment = record(namespace, trialTemplate={"spec": spec, "replicas": 2})
    assert experiment.spec is not None
    revision = experiment.spec.template_revision
    gang = replace(CREATE, trial="silent-1", restore=(), replicas=2, revision=revision)
    assert await Executor(client, seen, AGENT, reporter()).execute(experiment, gang) == DONE
    assert [pod["metadata"]["name"] for pod in seen.pods] == [gang.format_name(rank) for rank in range(2)]
    assert [pod["spec"]["securityContext"]["runAsNonRoot"] for pod in seen.pods] == [True, True]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"runAsNonRoot": False}, "must not set securityContext.runAsNonRoot=false"),
        ({"runAsUser": 0}, "must not set runAsUser=0"),
    ],
)
async def test_a_template_that_lets_programs_run_as_root_is_refused_with_the_reason(
    client: KubernetesClient, namespace: str, said: Manifest, words: str
) -> None:
    executor = Executor(client, Ignores(), AGENT, reporter())
    spec = {"containers": [{"name": "main", "image": IMAGE}], "securityContext": said}
    experiment = record(namespace, trialTemplate={"spec": spec})
    assert experiment.spec is not None
    action = replace(CREATE, restore=(), revision=experiment.spec.template_revision)
    outcome = await executor.execute(experiment, action)
    assert (outcome.status, outcome.reason) == (ActionStatus.REFUSED, ExperimentReason.POD_REFUSED)
    assert "violates PodSecurity" in outcome.message
    assert words in outcome.message
    assert "podtune-agent" not in outcome.message  # what we add to it is restricted


async def test_parameters_and_shared_files_reach_the_program(client: KubernetesClient, namespace: str) -> None:
    command = "cat /podtune/parameters.json && echo $PODTUNE_PARAM_lr && touch /podtune/results.jsonl && sleep 100"
    container = {"name": "main", "image": IMAGE, "command": ["sh", "-c", command], "securityContext": RESTRICTED}
    experiment = record(namespace, trialTemplate={"spec": {"containers": [container]}})
    body = make_pod(experiment, CREATE, AGENT)
    agent = body["spec"]["initContainers"][0]
    agent |= {"command": ["sleep", "1000"], "args": []}  # the image is not the agent's
    del body["metadata"]["ownerReferences"]  # there is no such Trial
    await client.request("POST", paths.pods(namespace), body=body)
    path = f"{paths.pods(namespace)}/digits-0-1"
    await wait_for(client, path, lambda body: body["status"]["phase"] == "Running")
    log, params = b"", {"container": "main", "follow": "true"}
    async with asyncio.timeout(20), aclosing(client.stream(f"{path}/log", params=params)) as chunks:
        while not log.endswith(b"\n"):
            log += await anext(chunks)
    assert log == b'{"lr": 0.01, "units": 32}0.01\n'
    uid = (await client.request("GET", path))["metadata"]["uid"]
    executor = Executor(client, Ignores(), AGENT, reporter())
    assert await executor.execute(experiment, DeletePod("digits-0", "digits-0-1", "another")) == DONE
    assert "deletionTimestamp" not in (await client.request("GET", path))["metadata"]
    assert await executor.execute(experiment, DeletePod("digits-0", "digits-0-1", uid)) == DONE


@pytest.mark.parametrize("message", ["short", "é" * 2000])
@pytest.mark.parametrize("trial", ["", "digits-0"])
async def test_an_event_is_taken(client: KubernetesClient, namespace: str, trial: str, message: str) -> None:
    experiment = record(namespace)
    body = make_event(experiment, EmitEvent(trial, "Tested", message, warning=True), reporter())
    made = await client.request("POST", paths.events(namespace), body=body)
    assert made["note"][:5] == message[:5]
    assert made["regarding"]["uid"] == ("t-1" if trial else "e-1")


async def test_an_event_that_comes_again_is_counted_by_the_next_operator_too(
    client: KubernetesClient, namespace: str
) -> None:
    """Kubernetes lets an Event's series change, and little else."""
    action = EmitEvent("digits-0", "Tested", "the same", warning=True)
    for number, instance in enumerate(["one", "one", "another"]):
        now = f"2024-05-01T12:00:0{number}.000000Z"
        told = Reporter(instance, lambda now=now: now, lambda *_: "t-1")  # type: ignore[misc]
        assert await Executor(client, Ignores(), AGENT, told).execute(record(namespace), action) == DONE
    events = (await client.request("GET", paths.events(namespace)))["items"]
    (made,) = (event for event in events if event["note"] == "the same")
    assert made["series"] == {"count": 3, "lastObservedTime": "2024-05-01T12:00:02.000000Z"}
    assert (made["eventTime"], made["reportingInstance"]) == ("2024-05-01T12:00:00.000000Z", "one")


def test_the_experiment_of_these_tests_is_a_good_one() -> None:
    assert experiment_record().spec is not None
