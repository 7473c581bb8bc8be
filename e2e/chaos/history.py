"""Everything that the API server ever held of an experiment, version by version, as an own watch saw it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from e2e.chaos.api import Api, Object
from e2e.chaos.faults.calls import experiment_of

KINDS = {
    "experiments": "/apis/podtune.dev/v1alpha1/namespaces/{namespace}/experiments",
    "trials": "/apis/podtune.dev/v1alpha1/namespaces/{namespace}/trials",
    "pods": "/api/v1/namespaces/{namespace}/pods",
}


@dataclass
class History:
    """One experiment.

    Attributes:
        experiment: Its status, latest.
        trials: By name, all versions of the Trial.
        pods: By name, all UIDs that pods of that name had.
        living: Pods that are there, latest version by name.
        most_alive: How many pods that had not finished there were at a time, at most.
        changed_at: When something was last seen of it, by a monotonic clock.
    """

    experiment: Object = field(default_factory=dict)
    trials: dict[str, list[Object]] = field(default_factory=dict)
    pods: dict[str, list[str]] = field(default_factory=dict)
    living: dict[str, Object] = field(default_factory=dict)
    most_alive: int = 0
    changed_at: float = field(default_factory=time.monotonic)

    @property
    def is_over(self) -> bool:
        """Whether the experiment has ended, and every trial."""
        ended = bool(self.experiment.get("status", {}).get("completionTime"))
        return ended and self._bucket_is_tidy and all(self.last(trial).get("completionTime") for trial in self.trials)

    @property
    def _bucket_is_tidy(self) -> bool:
        """Whether the work in the bucket is over, which the experiment's end waits for, but not for ever."""
        if "store" not in self.experiment["spec"].get("checkpoints", {}):
            return True
        jobs = self.experiment["status"].get("storage", {}).get("jobs") or ()
        return bool(jobs) and all(job["state"] in ("Done", "Failed") for job in jobs)

    def last(self, trial: str) -> Mapping[str, Any]:
        """The latest status of a trial."""
        status: Mapping[str, Any] = self.trials[trial][-1].get("status") or {}
        return status

    def statuses(self, trial: str) -> list[Mapping[str, Any]]:
        """All statuses of a trial, in order."""
        return [version.get("status") or {} for version in self.trials[trial]]

    @property
    def alive(self) -> list[str]:
        """Pods that have not finished."""
        return [name for name, pod in self.living.items() if _phase(pod) not in ("Succeeded", "Failed")]

    def take(self, kind: str, event: Object) -> None:
        """An event of the watch."""
        body = event["object"]
        name = body["metadata"]["name"]
        if kind == "experiments":
            self.experiment = body
        elif kind == "trials" and event["type"] != "DELETED":
            self.trials.setdefault(name, []).append(body)
        elif kind == "pods":
            self._take_pod(name, event)
        self.changed_at = time.monotonic()

    def _take_pod(self, name: str, event: Object) -> None:
        body = event["object"]
        if event["type"] == "DELETED":
            self.living.pop(name, None)
            return
        uids = self.pods.setdefault(name, [])
        if body["metadata"]["uid"] not in uids:
            uids.append(body["metadata"]["uid"])
        self.living[name] = body
        training = [pod for pod in self.alive if "podtune.dev/trial" in self.living[pod]["metadata"]["labels"]]
        self.most_alive = max(self.most_alive, len(training))


class Historian:
    """Watches a namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._of: dict[str, History] = {}

    def of(self, experiment: str) -> History:
        """The history of an experiment, from now on."""
        return self._of.setdefault(experiment, History())

    def find_by_uid(self, text: str) -> str:
        """The name of an experiment whose UID is in a text; empty where there is none."""
        known = ((name, history.experiment.get("metadata", {}).get("uid")) for name, history in self._of.items())
        return next((name for name, uid in known if uid and uid in text), "")

    async def run(self) -> None:
        """Works until it is cancelled."""
        await asyncio.gather(*(self._watch(kind, path) for kind, path in KINDS.items()))

    async def _watch(self, kind: str, path: str) -> None:
        async for event in self._api.watch(path.format(namespace=self._namespace)):
            self.of(experiment_of(event["object"]["metadata"]["name"])).take(kind, event)


def _phase(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))
