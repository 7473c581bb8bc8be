"""A receiver of webhooks that is down for a while, while an experiment runs and its operator is killed.

What happens at every state is the component tests' to ask. Here the chart sets it up, and an agent brings the results.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.containers import kill_container
from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment, program, store
from e2e.install import OPERATOR_NAMESPACE, OPERATOR_PODS, RELEASE, ROOT
from e2e.kubernetes import Kubernetes, eventually
from e2e.trials import EXPERIMENTS, TRIALS

DOWN = 20.0
"""Seconds that the receiver is down, at least."""


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
    """The receiver in a namespace. Its pods stay when they have ended, as what they have heard is in their logs."""

    def __init__(self, namespace: Kubernetes) -> None:
        self._namespace = namespace
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
        container = program("servers/receiver", resources={"requests": {"cpu": "10m"}})
        self._namespace.apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": self._name, "labels": {"app": "receiver"}},
                "spec": {"containers": [container], "restartPolicy": "Never"},
            }
        )
        self._namespace.kubectl("wait", "--for=condition=Ready", f"pod/{self._name}", "--timeout=120s")

    def stop(self) -> None:
        end = "import os, signal; os.kill(1, signal.SIGTERM)"
        self._namespace.kubectl("exec", self._name, "--", "python3", "-c", end)
        self._namespace.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", f"pod/{self._name}")

    @property
    def heard(self) -> list[dict[str, Any]]:
        logs = [self._namespace.kubectl("logs", f"receiver-{number}") for number in range(1, self._pods + 1)]
        return [json.loads(line) for log in logs for line in log.splitlines()]

    @property
    def _name(self) -> str:
        return f"receiver-{self._pods}"


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
    """What an event tells of, in words of its own: no id is looked at."""
    data = event["data"]
    if "state" in data:
        return f"{data['number']} {data['state']}"
    return str(data.get("uri") or f"result of {data['step']}")


def find_lacking(namespace: Kubernetes, receiver: Receiver) -> dict[str, set[str]]:
    """By object, what its status tells of and the receiver has not heard."""
    told: dict[str, set[str]] = {}
    for event in receiver.heard:
        told.setdefault(event["subject"], set()).add(name_fact(event))
    lacking = {name: facts - told.get(name, set()) for name, facts in list_recorded(namespace).items()}
    return {name: facts for name, facts in lacking.items() if facts}


@pytest.mark.alone
@pytest.mark.long
def test_a_receiver_that_is_down_loses_nothing_and_hears_nothing_under_two_ids(
    cluster: Cluster, operator: Kubernetes, namespace: Kubernetes, receiver: Receiver
) -> None:
    container = counter({"EPOCHS": "8", "EPOCH_SECONDS": "1", "CRASH_AT": "4"}, resources={"requests": {"cpu": "10m"}})
    namespace.apply(experiment("told", container, checkpoints={"store": store(cluster)}))
    eventually(lambda: any(".trial." in event["type"] for event in receiver.heard), what="it hears of a trial")
    receiver.stop()
    down_since = time.monotonic()
    kill_container(operator.list("pods", OPERATOR_PODS)[0]["status"]["containerStatuses"][0])
    namespace.wait_for_condition(EXPERIMENTS, "told", "Complete")
    time.sleep(max(0.0, down_since + DOWN - time.monotonic()))
    receiver.start()
    eventually(
        lambda: any(event["type"].endswith("experiment.complete") for event in receiver.heard),
        what="it hears of the end",
    )
    eventually(
        lambda: find_lacking(namespace, receiver), lambda lacking: not lacking, what="all that the objects tell of"
    )
    ids: dict[tuple[str, str], set[str]] = {}
    for event in receiver.heard:
        ids.setdefault((event["subject"], name_fact(event)), set()).add(event["id"])
    assert {fact: several for fact, several in ids.items() if len(several) > 1} == {}
