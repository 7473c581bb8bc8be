"""The pods of one attempt: usually one; in a gang several, identified by their ranks and led by rank 0."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from podtune.runner.records import Pod


def format_pod_name(trial: str, attempt: int, rank: int, replicas: int) -> str:
    """Name of a pod; never used again for another attempt."""
    name = f"{trial}-{attempt}"
    return name if replicas == 1 else f"{name}-{rank}"


@dataclass(frozen=True, slots=True)
class AttemptPods:
    """The pods of the current attempt as they were last seen; those that are gone stay until it has ended.

    Attributes:
        replicas: How many there are to be.
        members: Those that were seen, by rank.
    """

    replicas: int
    members: tuple[Pod, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.members)

    def __iter__(self) -> Iterator[Pod]:
        return iter(self.members)

    @property
    def leader(self) -> Pod | None:
        """The pod of rank 0: its UID is the attempt's id, and the trial's results come from it."""
        return self.members[0] if self.members and self.members[0].rank == 0 else None

    def find_pod(self, rank: int) -> Pod | None:
        """The pod of a rank, if it was seen."""
        return next((pod for pod in self.members if pod.rank == rank), None)

    def put_pod(self, pod: Pod) -> AttemptPods:
        """The same with one more pod, or with another version of one.

        What counts is the first request to delete it: the kubelet's own, which takes a pod away that has ended, moves
        the moment that the API server has on record.
        """
        known = self.find_pod(pod.rank)
        if known is not None and known.uid == pod.uid and known.deleting and pod.deleting:
            first = min(known.deletion_requested, pod.deletion_requested)
            pod = replace(pod, deletion_requested=first)
        if self.replicas == 1:
            return replace(self, members=(pod,))
        others = (other for other in self.members if other.rank != pod.rank)
        return replace(self, members=tuple(sorted((*others, pod), key=lambda member: member.rank)))

    @property
    def is_complete(self) -> bool:
        """Whether all of them were seen."""
        return len(self.members) == self.replicas

    @property
    def lacks_some(self) -> bool:
        """Whether some are still to be made.

        The pods of a gang are made behind a gate, which is taken away when all are there. So where one is without a
        gate, all were there; where one is gone again, the attempt has ended before it has begun.
        """
        return not self.is_complete and all(pod.gated and not (pod.deleting or pod.is_over) for pod in self.members)

    @property
    def has_begun(self) -> bool:
        """Whether they may run: all of them were there, and the first gate was taken away."""
        return any(not pod.gated for pod in self.members)

    @property
    def is_placed(self) -> bool:
        """Whether all of them have found a node."""
        return self.is_complete and all(pod.node or pod.is_over for pod in self.members)

    @property
    def is_over(self) -> bool:
        """Whether the whole attempt has stopped running."""
        return self.leader is not None and not self.lacks_some and all(pod.is_over for pod in self.members)

    @property
    def is_training(self) -> bool:
        """Whether the program has started, in all of them."""
        return self.is_complete and all(pod.training for pod in self.members)

    @property
    def not_started(self) -> Pod | None:
        """The first pod whose program has not started; one that can't start by itself before the others."""
        waiting = [pod for pod in self.members if not pod.training]
        hopeless = (pod for pod in waiting if pod.waiting is not None and pod.waiting.hopeless)
        return next(hopeless, waiting[0] if waiting else None)
