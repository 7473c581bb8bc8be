"""`CloudStore` upon obstore's own store in memory; the real protocols are held to the suite in tests/component."""

import pytest
from obstore.store import MemoryStore

from podtune.storage.address import GcsAddress
from podtune.storage.cloud.client import CloudClient
from podtune.storage.cloud.store import CloudStore
from podtune.testing.stores import ObjectStoreConformance


class TestCloudStore(ObjectStoreConformance):
    @pytest.fixture
    def store(self, monkeypatch: pytest.MonkeyPatch) -> CloudStore:
        client = CloudClient(MemoryStore())
        monkeypatch.setattr("podtune.storage.cloud.client.make_cloud_client", lambda *_: client)
        return CloudStore(GcsAddress("models"))
