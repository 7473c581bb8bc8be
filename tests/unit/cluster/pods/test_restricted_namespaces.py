"""Pods that say nothing of root are made where Pod Security lets none run as root, and everywhere else as they are."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
import structlog.testing

from podtune.api.names import ExperimentReason
from podtune.api.resources.trial import TrialSpec
from podtune.cluster.pods import restricted_namespaces
from podtune.cluster.pods.restricted_namespaces import RESTRICTED_SECONDS, RestrictedNamespaces
from podtune.kube.errors import ApiRefusal
from podtune.kube.manifests import Manifest
from podtune.runner.actions import DONE, ActionResult, ActionStatus, CreatePod, TryPod
from tests.unit.cluster.fake_client import Call, refusal
from tests.unit.cluster.objects import NAMESPACE, REVISION, experiment_record
from tests.unit.cluster.test_executor import Bench

SPEC = TrialSpec(experiment="digits", index=0, parameters={"lr": "0.01", "units": "32"})
CREATE = CreatePod("digits-0", "t-1", 1, SPEC, restore=(), iteration=0, revision=REVISION)
MAIN: Manifest = {"name": "main", "image": "i"}


def enforce_restricted(call: Call) -> None:
    """Refuses pods as Pod Security "restricted" does, in its words, for what is about root."""
    if call.method != "POST" or not call.path.endswith("/pods"):
        return
    assert call.body is not None
    spec, problems = call.body["spec"], []
    pod = spec.get("securityContext") or {}
    if pod.get("runAsNonRoot") is False:
        problems.append("pod must not set securityContext.runAsNonRoot=false")
    for container in [*spec["initContainers"], *spec["containers"]]:
        own = (container.get("securityContext") or {}).get("runAsNonRoot")
        if own is False:
            problems.append(f'container "{container["name"]}" must not set securityContext.runAsNonRoot=false')
        elif own is None and pod.get("runAsNonRoot") is None:
            problems.append(f'pod or container "{container["name"]}" must set securityContext.runAsNonRoot=true')
    words = [f"runAsNonRoot != true ({'; '.join(problems)})"] if problems else []
    if pod.get("runAsUser") == 0:
        words.append("runAsUser=0 (pod must not set runAsUser=0)")
    if words:
        name = call.body["metadata"]["name"]
        raise refusal(403, f'pods "{name}" is forbidden: violates PodSecurity "restricted:latest": {", ".join(words)}')


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.cluster.before = enforce_restricted
    return bench


async def create(bench: Bench, action: CreatePod = CREATE, **template: Any) -> ActionResult:
    experiment = experiment_record(trialTemplate={"spec": {"containers": [MAIN]}, **template})
    assert experiment.spec is not None
    made = replace(action, revision=experiment.spec.template_revision)
    return await bench.executor.execute(experiment, made)


def sent(bench: Bench) -> list[bool | None]:
    """What the pods that were sent said of root, one after the other."""
    bodies = [call.body for call in bench.cluster.writes("pods") if call.body is not None]
    return [body["spec"]["securityContext"].get("runAsNonRoot") for body in bodies]


async def test_a_pod_that_says_nothing_of_root_is_made_at_once_and_may_not_run_as_root(bench: Bench) -> None:
    assert await create(bench) == DONE
    assert sent(bench) == [None, True]
    (made,) = bench.cluster.all("pods")
    assert made["spec"]["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}, "runAsNonRoot": True}
    assert "runAsNonRoot" not in made["spec"]["containers"][0]["securityContext"]
    assert [body["spec"]["securityContext"] for body in bench.seen.bodies] == [made["spec"]["securityContext"]]
    assert [body["metadata"]["uid"] for body in bench.seen.bodies] == [made["metadata"]["uid"]]


async def test_elsewhere_it_is_made_as_it_is() -> None:
    bench = Bench()
    assert await create(bench) == DONE
    assert sent(bench) == [None]


async def test_later_pods_there_begin_with_it(bench: Bench) -> None:
    assert await create(bench) == DONE
    assert await create(bench, replace(CREATE, trial="digits-1", trial_uid="t-2")) == DONE
    assert sent(bench) == [None, True, True]


async def test_all_that_are_made_side_by_side_are_made(bench: Bench) -> None:
    actions = [replace(CREATE, trial=f"digits-{index}", trial_uid=f"t-{index}") for index in range(4)]
    assert await asyncio.gather(*(create(bench, action) for action in actions)) == [DONE] * 4
    assert len(bench.cluster.all("pods")) == 4


async def test_all_pods_of_a_gang_are_made(bench: Bench) -> None:
    assert await create(bench, replace(CREATE, replicas=3), replicas=3) == DONE
    pods = bench.cluster.all("pods")
    assert [pod["spec"]["securityContext"]["runAsNonRoot"] for pod in pods] == [True] * 3
    assert sent(bench) == [None, True, True, True]
    leader = pods[0]["metadata"]["uid"]
    for pod in pods[1:]:
        (agent,) = pod["spec"]["initContainers"]
        assert {"name": "PODTUNE_ATTEMPT_ID", "value": leader} in agent["env"]


async def test_a_gang_whose_roles_differ_keeps_what_each_says(bench: Bench) -> None:
    explicit = {"spec": {"securityContext": {"runAsNonRoot": True, "runAsUser": 7}, "containers": [MAIN]}}
    silent = {"spec": {"containers": [MAIN]}}
    roles = [{"name": "driver", "template": explicit}, {"name": "worker", "template": silent}]
    experiment = experiment_record(trialTemplate={"roles": roles})
    assert experiment.spec is not None
    action = replace(CREATE, replicas=2, revision=experiment.spec.template_revision)
    assert await bench.executor.execute(experiment, action) == DONE
    assert sent(bench) == [True, None, True]


async def test_a_warm_pod_is_made(bench: Bench) -> None:
    assert await create(bench, replace(CREATE, template_hash="h")) == DONE
    assert sent(bench) == [None, True]


async def test_what_a_template_says_of_its_pods_stands_and_is_refused_in_words(bench: Bench) -> None:
    spec = {"securityContext": {"runAsNonRoot": False}, "containers": [MAIN]}
    outcome = await create(bench, spec=spec)
    assert (outcome.status, outcome.reason) == (ActionStatus.REFUSED, ExperimentReason.POD_REFUSED)
    assert "pod must not set securityContext.runAsNonRoot=false" in outcome.message
    assert sent(bench) == [False]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"containers": [MAIN | {"securityContext": {"runAsNonRoot": False}}, {"name": "other", "image": "i"}]},
            'container "main" must not set securityContext.runAsNonRoot=false',
        ),
        ({"containers": [MAIN], "securityContext": {"runAsUser": 0}}, "runAsUser=0 (pod must not set runAsUser=0)"),
    ],
)
async def test_what_is_refused_again_is_told_in_the_words_of_the_second_refusal(
    bench: Bench, spec: Manifest, words: str
) -> None:
    for asked in (CREATE, TryPod(CREATE)):
        experiment = experiment_record(trialTemplate={"spec": spec})
        assert experiment.spec is not None
        creation = replace(CREATE, revision=experiment.spec.template_revision)
        action = creation if asked is CREATE else TryPod(creation)
        outcome = await bench.executor.execute(experiment, action)
        assert (outcome.status, outcome.reason) == (ActionStatus.REFUSED, ExperimentReason.POD_REFUSED)
        assert words in outcome.message
        assert "must set securityContext.runAsNonRoot=true" not in outcome.message
    assert sent(bench) == [None, True] * 2, "a namespace is remembered for what it has taken"
    assert bench.cluster.all("pods") == []


async def test_a_second_request_that_fails_for_the_moment_is_no_refusal(bench: Bench) -> None:
    words = 'pods "digits-0-1" is forbidden: exceeded quota: gpus'
    bench.cluster.fail("POST", "pods", refusal(403, words))  # what is refused before is not carried out
    assert await create(bench) == ActionResult(ActionStatus.FAILED, words)
    assert await create(bench) == DONE


async def test_a_dry_run_passes_as_the_pod_itself_would(bench: Bench) -> None:
    """As of an experiment that an operator of an earlier release has held."""
    experiment = experiment_record()
    assert await bench.executor.execute(experiment, TryPod(CREATE)) == DONE
    assert bench.cluster.all("pods") == []
    assert await bench.executor.execute(experiment, CREATE) == DONE
    assert sent(bench) == [None, True, True]


async def test_another_refusal_by_pod_security_is_not_answered(bench: Bench) -> None:
    words = 'pods "digits-0-1" is forbidden: violates PodSecurity "baseline:latest": hostPort (container uses 80)'
    bench.cluster.before = lambda call: None
    bench.cluster.fail("POST", "pods", refusal(403, words))
    assert (await create(bench)).message == words
    assert sent(bench) == [None]


# What is remembered


class Restricted:
    """A namespace in which no pod may run as root, until it is relaxed."""

    def __init__(self) -> None:
        self.now = 100.0
        self.is_restricted = True
        self.sent: list[bool] = []
        self.namespaces = RestrictedNamespaces(lambda: self.now)

    async def _request(self, pod: Manifest) -> str:
        self.sent.append("runAsNonRoot" in pod["spec"].get("securityContext", {}))
        if self.is_restricted and not self.sent[-1]:
            raise refusal(403, 'violates PodSecurity "restricted:latest": runAsNonRoot != true (pod must set it)')
        return "made"

    async def send(self, namespace: str = NAMESPACE) -> list[bool]:
        self.sent.clear()
        assert await self.namespaces.send(namespace, {"spec": {"containers": [MAIN]}}, self._request) == "made"
        return list(self.sent)


async def test_a_namespace_that_was_relaxed_takes_root_again_after_a_while() -> None:
    restricted = Restricted()
    assert await restricted.send() == [False, True]
    restricted.is_restricted = False
    restricted.now += RESTRICTED_SECONDS - 1
    assert await restricted.send() == [True]
    restricted.now += 1
    assert await restricted.send() == [False]


async def test_a_namespace_that_stays_restricted_is_told_of_once() -> None:
    restricted = Restricted()
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            assert await restricted.send() == [False, True]
            assert await restricted.send() == [True]
            restricted.now += RESTRICTED_SECONDS
    assert logs == [{"event": "pods get runAsNonRoot", "log_level": "info", "namespace": NAMESPACE}]


async def test_namespaces_are_not_mixed_up_and_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restricted_namespaces, "MAX_RESTRICTED", 2)
    restricted = Restricted()
    for name in ("a", "b", "c"):
        assert await restricted.send(name) == [False, True]
    assert await restricted.send("b") == await restricted.send("c") == [True]
    assert await restricted.send("a") == [False, True], "it was forgotten"


async def test_a_pod_that_is_refused_both_times_leaves_nothing_behind() -> None:
    restricted = Restricted()

    async def refuse(pod: Manifest) -> str:
        raise refusal(403, 'violates PodSecurity "restricted:latest": runAsNonRoot != true (container must not)')

    with pytest.raises(ApiRefusal):
        await restricted.namespaces.send(NAMESPACE, {"spec": {"containers": [MAIN]}}, refuse)
    assert await restricted.send() == [False, True]
