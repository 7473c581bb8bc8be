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
from e2e.tests.monitoring.dashboard_queries import list_unanswered
from e2e.tests.monitoring.prometheus_server import PrometheusServer, running_prometheus
from e2e.tests.monitoring.silent_watches import SilentWatches
from podtune.api.names import FINALIZER, TOKEN_AUDIENCE
from podtune.cli.client.api_client import HttpApi
from podtune.cli.client.kubeconfig import connect
from podtune.kube import paths
from podtune.kube.manifests import Manifest
from podtune.protocol.messages import Report, Result, StoreProblem
from podtune.runner.records import ContainerEnd
from podtune.simulation.faults import COMPLETED, CRASHED
from tests.component.operator_process import LEASE, events, operator
from tests.component.own_api_server import create_definitions, running_api_server
from tests.component.webhooks.hand_written_pods import HandWrittenPods

pytestmark = [pytest.mark.cluster, pytest.mark.long]

NAMESPACE = "vision"
ACCOUNT = "default"
DEADLINE = 180.0
JUST_STARTED = "time() - process_start_time_seconds < 30 and time() - timestamp(process_start_time_seconds) < 2"
"""Prometheus has seen a process that has begun."""
CRASHES = 20
UNFIT = 10
"""Trials of an experiment whose rule of failures says which of their ends a node is to blame for."""
ON_A_BAD_NODE = 8
"""So many of them are on one: of two nodes, one may be avoided."""
STORE = {"store": {"bucket": "checkpoints", "credentialsSecret": "none"}}
AWAY = StoreProblem("Unreachable", "the bucket does not answer", permanent=False)
ACCOUNTS = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


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
        self, event: str, number: int = 0, lease: str = LEASE, kubeconfig: Path | None = None
    ) -> AsyncIterator[None]:
        """An operator runs until the context ends, when it is killed; waits until it says something."""
        nobody = f"http://127.0.0.1:{free_port()}"
        receivers = [{"name": "patient", "url": nobody}, {"name": "hasty", "url": nobody, "retrySeconds": 5}]
        settings = {
            "KUBECONFIG": str(kubeconfig or self.kubeconfig),
            "PODTUNE_METRICS_AUTHENTICATION": "true",
            "PODTUNE_WEBHOOKS": json.dumps(receivers),
            "PODTUNE_ALLOWED_SERVICE_ACCOUNTS": ACCOUNT,
            "PODTUNE_LISTEN_PROBES": str(self.probe_ports[number]),
            "PODTUNE_LISTEN_RESULTS": str(self.results_port if number == 0 else free_port()),
            "PODTUNE_LEASE_NAME": lease,
            "PODTUNE_POD_UID": "always-the-same",  # the next one need not wait until the Lease has expired
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


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    binaries = tools.installed("cluster")
    if binaries is None:
        pytest.skip("an API server of one's own takes the programs of a cluster without Docker")
    ports, token = (free_port(), free_port()), tmp_path / "token"
    for folder in ("api", "prometheus"):
        (tmp_path / folder).mkdir()
    with running_api_server(binaries, tmp_path / "api") as kubeconfig:
        api = HttpApi(connect(kubeconfig))
        create_definitions(api)
        api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        token.write_text(make_token(api))
        try:
            targets = [f"127.0.0.1:{port}" for port in ports]
            with running_prometheus(tmp_path / "prometheus", targets, token) as server:
                yield Scene(kubeconfig, api, server, ports)
        except ClusterError as error:
            pytest.skip(str(error))


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


async def test_an_alert_fires_where_a_watch_falls_silent(scene: Scene, tmp_path: Path) -> None:
    config = json.loads(scene.kubeconfig.read_text())
    [cluster] = config["clusters"]
    proxy = SilentWatches(cluster["cluster"]["server"])
    async with proxy.running() as url:
        cluster["cluster"] = {"server": url}
        proxied = tmp_path / "proxied"
        proxied.write_text(json.dumps(config))
        async with scene.operated("leading", kubeconfig=proxied):
            pods, api, server = HandWrittenPods(scene.api, NAMESPACE, ""), scene.api, scene.server
            await asyncio.to_thread(api.create, paths.experiments(NAMESPACE), make_experiment("watched", 1))
            await scene.wait_for(lambda: pods.is_there("watched-0"), lambda: api.list_all(paths.trials(NAMESPACE)))
            pods.run("watched-0")
            runs = 'podtune_trials{experiment="watched",state="running"} == 1 and on() podtune_watch_lag_seconds == 0'
            await scene.wait_for(lambda: bool(server.query(runs)), lambda: server.query("podtune_trials"))
            proxy.is_silent = True
            pod = api.get(paths.pod(NAMESPACE, "watched-0-1"))
            report = Report(pod["metadata"]["uid"], results=(Result(1, 1.0, {"accuracy": 0.5}, 1),))
            assert await scene.report("watched-0", report.to_json(), make_agents_token(api, pod)) == 200
            await scene.wait_until_firing("PodtuneWatchStale")
