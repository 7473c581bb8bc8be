"""Keeps what the next operator must know in a ConfigMap of the operator's own namespace, all of it in one write.

Each receiver of webhooks has one, with how far it has heard and what is held for it; traces have another.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

from podtune.api.names import FIELD_MANAGER, LABEL_MANAGED_BY, MANAGED_BY
from podtune.cluster.client import ClusterClient, read_if_there
from podtune.kube import paths
from podtune.kube.errors import ResourceConflict, ResourceExists, ResourceNotFound
from podtune.kube.manifests import Manifest

MAX_RECORD_BYTES = 960 << 10
"""A ConfigMap may have 1 MiB."""
_HELD = "held"


@dataclass(frozen=True, slots=True)
class KeptRecord:
    """What is kept.

    Attributes:
        texts: By key; of a receiver see `podtune.webhooks.positions`.
        held: Of a receiver, see `podtune.webhooks.kept_events`.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    held: bytes = b""


class RecordStore:
    """One such ConfigMap.

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

    async def load(self) -> KeptRecord | None:
        """Reads what was kept; None where nothing ever was.

        Raises:
            ApiError: The API server could not be asked.
        """
        body = await read_if_there(self._client, paths.config_map(self.namespace, self.name))
        self._version = body["metadata"]["resourceVersion"] if body is not None else ""
        self.uid = str(body["metadata"].get("uid", "")) if body is not None else ""
        return _read_record(body) if body is not None else None

    async def save(self, record: KeptRecord) -> None:
        """Puts it in the place of what was kept.

        Raises:
            ApiError: It could not be kept.
        """
        try:
            await self._write(record)
        except (ResourceConflict, ResourceExists, ResourceNotFound):  # somebody has edited or deleted it
            await self.load()
            await self._write(record)

    async def _write(self, record: KeptRecord) -> None:
        metadata: Manifest = {"name": self.name, "labels": {LABEL_MANAGED_BY: MANAGED_BY}}
        body: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(record.texts)}
        if record.held:
            body["binaryData"] = {_HELD: base64.b64encode(record.held).decode()}
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


def _read_record(body: Manifest) -> KeptRecord:
    held = (body.get("binaryData") or {}).get(_HELD, "")
    return KeptRecord(dict(body.get("data") or {}), base64.b64decode(held))
