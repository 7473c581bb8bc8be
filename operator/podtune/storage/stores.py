"""Makes the store that an address describes."""

from __future__ import annotations

from podtune.storage.address import (
    AzureAddress,
    FileAddress,
    GcsAddress,
    PluginAddress,
    S3Address,
    StoreAddress,
    VolumeAddress,
)
from podtune.storage.cloud.store import CloudStore
from podtune.storage.errors import StoreSettingsError
from podtune.storage.object_store import ObjectStore
from podtune.storage.patience import Patience
from podtune.storage.plugins import PluginStore
from podtune.storage.s3.store import S3Store
from podtune.storage.volume.store import VolumeStore


def make_store(address: StoreAddress, patience: Patience | None = None) -> ObjectStore:
    """The store at an address; nothing is asked of it yet.

    Args:
        address: Where it is.
        patience: How long requests to a bucket's server may take; as agents wait for it, where None is given.
    """
    match address:
        case S3Address():
            return S3Store(address, patience)
        case GcsAddress() | AzureAddress():
            return CloudStore(address, patience)
        case VolumeAddress() | FileAddress():
            return VolumeStore(address)
        case PluginAddress():
            return PluginStore(address)
        case _:
            raise StoreSettingsError(f"there is no way to reach {address.where}")
