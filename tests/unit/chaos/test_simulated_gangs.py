"""The pods of a gang that `make chaos` plays: those above rank 0 go along with it, or fall as their scenario says."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from e2e.chaos.ground_truth import AttemptTruth, GroundTruth
from e2e.chaos.pods.rank_pod import RankPod
from e2e.chaos.pods.training_pod import ExperimentScript
from e2e.chaos.pods.user_requests import RequestAnswers
from e2e.chaos.polling import until
from e2e.chaos.scenarios.scenario import Scenario
from podtune.protocol import agent_environment as agent_env
from podtune.simulation.faults import Fault, ScheduledFault

POD = "/api/v1/namespaces/chaos/pods/c1-0-1-1"


class RecordingApi:
    """An API server that takes everything."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, Any] | None]] = []

    async def request(self, method: str, path: str, body: dict[str, Any] | None = None, **_: Any) -> dict[str, Any]:
        self.requests.append((method, path, body))
        return {}

    @property
    def exit_codes(self) -> list[int]:
        """Those of the program, as the pod's status told them."""
        statuses = [body["status"] for _, path, body in self.requests if body and path == f"{POD}/status"]
        states = [status["containerStatuses"][0]["state"] for status in statuses if "containerStatuses" in status]
        return [state["terminated"]["exitCode"] for state in states if "terminated" in state]


async def find_nothing() -> int:
    return -1


def rank_pod(api: RecordingApi, leader: AttemptTruth, *fault: ScheduledFault) -> RankPod:
    labels = {"podtune.dev/trial": "c1-0", "podtune.dev/attempt": "1", "podtune.dev/rank": "1"}
    agent = {"name": "podtune-agent", "env": [{"name": agent_env.ATTEMPT, "value": leader.uid}]}
    body = {
        "metadata": {"name": "c1-0-1-1", "namespace": "chaos", "uid": "rank-1", "labels": labels},
        "spec": {"initContainers": [agent]},
    }
    scenario = Scenario("gang", faults={0: fault})
    script = ExperimentScript(scenario, GroundTruth([leader]), random.Random(1), RequestAnswers((), find_nothing))
    return RankPod(api, body, script)  # type: ignore[arg-type]


async def run(pod: RankPod, api: RecordingApi, *, ends_by_itself: bool = True) -> None:
    """Deletes it when it has ended, or has lived for a while."""
    living = asyncio.ensure_future(pod.run())
    if ends_by_itself:
        assert await until(lambda: api.exit_codes != [], 60)
    else:
        await asyncio.sleep(0.1)
    pod.delete()
    await living


async def test_it_ends_well_when_rank_0_has() -> None:
    api = RecordingApi()
    await run(rank_pod(api, AttemptTruth("c1-0", 1, "rank-0", ended="exit code 0")), api)
    assert api.exit_codes == [0]
    assert api.requests[-1][:2] == ("DELETE", POD)


@pytest.mark.parametrize(("is_held", "code"), [(True, 1), (False, 143)])
async def test_it_falls_once_rank_0_waits_for_it(is_held: bool, code: int) -> None:
    api = RecordingApi()
    leader = AttemptTruth("c1-0", 1, "rank-0", is_held=is_held)
    pod = rank_pod(api, leader, ScheduledFault(Fault.CRASH, 2, rank=1))
    await run(pod, api, ends_by_itself=is_held)
    assert api.exit_codes == [code]


async def test_another_rank_falls_and_it_is_deleted() -> None:
    api = RecordingApi()
    leader = AttemptTruth("c1-0", 1, "rank-0", is_held=True)
    await run(rank_pod(api, leader, ScheduledFault(Fault.CRASH, 2, rank=2)), api, ends_by_itself=False)
    assert api.exit_codes == [143]
