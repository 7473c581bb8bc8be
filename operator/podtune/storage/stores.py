"""Makes the store that an address describes."""

from __future__ import annotations

from podtune.storage.address import S3Address, StoreAddress, VolumeAddress
from podtune.storage.errors import StoreSettingsError
from podtune.storage.object_store import ObjectStore
from podtune.storage.s3.store import S3Store
from podtune.storage.volume.store import VolumeStore


def make_store(address: StoreAddress) -> ObjectStore:
    """The store at an address; nothing is asked of it yet."""
    match address:
        case S3Address():
            return S3Store(address)
        case VolumeAddress():
            return VolumeStore(address)
        case _:
            raise StoreSettingsError(f"there is no way to reach {address.where}")
