"""What receivers of webhooks and the collector of traces are sent as a secret is nowhere that anybody looks.

The operator is a process of its own, and its log is as detailed as it can be. Each receiver refuses in a way of its own
that repeats the headers that it was sent; one is away.
"""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from e2e.chaos.processes.free_ports import free_port
from e2e.tests.credentials import find_credentials
from podtune.cli.client.api_client import HttpApi
from podtune.cli.client.kubeconfig import connect
from podtune.kube import paths
from tests.component.operator_process import operator
from tests.component.own_api_server import running_served_namespace
from tests.component.webhooks.hand_written_pods import HandWrittenPods
from tests.component.webhooks.test_absent_receiver import ACCOUNT, DEADLINE, EXPERIMENT, INTERVAL, NAMESPACE, TRIALS
from tests.unit.cluster.echoing_server import ECHOES, EchoingServer

pytestmark = pytest.mark.cluster

KEY = b"marked-key-5e1d-of-24-or-more-bytes"
SECRETS = {
    "token": "marked-token-91c4",
    "signingKey": f"whsec_{base64.b64encode(KEY).decode()}",
    "headers": "api-key=marked%20header-77af",
}
KNOWN = {
    SECRETS["token"],
    KEY.decode(),
    base64.b64encode(KEY).decode().rstrip("="),
    KEY.hex(),
    "marked%20header-77af",
    "marked header-77af",
    "header-77af",
}
"""The secrets, in each form in which they may come to be told."""


@dataclass
class ObservedOperator:
    """An operator's process.

    Attributes:
        process: The process.
        probes: The port of its metrics.
        lines: What it has written.
    """

    process: asyncio.subprocess.Process
    probes: int
    lines: list[str] = field(default_factory=list)

    async def read(self) -> None:
        """Takes in what it writes until it ends."""
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(line.decode())

    def has_said(self, event: str, **fields: str) -> bool:
        """Whether a line is in the log."""
        said = [json.loads(line) for line in self.lines if line.startswith("{")]
        return any(entry["event"] == event and fields.items() <= entry.items() for entry in said)

    def show_process(self) -> Iterator[tuple[str, str]]:
        """What the kernel tells of it, and its metrics; each with its name."""
        for name in ("cmdline", "environ"):
            yield name, Path(f"/proc/{self.process.pid}/{name}").read_text(errors="replace")
        with urllib.request.urlopen(f"http://127.0.0.1:{self.probes}/metrics", timeout=DEADLINE) as answer:
            yield "metrics", answer.read().decode()


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    directory = tmp_path / "secrets"
    directory.mkdir()
    for name, text in SECRETS.items():
        (directory / name).write_text(text)
    return directory


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    with running_served_namespace(tmp_path, NAMESPACE) as kubeconfig:
        yield kubeconfig


@asynccontextmanager
async def observed_operator(kubeconfig: Path, secrets: Path, server: EchoingServer) -> AsyncIterator[ObservedOperator]:
    """An operator that tells a receiver of each way, one that is away, and a collector; it ends in order."""
    urls = {way: server.address(way) for way in ECHOES} | {"away": f"http://127.0.0.1:{free_port()}/"}
    receivers = [{"name": way, "url": url, "secrets": str(secrets), "retrySeconds": 1} for way, url in urls.items()]
    probes = free_port()
    settings = {
        "KUBECONFIG": str(kubeconfig),
        "PODTUNE_WEBHOOKS": json.dumps(receivers),
        "PODTUNE_TRACING": json.dumps({"endpoint": server.address("rejection"), "secrets": str(secrets)}),
        "PODTUNE_ALLOWED_SERVICE_ACCOUNTS": ACCOUNT,
        "PODTUNE_LISTEN_PROBES": str(probes),
        "PODTUNE_LOG_LEVEL": "debug",
        "PYTHONASYNCIODEBUG": "1",
    }
    async with operator(NAMESPACE, **settings) as process:
        observed = ObservedOperator(process, probes)
        reading = asyncio.create_task(observed.read())
        yield observed
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(DEADLINE):
            await reading


def show_objects(api: HttpApi) -> Iterator[tuple[str, str]]:
    """All objects that the operator has written to, each kind with its name."""
    core, own = f"/api/v1/namespaces/{NAMESPACE}", f"/apis/podtune.dev/v1alpha1/namespaces/{NAMESPACE}"
    yield "leases", json.dumps(api.list_all(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"))
    yield "Events", json.dumps(api.list_all(f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"))
    for base, kinds in ((core, ("pods", "configmaps")), (own, ("experiments", "trials"))):
        for kind in kinds:
            yield kind, json.dumps(api.list_all(f"{base}/{kind}"))


async def wait_for(holds: Callable[[], bool], what: str) -> None:
    """Looks again and again until something holds."""
    give_up = asyncio.get_running_loop().time() + DEADLINE
    while not holds():
        assert asyncio.get_running_loop().time() < give_up, what
        await asyncio.sleep(INTERVAL)


async def end_trials(api: HttpApi) -> None:
    """Creates an Experiment, of which there is then all that receivers and the collector are told."""
    pods = HandWrittenPods(api, NAMESPACE, "")
    made = api.create(paths.experiments(NAMESPACE), EXPERIMENT)
    pods.store = f"s3://checkpoints/{made['metadata']['uid']}"
    for number, trial in enumerate(TRIALS):
        await wait_for(partial(pods.is_there, trial), f"the pod of {trial}")
        pods.run(trial)
        pods.end(trial, number / 10)


async def test_no_secret_of_a_receiver_or_of_the_collector_is_told_whatever_they_answer(
    kubeconfig: Path, secrets: Path
) -> None:
    api = HttpApi(connect(kubeconfig))
    async with EchoingServer().up() as server, observed_operator(kubeconfig, secrets, server) as observed:
        await end_trials(api)
        failing = {*ECHOES, "away"} - {"bad-request", "gone", "rejection"}
        lines = [("webhook fails", way) for way in failing] + [("webhook given up", way) for way in failing]
        lines += [("event refused", "bad-request"), ("webhook ended: the receiver is gone for good", "gone")]
        for event, receiver in lines:
            await wait_for(partial(observed.has_said, event, receiver=receiver), f"{event}: {receiver}")
        await wait_for(partial(observed.has_said, "spans refused by the collector"), "rejected spans")
        reasons = {"WebhookGivenUp", "WebhookEnded"}
        await wait_for(lambda: all(reason in dict(show_objects(api))["Events"] for reason in reasons), "the Events")
        seen = dict(observed.show_process()) | dict(show_objects(api))

    seen["the log"] = "".join(observed.lines)
    assert 'podtune_webhook_requests_total{answer="401"' in seen["metrics"]
    assert all(SECRETS["token"] in server.heads[way] for way in ECHOES), "it was sent"
    assert "header-77af" in server.heads["rejection"], "it was sent"
    for place, text in seen.items():
        assert find_credentials(text, KNOWN) == set(), place
