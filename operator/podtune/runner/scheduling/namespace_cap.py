"""Shares the pods that an administrator allows a namespace between its experiments.

A free slot goes to the experiment with the fewest pods and, among equals, to the one that has waited longest. So equals
take turns, and an experiment that is new or small does not wait for one with thousands of trials. The order follows
from the existing pods, except for the turns of equals, which start over after a restart.

The next experiment keeps its turn until there is room for all pods of its trial. Otherwise small trials could overtake
a gang for ever.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol


class PodQuota(Protocol):
    """What an experiment asks before it makes pods."""

    def claim(self, pods: int) -> str:
        """Asks for the pods of one attempt, all or none; returns why they may not be made now, empty where they may."""

    def wants_back(self) -> bool:
        """Whether a pod that could run another trial should end instead, so that another experiment gets its share."""


class Unlimited:
    """The quota of a namespace without a cap."""

    def claim(self, pods: int) -> str:  # noqa: ARG002 - any number will do
        """See `PodQuota.claim`."""
        return ""

    def wants_back(self) -> bool:
        """See `PodQuota.wants_back`."""
        return False


NO_LIMIT = Unlimited()


class NamespaceCap:
    """The pods of one namespace: existing ones, those that may yet be created, and experiments that wait for more."""

    def __init__(self, namespace: str, limit: int) -> None:
        """Makes the cap of a namespace without pods; those that have ended do not count towards the limit."""
        self._namespace = namespace
        self._limit = limit
        self._owners: dict[str, str] = {}
        """By UID of each pod that has not ended: the name of its experiment."""
        self._pods: Counter[str] = Counter()
        """By experiment, how many these are."""
        self._promised: Counter[str] = Counter()
        """By experiment, how many pods may be made that were not seen yet."""
        self._waiting: dict[str, int] = {}
        """By experiment, how many pods its next trial needs; the one that has waited longest comes first."""

    def add_pod(self, uid: str, experiment: str) -> None:
        """A pod was seen that has not ended."""
        if uid not in self._owners:
            self._owners[uid] = experiment
            self._pods[experiment] += 1

    def remove_pod(self, uid: str) -> None:
        """A pod has ended, or is gone."""
        experiment = self._owners.pop(uid, None)
        if experiment is not None:
            self._pods[experiment] -= 1
            if not self._pods[experiment]:
                del self._pods[experiment]

    def claim(self, experiment: str, pods: int) -> str:
        """See `PodQuota.claim`; an experiment that gets nothing joins the queue."""
        if pods > self._limit:
            self._waiting.pop(experiment, None)
            return (
                f"a trial needs {pods} pods, but namespace {self._namespace} may have only {self._limit} at a time; "
                "lower trialTemplate.replicas, or ask your administrator for a higher limit"
            )
        self._waiting[experiment] = pods
        if self.next != experiment:
            return self._describe_cap(experiment, pods)
        del self._waiting[experiment]
        self._promised[experiment] += pods
        return ""

    def wants_back(self, experiment: str) -> bool:
        """See `PodQuota.wants_back`.

        Equals don't take turns here, because that would cost each its warm pods. Only an experiment without pods is let
        in.
        """
        first = self._first
        if first is None or first == experiment or self._waiting[first] <= self._free:
            return False
        held, wanted = self._count_held(first), self._waiting[first]
        return held == 0 or held + wanted < self._count_held(experiment)

    def update(self, experiment: str, *, promised: int, waits: bool) -> None:
        """Takes in how many pods an experiment may make that were not seen yet, and whether it wants more."""
        self._promised[experiment] = promised
        if not promised:
            del self._promised[experiment]
        if not waits:
            self._waiting.pop(experiment, None)

    @property
    def next(self) -> str | None:
        """Whose turn it is, where there is room for its trial."""
        experiment = self._first
        return experiment if experiment is not None and self._waiting[experiment] <= self._free else None

    @property
    def _first(self) -> str | None:
        return min(self._waiting, key=self._count_held, default=None)

    @property
    def _free(self) -> int:
        """How many more there may be; negative where the limit was lowered."""
        return self._limit - len(self._owners) - self._promised.total()

    def _count_held(self, experiment: str) -> int:
        return self._pods[experiment] + self._promised[experiment]

    def _describe_cap(self, experiment: str, pods: int) -> str:
        taken = f"namespace {self._namespace} uses {self._limit - self._free} of its {self._limit} allowed pods"
        if self._free < 1:
            return f"{taken}; trials wait until some of them end"
        if self._first != experiment:
            return f"{taken}, and experiment {self._first} is next; trials wait for their turn"
        return f"{taken}, and a trial needs {pods}; trials wait until some of them end"
