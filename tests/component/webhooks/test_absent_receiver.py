"""A receiver of webhooks that is away while operators are killed, on an API server of its own.

The local cluster's operator would take the Experiment first, and it has no receivers. Here is no kubelet either: the
test writes what becomes of the pods.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from podtune.cli.client.api_client import HttpApi
from podtune.cli.client.kubeconfig import connect
from podtune.kube import paths
from podtune.kube.manifests import Manifest
from podtune.simulation.faults import CRASHED
from tests.component.operator_process import LEASE, operator, until
from tests.component.own_api_server import running_served_namespace
from tests.component.webhooks.hand_written_pods import HandWrittenPods
from tests.unit.webhooks.stub_receiver import StubReceiver

pytestmark = pytest.mark.cluster

NAMESPACE = "vision"
ACCOUNT = "default"
"""Here nobody fills in the account that pods without one have."""
DEADLINE = 60.0
"""Seconds for what comes in moments on an idle machine."""
INTERVAL = 0.1
LONGEST_WAIT = 60.0
"""Seconds between two attempts of the operator, at most."""
TRIALS = ("digits-0", "digits-1", "digits-2")
EXPERIMENT: Manifest = {
    "apiVersion": "podtune.dev/v1alpha1",
    "kind": "Experiment",
    "metadata": {"name": "digits"},
    "spec": {
        "objective": {"metric": "accuracy", "mode": "max"},
        "parameters": [{"name": "lr", "float": {"min": 0.1, "max": 0.9}}],
        "search": {"algorithm": "random", "maxTrials": len(TRIALS), "seed": 7},
        "maxConcurrentTrials": len(TRIALS),
        "checkpoints": {"store": {"bucket": "checkpoints", "credentialsSecret": "none"}},
        "trialTemplate": {"spec": {"serviceAccountName": ACCOUNT, "containers": [{"name": "trial", "image": "none"}]}},
    },
}


@dataclass(frozen=True, slots=True)
class Installation:
    """An API server that knows Podtune, and a receiver that its operators tell."""

    kubeconfig: Path
    api: HttpApi
    receiver: StubReceiver

    @asynccontextmanager
    async def operated(self, *, ends_in_order: bool = False) -> AsyncIterator[None]:
        """An operator leads until the context ends; then it is killed, and has kept nothing since it last did.

        Args:
            ends_in_order: It is told to end instead, as in an upgrade.
        """
        settings = {
            "KUBECONFIG": str(self.kubeconfig),
            "PODTUNE_WEBHOOKS": json.dumps([{"name": "tracker", "url": self.receiver.url}]),
            "PODTUNE_ALLOWED_SERVICE_ACCOUNTS": ACCOUNT,
            "PODTUNE_POD_UID": "always-the-same",  # the next one need not wait until the Lease has expired
        }
        async with operator(NAMESPACE, **settings) as process:
            await until(process, "leading")
            yield
            if ends_in_order:
                process.terminate()
                async with asyncio.timeout(DEADLINE):
                    await process.communicate()

    async def wait_for(self, holds: Callable[[], bool]) -> None:
        """Looks again and again until something holds."""
        give_up = asyncio.get_running_loop().time() + DEADLINE
        while not holds():
            if asyncio.get_running_loop().time() > give_up:
                statuses = {body["metadata"]["name"]: body.get("status") for body in self.list_objects()}
                raise AssertionError(json.dumps(statuses, indent=1))
            await asyncio.sleep(INTERVAL)

    def list_objects(self) -> list[Manifest]:
        """The Experiment, and its Trials."""
        return [self.api.get(paths.experiment(NAMESPACE, "digits")), *self.api.list_all(paths.trials(NAMESPACE))]

    def find_state(self, trial: str) -> str:
        """What the status of a Trial says; empty where it says nothing."""
        trials = {body["metadata"]["name"]: body.get("status") or {} for body in self.list_objects()[1:]}
        return str(trials.get(trial, {}).get("state", ""))


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    with running_served_namespace(tmp_path, NAMESPACE) as kubeconfig:
        yield Installation(kubeconfig, HttpApi(connect(kubeconfig)), StubReceiver())


def list_recorded(objects: list[Manifest]) -> set[tuple[str, ...]]:
    """What the statuses say has happened, as `name_fact` does."""
    facts: set[tuple[str, ...]] = set()
    for body in objects:
        name, status = body["metadata"]["name"], body["status"]
        facts |= {(name, "state", str(entry["number"]), entry["state"]) for entry in status["transitions"]}
        facts |= {(name, "checkpoint", checkpoint["uri"]) for checkpoint in status.get("checkpoints", ())}
        facts |= {(name, "result", str(step)) for step in (status.get("curve") or {}).get("steps", ())}
    return facts


def name_fact(event: dict[str, Any]) -> tuple[str, ...]:
    """What an event tells of, by its content alone: no id is looked at."""
    data, subject = event["data"], str(event["subject"])
    if "state" in data:
        return subject, "state", str(data["number"]), str(data["state"])
    return (subject, "checkpoint", str(data["uri"])) if "uri" in data else (subject, "result", str(data["step"]))


def list_first_heard(events: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """By subject, its events in the order in which they were first heard."""
    by_id: dict[str, dict[str, Any]] = {}
    for event in events:
        by_id.setdefault(event["id"], event)
    ordered: dict[str, list[dict[str, Any]]] = {}
    for event in by_id.values():
        ordered.setdefault(event["subject"], []).append(event)
    return ordered


@pytest.mark.parametrize("away", [6.0, pytest.param(60.0, marks=pytest.mark.long)])
async def test_a_receiver_that_is_away_loses_nothing_and_hears_nothing_under_two_ids(
    installation: Installation, away: float
) -> None:
    receiver, pods = installation.receiver, HandWrittenPods(installation.api, NAMESPACE, "")

    async def hears(type_: str, trial: str) -> None:
        wanted = (f"dev.podtune.{type_}", trial)
        await receiver.wait_until(lambda: wanted in {(e["type"], e["subject"]) for e in receiver.events}, DEADLINE)

    async with receiver.up(), installation.operated():
        made = installation.api.create(paths.experiments(NAMESPACE), EXPERIMENT)
        pods.store = f"s3://checkpoints/{made['metadata']['uid']}"
        await installation.wait_for(lambda: all(map(pods.is_there, TRIALS)))
        for trial in TRIALS[:2]:
            pods.run(trial)
            await hears("trial.running", trial)
        receiver.answer_to = lambda events: 503  # it has been told, and does not say so
        pods.end(TRIALS[0], 0.5)
        told = len(receiver.requests)
        await receiver.wait_until(lambda: len(receiver.requests) > told + 1)
    gone_since = asyncio.get_running_loop().time()  # both: the operator was killed
    pods.end(TRIALS[1], 0.9)
    async with installation.operated():
        await installation.wait_for(lambda: installation.find_state(TRIALS[1]) == "TERMINATED")
    async with installation.operated():
        pods.run(TRIALS[2])
        await installation.wait_for(lambda: installation.find_state(TRIALS[2]) == "RUNNING")
        await asyncio.sleep(max(0.0, gone_since + away - asyncio.get_running_loop().time()))
        receiver.answer_to = lambda events: 204
        async with receiver.up():
            pods.end(TRIALS[2], 0.7)
            await installation.wait_for(pods.prune)
            await receiver.wait_until(
                lambda: any(e["type"] == "dev.podtune.experiment.complete" for e in receiver.events),
                LONGEST_WAIT + DEADLINE,
            )
            recorded = list_recorded(installation.list_objects())
            with suppress(TimeoutError):
                await receiver.wait_until(lambda: recorded <= set(map(name_fact, receiver.events)), DEADLINE)
            assert not recorded - set(map(name_fact, receiver.events)), "these were lost"

    heard = [json.loads(body) for _, body in receiver.requests]
    check_ids(heard)
    check_order(receiver.events)
    assert {kind for _, kind, *_ in recorded} == {"state", "checkpoint", "result"}
    kept = installation.api.get(paths.config_map(NAMESPACE, f"{LEASE}-webhook-tracker"))
    assert list(kept["data"]) == [made["metadata"]["uid"]]


ATTEMPTS = 20
"""As many failures make 40 changes of the trial's state, and as many checkpoints: more than any status keeps."""


