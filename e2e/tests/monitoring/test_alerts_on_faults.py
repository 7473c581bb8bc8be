"""A real Prometheus scrapes a real operator: its alerts fire at real faults, and dashboards have something to show.

The API server is one of the test's own, so that its faults hurt nobody. There is no kubelet: the test writes what
becomes of pods.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from e2e.chaos.processes.free_ports import free_port
from e2e.devcluster.building import tools
from e2e.devcluster.errors import ClusterError
from e2e.prometheus_server import SCRAPE_JOB, SCRAPED_NAMESPACE, PrometheusServer, running_prometheus
from integrations.grafana.dashboards import DASHBOARDS
from podtune.cli.client.api_client import HttpApi
from podtune.cli.client.kubeconfig import connect
from podtune.kube import paths
from podtune.kube.manifests import Manifest
from podtune.simulation.faults import CRASHED
from tests.component.operator_process import LEASE, events, operator
from tests.component.own_api_server import create_definitions, running_api_server
from tests.component.webhooks.hand_written_pods import HandWrittenPods

pytestmark = [pytest.mark.cluster, pytest.mark.long]

NAMESPACE = "vision"
ACCOUNT = "default"
DEADLINE = 180.0
CRASHES = 20
RBAC = "/apis/rbac.authorization.k8s.io/v1"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
CHOICES = {
    "$__rate_interval": "10s",
    "$job": SCRAPE_JOB,
    "$operator": SCRAPED_NAMESPACE,
    "$namespace": ".+",
    "$experiment": ".+",
}
"""Grafana's variables, as it fills them in."""
EMPTY_IF_WELL = ("podtune_storage_jobs", "podtune_trials_not_storing{")
"""What has no series while nothing is wrong with it, which here it is not."""


def make_experiment(name: str, trials: int, account: str = ACCOUNT) -> Manifest:
    return {
        "apiVersion": "podtune.dev/v1alpha1",
        "kind": "Experiment",
        "metadata": {"name": name},
        "spec": {
            "objective": {"metric": "accuracy", "mode": "max"},
            "parameters": [{"name": "lr", "float": {"min": 0.1, "max": 0.9}}],
            "search": {"algorithm": "random", "maxTrials": trials, "seed": 7},
            "maxConcurrentTrials": trials,
            "failures": {"maxFailures": 0},
            "trialTemplate": {
                "spec": {"serviceAccountName": account, "containers": [{"name": "trial", "image": "none"}]}
            },
        },
    }


