"""The caps of all namespaces, kept up to date with the pods that are seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from podtune.runner.experiment_machine import ExperimentMachine
from podtune.runner.scheduling.namespace_cap import NO_LIMIT, NamespaceCap, PodQuota


@dataclass(frozen=True, slots=True)
class PodLimits:
    """How many pods of trials namespaces may have at a time; None for any number.

    Attributes:
        default: Each namespace for which nothing else is said.
        namespaces: By name, those for which something is said.
    """

    default: int | None = None
    namespaces: Mapping[str, int | None] = field(default_factory=dict)

    def find_limit(self, namespace: str) -> int | None:
        """The limit of a namespace."""
        return self.namespaces.get(namespace, self.default)


NO_LIMITS = PodLimits()


@dataclass(frozen=True, slots=True)
class _Share:
    """The quota of one experiment: its share of its namespace's cap."""

    cap: NamespaceCap
    experiment: str

    def claim(self, pods: int) -> str:
        """See `PodQuota.claim`."""
        return self.cap.claim(self.experiment, pods)

    def wants_back(self) -> bool:
        """See `PodQuota.wants_back`."""
        return self.cap.wants_back(self.experiment)


class NamespaceCaps:
    """Makes a cap for each namespace that has a limit; the others cost nothing."""

    def __init__(self, limits: PodLimits, wake: Callable[[str, str], None]) -> None:
        """Makes the caps of namespaces without pods.

        Args:
            limits: How many pods each may have.
            wake: Called with the namespace and the name of an experiment that now has room.
        """
        self._limits = limits
        self._wake = wake
        self._caps: dict[str, NamespaceCap] = {}
        self._namespaces: dict[str, str] = {}
        """By UID of each pod that counts: its namespace."""

    def get_quota(self, namespace: str, experiment: str) -> PodQuota:
        """What an experiment asks before it makes pods."""
        cap = self._cap(namespace)
        return NO_LIMIT if cap is None else _Share(cap, experiment)

    def add_pod(self, namespace: str, experiment: str, uid: str) -> None:
        """A pod was seen that has not ended."""
        cap = self._cap(namespace)
        if cap is not None:
            self._namespaces[uid] = namespace
            cap.add_pod(uid, experiment)

    def remove_pod(self, uid: str) -> None:
        """A pod has ended, or is gone; its place is given away."""
        namespace = self._namespaces.pop(uid, None)
        if namespace is not None:
            self._caps[namespace].remove_pod(uid)
            self._wake_next(namespace)

    def update(self, namespace: str, experiment: str, machine: ExperimentMachine | None) -> None:
        """Takes in what an experiment makes of its claims; without a machine, it makes no more pods."""
        cap = self._cap(namespace)
        if cap is not None:
            promised, waits = (machine.promised_pods, machine.waits_for_pods) if machine is not None else (0, False)
            cap.update(experiment, promised=promised, waits=waits)
            self._wake_next(namespace)

    def _cap(self, namespace: str) -> NamespaceCap | None:
        limit = self._limits.find_limit(namespace)
        if limit is None:
            return None
        if namespace not in self._caps:
            self._caps[namespace] = NamespaceCap(namespace, limit)
        return self._caps[namespace]

    def _wake_next(self, namespace: str) -> None:
        experiment = self._caps[namespace].next
        if experiment is not None:
            self._wake(namespace, experiment)
