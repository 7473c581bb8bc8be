import pytest

from podtune.storage.errors import BucketNotFound
from tests.unit.storage.memory_store import MemoryStore
from tests.unit.storage.object_store_conformance import ObjectStoreConformance


class TestMemoryStore(ObjectStoreConformance):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()

    def test_a_missing_bucket_is_named(self) -> None:
        with pytest.raises(BucketNotFound):
            MemoryStore(bucket_exists=False).check()