@pytest.mark.long
async def test_a_receiver_that_is_down_while_a_trial_fails_again_and_again_hears_of_every_attempt(
    installation: Installation,
) -> None:
    """Though operators are replaced meanwhile: each of them sees more than a status keeps."""
    receiver, pods, trial = installation.receiver, HandWrittenPods(installation.api, NAMESPACE, ""), "digits-0"
    failures = {"maxFailures": ATTEMPTS, "backoff": {"initial": "1s", "max": "1s"}}
    search = {"algorithm": "random", "maxTrials": 1, "seed": 7}
    told = {**EXPERIMENT, "spec": {**EXPERIMENT["spec"], "search": search, "failures": failures}}
    recorded: set[tuple[str, ...]] = set()

    async def runs(attempt: int) -> None:
        """Its program runs, and that is on record, whatever has to be removed from the record for it."""
        await installation.wait_for(lambda: pods.is_there(trial, attempt))
        pods.run(trial, attempt)
        await installation.wait_for(lambda: installation.find_state(trial) == "RUNNING")
        recorded.update(list_recorded(installation.list_objects()))

    made = installation.api.create(paths.experiments(NAMESPACE), told)
    pods.store = f"s3://checkpoints/{made['metadata']['uid']}"
    for first in range(1, ATTEMPTS + 1, ATTEMPTS // 2):
        async with installation.operated(ends_in_order=True):
            for attempt in range(first, first + ATTEMPTS // 2):
                await runs(attempt)
                pods.end(trial, attempt / 100, attempt, CRASHED)
                await installation.wait_for(lambda: installation.find_state(trial) == "PENDING")
                recorded.update(list_recorded(installation.list_objects()))
    async with installation.operated():
        await runs(ATTEMPTS + 1)
        async with receiver.up():
            pods.end(trial, 0.9, ATTEMPTS + 1)
            await installation.wait_for(pods.prune)
            await receiver.wait_until(
                lambda: any(e["type"] == "dev.podtune.experiment.complete" for e in receiver.events),
                LONGEST_WAIT + DEADLINE,
            )
            recorded |= list_recorded(installation.list_objects())
            with suppress(TimeoutError):
                await receiver.wait_until(lambda: recorded <= set(map(name_fact, receiver.events)), DEADLINE)
    assert not recorded - set(map(name_fact, receiver.events)), "these were lost"
    kinds = Counter(kind for name, kind, *_ in recorded if name == trial)
    assert (kinds["state"] > 2 * ATTEMPTS, kinds["checkpoint"]) == (True, ATTEMPTS + 1)
    assert len(receiver.ids) == len(set(receiver.ids)), "nothing came twice"
    for events in list_first_heard(receiver.events).values():
        numbers = [event["data"]["number"] for event in events if "state" in event["data"]]
        assert numbers == list(range(1, len(numbers) + 1))


def check_ids(heard: list[dict[str, Any]]) -> None:
    """What was sent several times, by several operators, always had the one id, and no two facts have the same."""
    pairs = {(event["id"], name_fact(event)) for event in heard}
    assert len(heard) > len(pairs), "nothing was sent again, so nothing was tested"
    assert len({id_ for id_, _ in pairs}) == len({fact for _, fact in pairs}) == len(pairs), sorted(pairs)


def check_order(taken: list[dict[str, Any]]) -> None:
    """Each subject's changes of state came in order, none left out, and a trial's end after what it has brought."""
    for subject, events in list_first_heard(taken).items():
        numbers = [event["data"]["number"] for event in events if "state" in event["data"]]
        assert numbers == list(range(1, len(numbers) + 1)), subject
        if subject in TRIALS:
            assert events[-1]["type"] == "dev.podtune.trial.terminated", subject
            assert events[-1]["data"]["iteration"] == 1, subject
    assert {*list_first_heard(taken)} == {"digits", *TRIALS}
