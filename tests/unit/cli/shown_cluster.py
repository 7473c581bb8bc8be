"""A cluster with an experiment in the middle of its course, for commands that show things.

As a program, it runs commands on it one after the other, as somebody at a terminal would:
`python -m tests.unit.cli.shown_cluster "list" "trials digits"`.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from typing import Any

from podtune.cli import main as cli
from podtune.cli.client import api_client
from podtune.kube.manifests import Manifest
from tests.unit.cli.cli_fakes import NAMESPACE, RUNNING, FakeApi, experiment, trial

SEPARATOR = "=== "
UNSCHEDULABLE = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu"
ACTIVATIONS = ("relu", "tanh")


def make_experiment(name: str = "digits") -> Manifest:
    usage = {"gpuHours": 12.4321, "podHours": 12.4321}
    item = experiment(name, **RUNNING | {"usage": usage, "best": RUNNING["best"] | {"trial": f"{name}-2"}})
    container = {"name": "t", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 2}}}
    item["spec"]["trialTemplate"] = {"spec": {"containers": [container]}}
    item["spec"]["parameters"][2]["choice"]["values"] = list(ACTIVATIONS)
    return item


def make_trial(index: int, name: str = "digits", **status: Any) -> Manifest:
    """A trial whose results grow with its index, as its curve says."""
    values = [round(0.5 + index / 100 + step / 40, 4) for step in range(8)]
    steps, seconds = list(range(1, 9)), [float(10 * step) for step in range(1, 9)]
    known = {
        "attempt": 1,
        "iteration": 8,
        "bestValue": repr(values[-1] + 1 / 90_000),
        "lastResult": {"epoch": "8", "training_iteration": "8", "accuracy": repr(values[-1]), "loss": f"0.{index}"},
        "curve": {"results": 8, "every": 1, "steps": steps, "seconds": seconds, "values": [values]},
        "startTime": "2026-01-01T10:01:00Z",
        "usage": {"trainingSeconds": 80 + index, "podSeconds": 100, "gpuSeconds": 3600 * (index + 1)},
        "scheduler": {"rungs": {"1": "0.5", "3": "0.6"}},
        "checkpoints": [{"step": 8, "uri": f"s3://models/team/{'0' * 36}/{name}-{index}/8", "digest": "sha256:0"}],
    }
    item = trial(index, name, **known | status)
    item["spec"]["parameters"] = {
        "learning_rate": repr(0.0001234567 * (index + 1)),
        "hidden_units": "64",
        "activation": ACTIVATIONS[index % 2],
    }
    return item


def make_running(since: str = "2026-01-01T10:02:00Z", node: str = "gpu-node-1") -> dict[str, Any]:
    return {
        "state": "RUNNING",
        "reason": "Training",
        "pod": {"name": "pod", "node": node},
        "conditions": [{"type": "Running", "status": "True", "reason": "Training", "lastTransitionTime": since}],
    }


def make_waiting(since: str = "2026-01-01T10:03:00Z") -> dict[str, Any]:
    return {
        "state": "PENDING",
        "reason": "Unschedulable",
        "message": UNSCHEDULABLE,
        "bestValue": "",
        "lastResult": {},
        "curve": None,
        "conditions": [{"type": "Running", "status": "False", "reason": "Unschedulable", "lastTransitionTime": since}],
    }


ENDED: dict[str, Any] = {"state": "TERMINATED", "reason": "Completed", "completionTime": "2026-01-01T10:04:00Z"}


class ShownApi(FakeApi):
    """Selects an experiment's trials, as a server does."""

    def list_all(self, path: str, params: Mapping[str, str] | None = None) -> list[Manifest]:
        found = super().list_all(path, params)
        name = (params or {}).get("labelSelector", "").partition("=")[2]
        return [item for item in found if not name or item["spec"]["experiment"] == name]


def make_cluster(name: str = "digits") -> ShownApi:
    """One trial that has failed, two that have ended, two that run, one that waits."""
    api = ShownApi()
    api.add_experiment(make_experiment(name))
    failed = ENDED | {"state": "ERROR", "reason": "MaxFailuresExceeded", "attempt": 3, "failures": 3, "bestValue": ""}
    running = [make_running(), make_running(node="gpu-node-2")]
    statuses: list[dict[str, Any]] = [failed, ENDED, ENDED, *running, make_waiting()]
    for index, status in enumerate(statuses):
        api.add_trial(make_trial(index, name, **status))
    return api


def main() -> None:
    """Runs the commands that are given, on a cluster of its own."""
    api = make_cluster()
    api_client.open_api = lambda kubeconfig, context, namespace: (api, namespace or NAMESPACE)
    for line in sys.argv[1:]:
        print(f"{SEPARATOR}{line}", flush=True)
        cli.main(shlex.split(line))


if __name__ == "__main__":
    main()
