"""Which store an address means, and that nothing is loaded for it before it is used."""

import subprocess
import sys
from pathlib import Path

import pytest

from podtune.storage.address import AzureAddress, FileAddress, GcsAddress, S3Address, StoreAddress, VolumeAddress
from podtune.storage.cloud.store import CloudStore
from podtune.storage.errors import StoreSettingsError
from podtune.storage.object_store import MultipartStore, ObjectStore
from podtune.storage.s3.store import S3Store
from podtune.storage.stores import make_store
from podtune.storage.volume.store import VolumeStore
from podtune.testing.stores import MultipartStoreConformance


class TestStoreOfADirectory(MultipartStoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        (tmp_path / "store").mkdir()
        return make_store(FileAddress(str(tmp_path / "store")))


@pytest.mark.parametrize(
    ("address", "kind", "takes_parts"),
    [
        (S3Address("b"), S3Store, True),
        (GcsAddress("b"), CloudStore, False),
        (AzureAddress("b", "lab"), CloudStore, False),
        (VolumeAddress("b"), VolumeStore, True),
        (FileAddress("/tmp"), VolumeStore, True),
    ],
)
def test_each_address_has_its_store(address: StoreAddress, kind: type[object], takes_parts: bool) -> None:
    store = make_store(address)
    assert type(store) is kind
    assert isinstance(store, ObjectStore)
    assert isinstance(store, MultipartStore) is takes_parts


def test_no_library_is_loaded_before_a_store_needs_it() -> None:
    lines = (
        "import sys, podtune.agent.main",
        "from podtune.storage.address import GcsAddress, S3Address",
        "from podtune.storage.stores import make_store",
        "make_store(GcsAddress('b')), make_store(S3Address('b'))",
        "print(sorted({'obstore', 'boto3', 'botocore', 'importlib.metadata'} & sys.modules.keys()))",
    )
    done = subprocess.run([sys.executable, "-c", "; ".join(lines)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_library_that_is_missing_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("obstore", "podtune.storage.cloud.errors", "podtune.storage.cloud.client"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)
    with pytest.raises(
        StoreSettingsError, match="obstore, which is not installed here; in a cluster, use the agent's image"
    ):
        make_store(GcsAddress("b")).check()
