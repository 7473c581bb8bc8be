"""The requests that are made for gangs alone; a trial of one pod costs none of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from podtune.api.names import FIELD_MANAGER, GANG_GATE
from podtune.cluster import ownership
from podtune.cluster.client import STRATEGIC_MERGE, ClusterClient, Manifest
from podtune.cluster.pods.gang import belongs_to, rank_manifest, service_manifest
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal
from podtune.runner.actions import DONE, ActionResult, ActionStatus, CreatePod, OpenGates
from podtune.runner.records import Experiment

CreateOnePod = Callable[[Experiment, Manifest], Awaitable[tuple[Manifest | None, ActionResult]]]
"""Creates a pod, or finds the one that is there; returns it, None where it is another's, and how it went."""


class GangRequests:
    """Creates the pods of gangs, and has them scheduled."""

    def __init__(self, client: ClusterClient, seen: Callable[[Manifest], None], create_pod: CreateOnePod) -> None:
        """Prepares requests.

        Args:
            client: The API server.
            seen: Is told of pods that have changed.
            create_pod: Creates one pod.
        """
        self._client = client
        self._seen = seen
        self._create_pod = create_pod

    async def create(self, experiment: Experiment, action: CreatePod, body: Manifest) -> ActionResult:
        """Creates the pods of a gang by rank: those after rank 0 hold its UID, which is the attempt's id."""
        service = service_manifest(experiment, action)
        if await ownership.create(self._client, paths.services(experiment.namespace), service) is None:
            name = service["metadata"]["name"]
            return ActionResult(ActionStatus.FAILED, f"a Service {name} of another owner is in the way; delete it")
        leader_uid = ""
        for rank in range(action.replicas):
            manifest = rank_manifest(body, experiment, action, rank, leader_uid)
            made, result = await self._create_pod(experiment, manifest)
            if made is None:
                return result
            leader_uid = leader_uid or made["metadata"]["uid"]
            if rank > 0 and not belongs_to(made, leader_uid):
                message = f"pod {action.name_of(rank)} was made for a pod of rank 0 that is gone"
                return ActionResult(ActionStatus.REFUSED, message)
        return DONE

    async def open_gates(self, experiment: Experiment, action: OpenGates) -> ActionResult:
        """Takes our gate away from pods, and leaves those of others. A pod that is gone will be seen to be."""
        gates = [{"name": GANG_GATE, "$patch": "delete"}]
        for name, uid in action.pods:
            body = {"metadata": {"uid": uid}, "spec": {"schedulingGates": gates}}
            try:
                pod = await self._client.request(
                    "PATCH",
                    paths.pod(experiment.namespace, name),
                    params={"fieldManager": FIELD_MANAGER},
                    body=body,
                    content_type=STRATEGIC_MERGE,
                )
            except ApiRefusal as refusal:
                if not refusal.is_not_found and not refusal.is_conflict:
                    raise
            else:
                self._seen(pod)
        return DONE
