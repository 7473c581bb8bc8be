"""How the pods that an administrator allows a namespace are shared between its experiments.

A place that comes free is for the experiment that has the fewest pods, and of those with as many, for the one that has
waited longest. So equals take turns, and one that comes late or has few trials is not kept waiting by one with
thousands. The order follows from the pods that there are, but for the turns of equals, which a restart begins anew.

Whoever is next keeps its turn until there is room for all pods of its trial: small trials that could go before would
keep a gang waiting for ever.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol


class PodQuota(Protocol):
    """What an experiment asks before it makes pods."""

    def claim(self, pods: int) -> str:
        """Asks for the pods of one attempt, all or none; returns why they may not be made now, empty where they may."""

    def wants_back(self) -> bool:
        """Whether a pod that would go on with another trial is to go, so that another experiment gets its share."""


class Unlimited:
    """The quota where there is no cap."""

    def claim(self, pods: int) -> str:  # noqa: ARG002 - any number will do
        """See `PodQuota.claim`."""
        return ""

    def wants_back(self) -> bool:
        """See `PodQuota.wants_back`."""
        return False


NO_LIMIT = Unlimited()


class NamespaceCap:
    """The pods of one namespace: those that there are, those that may come to be, and who waits for more."""

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
        """By experiment, how many pods its next trial needs; who has waited longest is first."""

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
        """See `PodQuota.claim`; who gets nothing waits for its turn from now on."""
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

        Not for equals to take turns, which would cost each its warm pods; but who has none is not kept waiting.
        """
        first = self._first
        if first is None or first == experiment or self._waiting[first] <= self._free:
            return False
        held, wanted = self._held(first), self._waiting[first]
        return held == 0 or held + wanted < self._held(experiment)

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
        return min(self._waiting, key=self._held, default=None)

    @property
    def _free(self) -> int:
        """How many more there may be; negative where the limit was lowered."""
        return self._limit - len(self._owners) - self._promised.total()

    def _held(self, experiment: str) -> int:
        return self._pods[experiment] + self._promised[experiment]

    def _describe_cap(self, experiment: str, pods: int) -> str:
        taken = f"namespace {self._namespace} uses {self._limit - self._free} of its {self._limit} allowed pods"
        if self._free < 1:
            return f"{taken}; trials wait until some of them end"
        if self._first != experiment:
            return f"{taken}, and experiment {self._first} is next; trials wait for their turn"
        return f"{taken}, and a trial needs {pods}; trials wait until some of them end"
