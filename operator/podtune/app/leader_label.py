"""The label by which the results Service finds the leader's pod."""

from __future__ import annotations

import contextlib

from podtune.api.names import LABEL_LEADER
from podtune.cluster.client import MERGE, ClusterClient, list_pages
from podtune.kube.errors import ResourceNotFound
from podtune.kube.paths import pod, pods


class LeaderLabel:
    """Puts the label on our own pod and takes it off others; does nothing outside of a cluster."""

    def __init__(self, client: ClusterClient, namespace: str, pod: str) -> None:
        self._client = client
        self._namespace = namespace
        self._pod = pod

    async def take(self) -> None:
        """We lead: the label comes off all others first, so that no result goes to two."""
        if not self._pod:
            return
        async for page in list_pages(self._client, pods(self._namespace), {"labelSelector": f"{LABEL_LEADER}=true"}):
            for other in page["items"]:
                if other["metadata"]["name"] != self._pod:
                    await self._set(other["metadata"]["name"], None)
        await self._set(self._pod, "true")

    async def drop(self) -> None:
        """We do not lead, or no longer."""
        if self._pod:
            await self._set(self._pod, None)

    async def _set(self, name: str, value: str | None) -> None:
        body = {"metadata": {"labels": {LABEL_LEADER: value}}}
        with contextlib.suppress(ResourceNotFound):
            await self._client.request("PATCH", pod(self._namespace, name), body=body, content_type=MERGE)
