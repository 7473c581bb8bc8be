"""A real Prometheus that scrapes a real operator, on an API server of the test's own: its faults hurt nobody.

There is no kubelet: the test writes what becomes of pods.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from e2e.chaos.processes.free_ports import free_port
from e2e.tests.monitoring.prometheus_server import PrometheusServer
from podtune.api.names import TOKEN_AUDIENCE
from podtune.cli.client.api_client import HttpApi
from podtune.kube.manifests import Manifest
from tests.component.operator_process import LEASE, events, operator

NAMESPACE = "vision"
ACCOUNT = "default"
DEADLINE = 180.0
ACCOUNTS = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def make_experiment(name: str, trials: int, account: str = ACCOUNT, **spec: Any) -> Manifest:
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
            **spec,
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
    probe_ports: tuple[int, int]
    results_port: int = field(default_factory=free_port)

    @asynccontextmanager
    async def operated(
        self, event: str, number: int = 0, lease: str = LEASE, **environment: str
    ) -> AsyncIterator[None]:
        """An operator runs until the context ends, when it is killed; waits until it says something."""
        nobody = f"http://127.0.0.1:{free_port()}"
        receivers = [{"name": "patient", "url": nobody}, {"name": "hasty", "url": nobody, "retrySeconds": 5}]
        settings = {
            "KUBECONFIG": str(self.kubeconfig),
            "PODTUNE_METRICS_AUTHENTICATION": "true",
            "PODTUNE_WEBHOOKS": json.dumps(receivers),
            "PODTUNE_ALLOWED_SERVICE_ACCOUNTS": ACCOUNT,
            "PODTUNE_LISTEN_PROBES": str(self.probe_ports[number]),
            "PODTUNE_LISTEN_RESULTS": str(self.results_port if number == 0 else free_port()),
            "PODTUNE_LEASE_NAME": lease,
            "PODTUNE_POD_UID": "always-the-same",  # the next one need not wait until the Lease has expired
            **environment,
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

    async def report(self, trial: str, report: bytes, token: str) -> int:
        """What an operator answers to a report: an HTTP status, 0 where it does not answer."""
        url = f"http://127.0.0.1:{self.results_port}/v1/namespaces/{NAMESPACE}/trials/{trial}/results"
        with suppress(aiohttp.ClientError):
            async with (
                aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session,
                session.post(url, data=report) as answer,
            ):
                return answer.status
        return 0

    async def report_with_a_wrong_token(self) -> None:
        """Somebody whose token is wrong reports, again and again."""
        while True:
            await self.report("crashing-0", b"{}", "wrong")
            await asyncio.sleep(0.2)


def make_token(api: HttpApi) -> str:
    """A token of an account that may read metrics, and nothing else."""
    for name in ("prometheus", ACCOUNT):
        api.create(ACCOUNTS, {"metadata": {"name": name}})
    rule = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    api.create(f"{RBAC}/clusterroles", {"metadata": {"name": "metrics-reader"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "metrics-reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": NAMESPACE}],
    }
    api.create(f"{RBAC}/clusterrolebindings", binding)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    return str(api.create(f"{ACCOUNTS}/prometheus/token", asked)["status"]["token"])


def make_agents_token(api: HttpApi, pod: Manifest) -> str:
    """The token that an agent has in its pod."""
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    spec = {"audiences": [TOKEN_AUDIENCE], "expirationSeconds": 3600, "boundObjectRef": bound}
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return str(api.create(f"{ACCOUNTS}/{ACCOUNT}/token", asked)["status"]["token"])
