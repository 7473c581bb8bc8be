import pytest

from podtune.storage.errors import BucketNotFound
from podtune.testing.stores import MultipartStoreConformance
from tests.unit.storage.memory_store import MemoryStore


class TestMemoryStore(MultipartStoreConformance):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()

    def test_a_missing_bucket_is_named(self) -> None:
        with pytest.raises(BucketNotFound):
            MemoryStore(bucket_exists=False).check()
