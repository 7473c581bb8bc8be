"""A receiver of webhooks that is down for a minute, while an experiment runs and its operator is killed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment, program, store
from e2e.install import OPERATOR_NAMESPACE, OPERATOR_PODS, RELEASE, ROOT
from e2e.kubernetes import Kubernetes, eventually
from e2e.trials import finish

EXPERIMENTS, TRIALS = "experiments.podtune.dev", "trials.podtune.dev"
DOWN = 60.0
"""Seconds that the receiver is down."""


def set_receivers(cluster: Cluster, receivers: list[dict[str, Any]]) -> None:
    """Installs the operator with other receivers, and waits until it leads."""
    command = ["helm", "upgrade", RELEASE, str(ROOT / "charts" / "podtune"), "--namespace", OPERATOR_NAMESPACE]
    options = ["--reuse-values", "--wait", "--timeout", "300s", "--set-json", f"webhooks={json.dumps(receivers)}"]
    cluster.run([*command, *options], timeout=330)
    await_leader(Kubernetes(cluster, OPERATOR_NAMESPACE))


def await_leader(operator: Kubernetes) -> None:
    eventually(
        lambda: operator.list("pods", OPERATOR_PODS),
        lambda pods: len(pods) == 1 and pods[0]["metadata"]["labels"].get("podtune.dev/leader") == "true",
        what="one operator leads",
    )


class Receiver:
    """The receiver in a namespace, and what it has heard in all of its pods."""

    def __init__(self, namespace: Kubernetes) -> None:
        self._namespace = namespace
        self._heard: list[dict[str, Any]] = []
        self._pods = 0
        namespace.apply(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "receiver"},
                "spec": {"selector": {"app": "receiver"}, "ports": [{"port": 8080}]},
            }
        )

    @property
    def settings(self) -> dict[str, Any]:
        """It, as a value of the chart."""
        url = f"http://receiver.{self._namespace.namespace}.svc:8080/events"
        return {"name": "e2e", "url": url, "namespaces": [self._namespace.namespace], "batchSize": 20}

    def start(self) -> None:
        self._pods += 1
        container = program("receiver", resources={"requests": {"cpu": "10m"}})
        self._namespace.apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": self._name, "labels": {"app": "receiver"}},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
            }
        )
        self._namespace.kubectl("wait", "--for=condition=Ready", f"pod/{self._name}", "--timeout=120s")

    def stop(self) -> None:
        self._heard += self._read()
        self._namespace.kubectl("delete", "pod", self._name, "--grace-period=1")

    @property
    def heard(self) -> list[dict[str, Any]]:
        return [*self._heard, *self._read()]

    @property
    def _name(self) -> str:
        return f"receiver-{self._pods}"

    def _read(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._namespace.kubectl("logs", self._name).splitlines()]


@pytest.fixture
def receiver(cluster: Cluster, namespace: Kubernetes) -> Iterator[Receiver]:
    receiver = Receiver(namespace)
    receiver.start()
    set_receivers(cluster, [receiver.settings])
    yield receiver
    set_receivers(cluster, [])


def list_recorded(namespace: Kubernetes) -> dict[str, set[str]]:
    """By object, what its status says that has happened: states by number, checkpoints, and results."""
    recorded = {}
    for body in [*namespace.list(EXPERIMENTS), *namespace.list(TRIALS)]:
        status = body["status"]
        facts = {f"{entry['number']} {entry['state']}" for entry in status["transitions"]}
        facts |= {checkpoint["uri"] for checkpoint in status.get("checkpoints", ())}
        facts |= {f"result of {step}" for step in (status.get("curve") or {}).get("steps", ())}
        recorded[body["metadata"]["name"]] = facts
    return recorded


def name_fact(event: dict[str, Any]) -> str:
    """What an event tells of, in words of its own."""
    data = event["data"]
    if "state" in data:
        return f"{data['number']} {data['state']}"
    return str(data.get("uri") or f"result of {data['step']}")


@pytest.mark.alone
def test_a_receiver_that_is_down_for_a_minute_loses_nothing_and_hears_nothing_under_two_keys(
    cluster: Cluster, operator: Kubernetes, namespace: Kubernetes, receiver: Receiver
) -> None:
    container = counter({"EPOCHS": "8", "EPOCH_SECONDS": "1", "CRASH_AT": "4"}, resources={"requests": {"cpu": "10m"}})
    namespace.apply(experiment("told", container, checkpoints={"store": store(cluster)}))
    eventually(lambda: any(".trial." in event["type"] for event in receiver.heard), what="it hears of a trial")
    receiver.stop()
    down_since = time.monotonic()
    operator.kubectl("delete", "pod", "-l", OPERATOR_PODS, "--grace-period=0", "--force")
    await_leader(operator)
    finish(namespace, "told")
    time.sleep(max(0.0, down_since + DOWN - time.monotonic()))
    receiver.start()
    eventually(
        lambda: any(event["type"].endswith("experiment.complete") for event in receiver.heard),
        what="it hears of the end",
    )
    recorded = list_recorded(namespace)

    def is_lacking() -> dict[str, set[str]]:
        told: dict[str, set[str]] = {}
        for event in receiver.heard:
            told.setdefault(event["subject"], set()).add(name_fact(event))
        return {
            name: facts - told.get(name, set()) for name, facts in recorded.items() if facts - told.get(name, set())
        }

    eventually(is_lacking, lambda lacking: not lacking, what="all that the objects tell of")
    ids: dict[tuple[str, str], set[str]] = {}
    for event in receiver.heard:
        ids.setdefault((event["subject"], name_fact(event)), set()).add(event["id"])
    assert {fact: several for fact, several in ids.items() if len(several) > 1} == {}
