import pytest

from podtune.storage.errors import BucketNotFound
from tests.unit.storage.memory_store import MemoryStore
from tests.unit.storage.object_store_conformance import ObjectStoreConformance


class TestMemoryStore(ObjectStoreConformance):
    @pytest.fixture
    def store(self):
        return MemoryStore()

    def test_a_missing_bucket_is_named(self):
        with pytest.raises(BucketNotFound):
            MemoryStore(bucket_exists=False).check()
