"""The claim of a volume that checkpoints are stored on: whether pods can use it, and whether they must share a node.

Where a volume can be mounted by one node at a time, a pod on another node would hang while its containers are created,
and nothing in its status would say why. So all pods of such a claim are told to run where the others of it do
(`share_node`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from podtune.cluster.client import ClusterClient, read_if_there
from podtune.kube import paths
from podtune.kube.manifests import Manifest
from podtune.runner.records import Experiment

FRESH = 60.0
"""Seconds for which what is known of a claim that pods can use is believed."""


@dataclass(frozen=True, slots=True)
class ClaimState:
    """What is known of a claim.

    Attributes:
        problem: Why no pod can use it, and the remedy; empty where pods can.
        shares_node: Whether all pods that use it must run on one node.
    """

    problem: str = ""
    shares_node: bool = False


class StoreClaims:
    """Reads the claims of volume stores, those that pods can use once in a while."""

    def __init__(self, client: ClusterClient, clock: Callable[[], float]) -> None:
        """Knows nothing yet; `clock` is monotonic time in seconds."""
        self._client = client
        self._clock = clock
        self._usable: dict[str, tuple[float, ClaimState]] = {}

    async def read(self, experiment: Experiment) -> ClaimState:
        """What is known of an experiment's claim; that all is well where it has none.

        Raises:
            ApiError: The API server can't be asked.
        """
        name = find_store_claim(experiment)
        if not name:
            return ClaimState()
        path, now = paths.claim(experiment.namespace, name), self._clock()
        self._usable = {other: known for other, known in self._usable.items() if now - known[0] < FRESH}
        if path in self._usable:
            return self._usable[path][1]
        state = _describe(name, await read_if_there(self._client, path))
        if not state.problem:
            self._usable[path] = now, state
        return state


def find_store_claim(experiment: Experiment) -> str:
    """Name of the claim that the experiment's checkpoints are stored on; empty where they are not on a volume."""
    store = experiment.spec.checkpoints.store if experiment.spec else None
    return store.volume.claim_name if store is not None and store.volume is not None else ""


def _describe(name: str, claim: Manifest | None) -> ClaimState:
    if claim is None:
        return ClaimState(f"PersistentVolumeClaim {name}, the checkpoint store, does not exist; create it")
    if claim["metadata"].get("deletionTimestamp"):
        return ClaimState(f"PersistentVolumeClaim {name} is being deleted; create it anew once it is gone")
    status = claim.get("status") or {}
    if status.get("phase") == "Lost":
        return ClaimState(f"PersistentVolumeClaim {name} has lost its volume; bring it back, or create the claim anew")
    modes = status.get("accessModes") or claim["spec"].get("accessModes") or []
    if modes == ["ReadOnlyMany"]:
        return ClaimState(f"PersistentVolumeClaim {name} is ReadOnlyMany; use one that can be written")
    return ClaimState(shares_node="ReadWriteMany" not in modes)
