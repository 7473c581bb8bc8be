"""What one tenant's token may do to another tenant's trial: the attacks of the test on a cluster, on a server alone."""

from __future__ import annotations

from typing import Any

from aiohttp import ClientSession
from aiohttp.test_utils import TestServer

from e2e.tests.doors.tenant_attacks import FORGED, RunningTrial, list_attacks
from podtune.results.authentication import Caller, Unauthenticated
from podtune.results.server import ResultsServer
from tests.unit.cluster.fake_client import FakeCluster
from tests.unit.results.test_server import ReportHandler

OURS = RunningTrial("team-a", "told-0", "p-1")
THEIRS = RunningTrial("team-b", "told-0", "p-2")


class TwoTenants:
    """Knows the agents of both trials by their tokens."""

    async def authenticate(self, header: str) -> Caller:
        for trial in (OURS, THEIRS):
            if header == f"Bearer {trial.namespace}":
                return Caller(trial.namespace, f"{trial.name}-1", trial.attempt)
        raise Unauthenticated("nobody knows it")

    def recall_namespace(self, header: str) -> str:
        return ""


async def ask(session: ClientSession, path: str, token: str, body: Any = None) -> int:
    method = "GET" if body is None else "POST"
    headers = {"Authorization": f"Bearer {token}"}
    async with session.request(method, path, json=body, headers=headers) as answer:
        return answer.status


async def test_another_tenants_token_reaches_nothing_of_a_trial() -> None:
    handler, cluster = ReportHandler(), FakeCluster()
    application = ResultsServer(handler, TwoTenants(), cluster).build_application()  # type: ignore[arg-type]
    async with TestServer(application) as server, ClientSession(server.make_url("/")) as session:
        attacks = list_attacks(OURS, THEIRS, OURS.namespace)
        assert [await ask(session, **attack) for attack in attacks] == [403] * len(attacks)
        assert handler.taken == []
        assert handler.asked_for == []
        assert cluster.calls == []
        own = {"path": f"{THEIRS.path}/results", "token": THEIRS.namespace, "body": THEIRS.report(FORGED)}
        assert await ask(session, **own) == 200, "its own agent reports so"
        assert await ask(session, f"{THEIRS.path}/log", THEIRS.namespace) == 200, "and reads its log"
