"""The operator's results server with TLS: from its Secret to what a pod is told, and who may still speak plain HTTP."""

from __future__ import annotations

import base64
import json
import ssl
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from e2e.chaos.processes.free_ports import free_port
from podtune.app.operator import Operator
from podtune.kube.errors import ApiError
from podtune.results.tls.authorities import issue_leaf, make_authority
from podtune.results.tls.chain import CertificateError
from tests.unit.app.test_operator import Cluster, Kopf, Process, cluster, kopf, until
from tests.unit.cluster.fake_client import refusal
from tests.unit.cluster.objects import EXPERIMENTS, experiment_body

__all__ = ["cluster", "kopf"]

SECRETS = "/api/v1/namespaces/system/secrets"
SECRET = f"{SECRETS}/podtune-results-tls"
HTTPS = {"PODTUNE_RESULTS_URL": "https://127.0.0.1:8443"}
OWN = HTTPS | {"PODTUNE_RESULTS_TLS_SECRET": "podtune-results-tls"}
ROUTE = "/v1/namespaces/team/trials/digits-0/results"


class TlsProcess(Process):
    """An operator whose results server has TLS."""

    def __init__(self, cluster: Cluster, name: str = "a", **settings: str) -> None:
        super().__init__(cluster, name, **settings)
        assert self.settings.results_tls is not None
        plain = self.settings.results_port if settings.get("PODTUNE_RESULTS_PLAIN_HTTP") == "true" else None
        tls = replace(self.settings.results_tls, port=free_port())
        self.settings = replace(self.settings, results_port=plain, results_tls=tls)
        self.port = tls.port
        rng: Any = type("NoJitter", (), {"random": lambda _: 0.0})()
        self.operator = Operator(self.settings, cluster, cluster, rng)  # type: ignore[arg-type]

    async def post_by_tls(self, trusted: str) -> int:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=trusted)
        url = f"https://127.0.0.1:{self.port}{ROUTE}"
        async with aiohttp.ClientSession() as session, session.post(url, data=b"{}", ssl=context) as response:
            return response.status


@pytest.fixture(autouse=True)
def secret(cluster: Cluster) -> None:
    """What the chart brings."""
    cluster.put(SECRETS, {"metadata": {"name": "podtune-results-tls"}, "type": "Opaque"})


def mount(directory: Path) -> str:
    """Makes a certificate of somebody else's there, and returns whom to trust."""
    authority = make_authority(datetime.now(UTC))
    leaf = issue_leaf(authority, "127.0.0.1", datetime.now(UTC))
    for name, text in {"tls.crt": leaf.certificate, "tls.key": leaf.key, "ca.crt": authority.certificate}.items():
        (directory / name).write_text(text)
    return authority.certificate


def read_told(pod: dict[str, Any]) -> dict[str, str]:
    """What a pod's agent is told."""
    agent = pod["spec"]["initContainers"][-1]
    told: dict[str, str] = json.loads(agent["args"][1])
    return told


def list_of_team(cluster: Cluster) -> list[dict[str, Any]]:
    return [pod for pod in cluster.all("pods") if pod["metadata"]["namespace"] == "team"]


async def test_pods_are_told_whom_to_trust_and_are_answered_by_tls_alone(cluster: Cluster, kopf: Kopf) -> None:
    cluster.put(EXPERIMENTS, experiment_body())
    process = TlsProcess(cluster, **OWN)
    async with process.running():
        await until(cluster, lambda: bool(list_of_team(cluster)))
        told = read_told(list_of_team(cluster)[0])
        assert told["PODTUNE_RESULTS_URL"] == "https://127.0.0.1:8443"
        trusted = told["PODTUNE_RESULTS_AUTHORITIES"]
        assert trusted.count("BEGIN CERTIFICATE") == 2
        assert await process.post_by_tls(trusted) == 401  # it asks who we are
        assert process.settings.results_port is None
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await process.post_by_tls(make_authority(datetime.now(UTC)).certificate)


async def test_agents_of_the_release_before_are_answered_in_plain_http_where_that_is_set(
    cluster: Cluster, kopf: Kopf
) -> None:
    process = TlsProcess(cluster, **OWN, PODTUNE_RESULTS_PLAIN_HTTP="true")
    async with process.running():
        await until(cluster, lambda: cluster.leaders() == ["a"])
        assert await process.post_results() == 401


async def test_a_mounted_certificate_is_shown_and_no_secret_read(cluster: Cluster, kopf: Kopf, tmp_path: Path) -> None:
    trusted = mount(tmp_path)
    process = TlsProcess(cluster, **HTTPS, PODTUNE_RESULTS_TLS_DIRECTORY=str(tmp_path))
    async with process.running():
        await until(cluster, lambda: cluster.leaders() == ["a"])
        assert await process.post_by_tls(trusted) == 401
    assert not [call for call in cluster.calls if "secrets" in call.path]


async def test_an_operator_without_its_secret_or_certificate_ends_and_says_why(
    cluster: Cluster, kopf: Kopf, tmp_path: Path
) -> None:
    cluster.remove(SECRET)
    with pytest.raises(ApiError, match="no Secret podtune-results-tls of namespace system, which the chart makes"):
        await TlsProcess(cluster, **OWN).run()
    with pytest.raises(CertificateError, match=r"tls\.crt can't be read"):
        await TlsProcess(cluster, **HTTPS, PODTUNE_RESULTS_TLS_DIRECTORY=str(tmp_path)).run()


async def test_who_comes_to_lead_looks_at_the_secret_first(cluster: Cluster, kopf: Kopf) -> None:
    process = TlsProcess(cluster, **OWN)
    async with process.running():
        await until(cluster, lambda: cluster.leaders() == ["a"])
    reads = [number for number, call in enumerate(cluster.calls) if call.path == SECRET and call.method == "GET"]
    held = next(number for number, call in enumerate(cluster.calls) if "leases" in call.path and call.method != "GET")
    assert reads[0] < held < reads[1], "another may have replaced the authorities before"


async def test_metrics_have_a_port_of_their_own_with_tls_and_the_probes_stay_open(cluster: Cluster, kopf: Kopf) -> None:
    port = free_port()
    asked = {"PODTUNE_METRICS_AUTHENTICATION": "true", "PODTUNE_LISTEN_METRICS_TLS": str(port)}
    process = TlsProcess(cluster, **OWN, **asked)
    async with process.running():
        await until(cluster, lambda: cluster.leaders() == ["a"])
        assert (await process.get("/healthz"))[0] == 200
        assert (await process.get("/metrics"))[0] == 404
        trusted = base64.b64decode((cluster.get(SECRET) or {})["data"]["ca.crt"]).decode()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=trusted)
        url = f"https://127.0.0.1:{port}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url, ssl=context) as answer:
            assert answer.status == 401


async def test_a_certificate_that_can_not_be_renewed_ends_nothing(
    cluster: Cluster, kopf: Kopf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podtune.results.tls.own_identity.LOOK_SECONDS", 0.05)
    monkeypatch.setattr("podtune.results.tls.identity.RENEWAL_RETRY_SECONDS", 0.05)
    process = TlsProcess(cluster, **OWN)
    async with process.running():
        await until(cluster, lambda: cluster.leaders() == ["a"])
        cluster.fail("GET", "secrets", refusal(500, "etcd"), times=2)
        seen = len(cluster.calls)
        await until(cluster, lambda: sum(call.path == SECRET for call in cluster.calls[seen:]) >= 4)
        assert cluster.leaders() == ["a"]