@dataclass
class Scene:
    """An API server, an operator that may come and go, and a Prometheus that scrapes it."""

    kubeconfig: Path
    api: HttpApi
    server: PrometheusServer
    probe_port: int
    results_port: int = field(default_factory=free_port)

    @asynccontextmanager
    async def operated(self, event: str) -> AsyncIterator[None]:
        """An operator runs until the context ends, when it is killed; waits until it says something."""
        receiver = {"name": "tracker", "url": f"http://127.0.0.1:{free_port()}"}  # nobody listens
        settings = {
            "KUBECONFIG": str(self.kubeconfig),
            "PODTUNE_WEBHOOKS": json.dumps([receiver]),
            "PODTUNE_ALLOWED_SERVICE_ACCOUNTS": ACCOUNT,
            "PODTUNE_LISTEN_PROBES": str(self.probe_port),
            "PODTUNE_LISTEN_RESULTS": str(self.results_port),
        }
        async with operator(NAMESPACE, **settings) as process:
            said = asyncio.Event()

            async def listen() -> None:
                async for entry in events(process):
                    if entry["event"] == event:
                        said.set()

            listening = asyncio.create_task(listen())
            try:
                async with asyncio.timeout(DEADLINE):
                    await said.wait()
                yield
            finally:
                listening.cancel()

    async def wait_for(self, holds: Callable[[], bool], seen: Callable[[], object]) -> None:
        """Looks again and again until something holds."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + DEADLINE
        while not await asyncio.to_thread(holds):
            assert loop.time() < give_up, seen()
            await asyncio.sleep(0.2)

    async def wait_until_firing(self, *names: str) -> None:
        """Waits until each of these alerts has fired: not all of them fire at the same time."""
        left = set(names)

        def look() -> bool:
            left.difference_update(self.server.list_firing())
            return not left

        await self.wait_for(look, lambda: {name: self.server.list_rules()[name] for name in left})

    async def report_without_a_token(self) -> None:
        """Somebody who has no token reports, again and again."""
        url = f"http://127.0.0.1:{self.results_port}/v1/namespaces/{NAMESPACE}/trials/crashing-0/results"
        async with aiohttp.ClientSession() as session:
            while True:
                with suppress(aiohttp.ClientError):
                    async with session.post(url, data=b"{}") as answer:
                        await answer.read()
                await asyncio.sleep(0.2)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    binaries = tools.installed("cluster")
    if binaries is None:
        pytest.skip("an API server of one's own takes the programs of a cluster without Docker")
    port, token = free_port(), tmp_path / "token"
    for folder in ("api", "prometheus"):
        (tmp_path / folder).mkdir()
    with running_api_server(binaries, tmp_path / "api") as kubeconfig:
        api = HttpApi(connect(kubeconfig))
        create_definitions(api)
        api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        token.write_text(make_token(api))
        try:
            with running_prometheus(tmp_path / "prometheus", f"127.0.0.1:{port}", token) as server:
                yield Scene(kubeconfig, api, server, port)
        except ClusterError as error:
            pytest.skip(str(error))


def make_token(api: HttpApi) -> str:
    """A token of an account that may read metrics, and nothing else."""
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    api.create(accounts, {"metadata": {"name": "prometheus"}})
    rule = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    api.create(f"{RBAC}/clusterroles", {"metadata": {"name": "metrics-reader"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "metrics-reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": NAMESPACE}],
    }
    api.create(f"{RBAC}/clusterrolebindings", binding)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    return str(api.create(f"{accounts}/prometheus/token", asked)["status"]["token"])


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


def fill_in(query: str) -> str:
    for name, value in CHOICES.items():
        query = query.replace(name, value)
    return query


def list_queries() -> list[str]:
    """Of all panels of the dashboards, as Grafana sends them."""
    return [fill_in(query) for board in DASHBOARDS for query in board.list_queries()]


async def test_alerts_fire_at_faults_and_every_query_is_answered(scene: Scene) -> None:
    api, server = scene.api, scene.server
    pods = HandWrittenPods(api, NAMESPACE, "")
    crashing = [f"crashing-{index}" for index in range(CRASHES)]

    def crash_all() -> bool:
        """Whether all trials have had a pod; the program of each has crashed."""
        for trial in crashing:
            if trial not in pods.started and pods.is_there(trial):
                pods.run(trial)
                pods.end(trial, 0.5, end=CRASHED)
        return len(pods.started) == CRASHES

    def list_without_data() -> list[str]:
        return [q for q in list_queries() if not server.query(q) and not any(name in q for name in EMPTY_IF_WELL)]

    async with scene.operated("leading"):
        # What has failed before the first scrape is no increase.
        await scene.wait_for(
            lambda: bool(server.query('podtune_attempts_total{class="user"} == 0')), server.list_targets
        )
        reporting = asyncio.create_task(scene.report_without_a_token())
        break_admission(api, "blocked")
        for made in (
            make_experiment("blocked", 3),
            make_experiment("stuck", 1, "admin"),
            make_experiment("crashing", CRASHES),
        ):
            await asyncio.to_thread(api.create, paths.experiments(NAMESPACE), made)
        await scene.wait_for(crash_all, lambda: pods.started)
        await scene.wait_until_firing(
            "PodtuneApiErrors",
            "PodtuneExperimentStuck",
            "PodtuneProgramsFailing",
            "PodtuneReportsRefused",
            "PodtuneWebhookFailing",
        )
        await scene.wait_for(lambda: not list_without_data(), list_without_data)
        for query in list_queries():
            server.query(query)  # those that may be empty are valid, too
        assert {name: rule["lastError"] for name, rule in server.list_rules().items() if rule.get("lastError")} == {}
        assert "PodtuneDown" not in server.list_firing()
        assert [target["lastError"] for target in server.list_targets()] == [""]
        reporting.cancel()
    await scene.wait_until_firing("PodtuneDown")

    lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}"
    api.patch(lease, {"spec": {"holderIdentity": "nobody", "leaseDurationSeconds": 3600}})
    async with scene.operated("waiting for the lease"):
        await scene.wait_until_firing("PodtuneNoLeader")
        await scene.wait_for(lambda: "PodtuneDown" not in server.list_firing(), server.list_firing)
