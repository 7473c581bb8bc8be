"""The volume of a testbed: a claim that the API server knows, and what lies in the directory that stands for it."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from e2e.chaos.api import Api, Object
from e2e.chaos.bucket import MANIFEST, read_records, read_segments
from e2e.chaos.ground_truth import GroundTruth
from e2e.chaos.leftovers import LABEL
from e2e.chaos.pods.volumes import MountedVolume
from e2e.chaos.polling import until
from podtune.protocol.checkpoint import CheckpointRef
from podtune.storage.address import VolumeAddress
from podtune.storage.backoff import ExponentialBackoff
from podtune.storage.checkpoint.address import CheckpointAddress
from podtune.storage.checkpoint.manifest import MAX_MANIFEST_BYTES, digest_of
from podtune.storage.checkpoint.restore import Restorer
from podtune.storage.directory import Directory
from podtune.storage.volume.store import VolumeStore

BOUND_SECONDS = 60.0
_SIZE = "1Gi"


class Claim:
    """A PersistentVolumeClaim, made when it is first needed: the scheduler waits for one that is not bound."""

    def __init__(self, api: Api, namespace: str, volume: MountedVolume) -> None:
        self._api = api
        self._namespace = namespace
        self._volume = volume
        self._making = asyncio.Lock()
        self._is_made = False

    async def ensure(self) -> None:
        """Makes it, and its volume; returns when they are bound."""
        async with self._making:
            if self._is_made:
                return
            self._volume.directory.mkdir(parents=True)
            name = f"{self._namespace}-{self._volume.claim}"
            path = f"/api/v1/namespaces/{self._namespace}/persistentvolumeclaims"
            await self._api.request("POST", "/api/v1/persistentvolumes", self._make_volume(name))
            await self._api.request("POST", path, self._make_claim(name))

            async def is_bound() -> bool:
                claim = await self._api.request("GET", f"{path}/{self._volume.claim}")
                return bool(claim["status"].get("phase") == "Bound")

            assert await until(is_bound, BOUND_SECONDS, interval=0.5), f"{path} is not bound"
            self._is_made = True

    def _make_volume(self, name: str) -> Object:
        spec = {
            "storageClassName": "",
            "capacity": {"storage": _SIZE},
            "accessModes": ["ReadWriteMany"],
            "hostPath": {"path": f"/nonexistent/{name}"},  # no kubelet mounts it
            "claimRef": {"namespace": self._namespace, "name": self._volume.claim},
        }
        return {"metadata": {"name": name, "labels": {LABEL: "true"}}, "spec": spec}

    def _make_claim(self, volume: str) -> Object:
        spec = {
            "storageClassName": "",
            "volumeName": volume,
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": _SIZE}},
        }
        return {"metadata": {"name": self._volume.claim}, "spec": spec}


def look_into(volume: MountedVolume, prefix: str, uid: str, truth: GroundTruth) -> None:
    """Writes down what is stored of an experiment, what is wrong with it, and what was never finished."""
    address = VolumeAddress(volume.claim, prefix, str(volume.directory))
    store, own = VolumeStore(address), address.experiment_prefix(uid)
    for checkpoint in _list_checkpoints(store, address, own):
        truth.bucket[checkpoint.uri] = checkpoint.step
        truth.damaged += _find_damage(store, address, checkpoint)
    read_records(store, own, truth)
    read_segments(store, own, truth)
    truth.unfinished += [upload.key for upload in store.list_uploads(own)]


def list_checkpoints(volume: MountedVolume, prefix: str, uid: str) -> dict[str, int]:
    """The checkpoints of an experiment: URI and step of each that has a manifest."""
    address = VolumeAddress(volume.claim, prefix, str(volume.directory))
    found = _list_checkpoints(VolumeStore(address), address, address.experiment_prefix(uid))
    return {checkpoint.uri: checkpoint.step for checkpoint in found}


def _list_checkpoints(store: VolumeStore, address: VolumeAddress, own: str) -> Iterator[CheckpointAddress]:
    for key in store.list(own):
        if key.endswith(MANIFEST):
            yield CheckpointAddress(address.uri, key.removesuffix(MANIFEST))


def _find_damage(store: VolumeStore, address: VolumeAddress, checkpoint: CheckpointAddress) -> list[str]:
    """What is wrong with a checkpoint: all its files are read."""
    digest = digest_of(store.get_bytes(checkpoint.manifest, MAX_MANIFEST_BYTES))
    backoff = ExponentialBackoff(0.1, 0.1, random.Random(0))
    restorer = Restorer(store, address, backoff=backoff, patience=0.0, clock=time.monotonic, sleep=time.sleep)
    with tempfile.TemporaryDirectory() as folder:
        found = restorer.restore(
            [CheckpointRef(checkpoint.uri, digest, checkpoint.step)], Directory(Path(folder)), "restored"
        )
    return [] if found.manifest is not None else [f"{checkpoint.uri}: {found.message}"]
