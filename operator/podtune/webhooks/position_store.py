"""Keeps how far receivers have heard in a ConfigMap for each, in the operator's own namespace."""

from __future__ import annotations

from collections.abc import Mapping

from podtune.api.names import FIELD_MANAGER, LABEL_MANAGED_BY, MANAGED_BY
from podtune.cluster.client import ClusterClient, read_if_there
from podtune.kube import paths
from podtune.kube.errors import ResourceConflict, ResourceExists, ResourceNotFound
from podtune.kube.manifests import Manifest


class PositionStore:
    """The ConfigMap of one receiver.

    Attributes:
        namespace: Where it is.
        name: Its name.
        uid: Its UID; empty while it is not known.
    """

    def __init__(self, client: ClusterClient, namespace: str, name: str) -> None:
        self._client = client
        self.namespace = namespace
        self.name = name
        self.uid = ""
        self._version = ""

    async def load(self) -> dict[str, str] | None:
        """Reads what was kept; None where nothing ever was.

        Raises:
            ApiError: The API server could not be asked.
        """
        body = await read_if_there(self._client, paths.config_map(self.namespace, self.name))
        self._version = body["metadata"]["resourceVersion"] if body is not None else ""
        self.uid = str(body["metadata"].get("uid", "")) if body is not None else ""
        return dict(body.get("data") or {}) if body is not None else None

    async def save(self, data: Mapping[str, str]) -> None:
        """Puts it in the place of what was kept.

        Raises:
            ApiError: It could not be kept.
        """
        try:
            await self._write(data)
        except (ResourceConflict, ResourceExists, ResourceNotFound):  # somebody has edited or deleted it
            await self.load()
            await self._write(data)

    async def _write(self, data: Mapping[str, str]) -> None:
        metadata: Manifest = {"name": self.name, "labels": {LABEL_MANAGED_BY: MANAGED_BY}}
        body: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}
        params = {"fieldManager": FIELD_MANAGER}
        if self._version:
            metadata["resourceVersion"] = self._version
            path = paths.config_map(self.namespace, self.name)
            written = await self._client.request("PUT", path, params=params, body=body)
        else:
            path = paths.config_maps(self.namespace)
            written = await self._client.request("POST", path, params=params, body=body)
        self._version = written["metadata"]["resourceVersion"]
        self.uid = str(written["metadata"].get("uid", ""))
