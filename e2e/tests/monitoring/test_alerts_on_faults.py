"""Alerts fire at what goes wrong with operators, trials, stores and receivers; dashboards have something to show."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.tests.monitoring.dashboard_queries import list_unanswered
from e2e.tests.monitoring.scene import NAMESPACE, Scene, make_agents_token, make_experiment
from podtune.api.names import FINALIZER
from podtune.cli.client.api_client import HttpApi
from podtune.kube import paths
from podtune.kube.manifests import Manifest
from podtune.protocol.messages import Report, Result, StoreProblem
from podtune.runner.records import ContainerEnd
from podtune.simulation.faults import COMPLETED, CRASHED
from tests.component.operator_process import LEASE
from tests.component.webhooks.hand_written_pods import HandWrittenPods

pytestmark = [pytest.mark.cluster, pytest.mark.long]

JUST_STARTED = "time() - process_start_time_seconds < 30 and time() - timestamp(process_start_time_seconds) < 2"
"""Prometheus has seen a process that has begun."""
CRASHES = 20
UNFIT = 10
"""Trials of an experiment whose rule of failures says which of their ends a node is to blame for."""
ON_A_BAD_NODE = 8
"""So many of them are on one: of two nodes, one may be avoided."""
STORE = {"store": {"bucket": "checkpoints", "credentialsSecret": "none"}}
AWAY = StoreProblem("Unreachable", "the bucket does not answer", permanent=False)
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def break_admission(api: HttpApi, experiment: str) -> None:
    """An admission webhook that does not answer is asked about each pod of an experiment."""
    hook: dict[str, Any] = {
        "name": "broken.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "objectSelector": {"matchLabels": {"podtune.dev/experiment": experiment}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    api.create(WEBHOOKS, {"metadata": {"name": "broken"}, "webhooks": [hook]})


def list_experiments() -> list[Manifest]:
    """Each has another fault."""
    rules = [{"exitCodes": [7], "action": "ExcludeNode"}]
    unfit = {"maxFailures": 0, "maxInfrastructureFailures": 0, "avoidNodeAfter": 3, "rules": rules}
    stuck = make_experiment("stuck", 1, "admin", checkpoints=STORE | {"deletionPolicy": "Delete"})
    stuck["metadata"]["finalizers"] = [FINALIZER]
    return [
        stuck,
        make_experiment("blocked", 3),
        make_experiment("crashing", CRASHES),
        make_experiment("unfit", UNFIT, failures=unfit),
        make_experiment("unstored", 1, checkpoints=STORE),
        make_experiment("unpruned", 1, checkpoints=STORE),
    ]


class Programs:
    """The programs of all trials, and what becomes of them."""

    def __init__(self, api: HttpApi) -> None:
        self._api = api
        self._pods = HandWrittenPods(api, NAMESPACE, "")
        self._ends = {f"crashing-{index}": CRASHED for index in range(CRASHES)}
        unfit = [f"unfit-{index}" for index in range(UNFIT)]
        self._nodes = {trial: "bad" if index < ON_A_BAD_NODE else "good" for index, trial in enumerate(unfit)}
        broken = ContainerEnd("trial", 7, "Error")
        self._ends |= {trial: broken if node == "bad" else COMPLETED for trial, node in self._nodes.items()}
        self._ends["unpruned-0"] = COMPLETED

    def end_all(self) -> bool:
        """Whether all that are to end have ended, and those that are to run do."""
        there = {pod["metadata"]["name"] for pod in self._api.list_all(paths.pods(NAMESPACE))}
        for trial in (*self._ends, "unstored-0"):
            if f"{trial}-1" in there and trial not in self._pods.started:
                if trial in self._nodes:
                    bound = {"metadata": {"name": f"{trial}-1"}, "target": {"kind": "Node", "name": self._nodes[trial]}}
                    self._api.create(f"{paths.pod(NAMESPACE, f'{trial}-1')}/binding", bound)
                self._pods.run(trial)
                if trial in self._ends:
                    self._pods.end(trial, 0.5, end=self._ends[trial])
        return set(self._pods.started) >= {*self._ends, "unstored-0"}

    async def fail_to_prune(self) -> None:
        """Each storage pod finds that the bucket does not answer."""
        while True:
            await asyncio.to_thread(self._pods.prune, ok=False)
            await asyncio.sleep(0.5)

    def list_started(self) -> list[str]:
        return sorted(self._pods.started)


async def test_alerts_fire_at_faults_and_every_query_is_answered(scene: Scene) -> None:
    api, server = scene.api, scene.server
    programs = Programs(api)

    async with scene.operated("leading"), scene.operated("leading", 1, "another-lease"):
        # What has failed before the first scrape is no increase.
        await scene.wait_for(
            lambda: len(server.query('podtune_attempts_total{class="user"} == 0')) == 2, server.list_targets
        )
        await scene.wait_until_firing("PodtuneSeveralLeaders")
    await scene.wait_until_firing("PodtuneDown")

    async with scene.operated("leading"):
        await scene.wait_for(
            lambda: bool(server.query('podtune_attempts_total{class="user"} == 0')), server.list_targets
        )
        break_admission(api, "blocked")
        for made in list_experiments():
            await asyncio.to_thread(api.create, paths.experiments(NAMESPACE), made)
        await scene.wait_for(programs.end_all, programs.list_started)
        pod = api.get(paths.pod(NAMESPACE, "unstored-0-1"))
        report = Report(pod["metadata"]["uid"], results=(Result(1, 1.0, {"accuracy": 0.5}, 1),), store_problem=AWAY)
        assert await scene.report("unstored-0", report.to_json(), make_agents_token(api, pod)) == 200
        others = [asyncio.create_task(work) for work in (scene.report_with_a_wrong_token(), programs.fail_to_prune())]
        await scene.wait_until_firing(
            "PodtuneApiErrors",
            "PodtuneExperimentStuck",
            "PodtuneNodesAvoided",
            "PodtuneProgramsFailing",
            "PodtuneReportsRefused",
            "PodtuneStorageJobFailing",
            "PodtuneStoreUnusable",
            "PodtuneTrialsFailing",
            "PodtuneWebhookEventsLost",
            "PodtuneWebhookFailing",
        )
        await assert_queries_are_answered(scene)
        stuck = paths.experiment(NAMESPACE, "stuck")
        await asyncio.to_thread(api.delete, stuck, api.get(stuck)["metadata"]["uid"])
        await scene.wait_until_firing("PodtuneCheckpointsLeft")
        for other in others:
            other.cancel()

    lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}"
    api.patch(lease, {"spec": {"holderIdentity": "nobody", "leaseDurationSeconds": 3600}})
    async with scene.operated("waiting for the lease"):
        await scene.wait_until_firing("PodtuneNoLeader")
        await scene.wait_for(lambda: "PodtuneDown" not in server.list_firing(), server.list_firing)
    while "PodtuneRestarting" not in server.list_firing():
        async with scene.operated("waiting for the lease"):
            await scene.wait_for(lambda: bool(server.query(JUST_STARTED)), server.list_targets)


async def assert_queries_are_answered(scene: Scene) -> None:
    """All queries of the dashboards return something, and no rule has an error."""
    server = scene.server
    await scene.wait_for(lambda: not list_unanswered(server), lambda: list_unanswered(server))
    assert {name: rule["lastError"] for name, rule in server.list_rules().items() if rule.get("lastError")} == {}
