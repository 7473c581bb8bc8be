"""`CloudStore` against Azurite, and against what stands for Google: the suite, and what their credentials ask for."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.stores.azure_server import AzureServer
from e2e.stores.google_server import GoogleServer, make_service_account
from podtune.storage.address import AzureAddress, GcsAddress
from podtune.storage.cloud import client
from podtune.storage.cloud.store import CloudStore
from podtune.storage.errors import AccessDenied, BucketNotFound, InvalidCredentials, Unreachable
from podtune.testing.stores import ObjectStoreConformance


class TestGoogleStore(ObjectStoreConformance):
    @pytest.fixture
    def store(self, google_bucket: GcsAddress) -> CloudStore:
        return CloudStore(google_bucket)


class TestAzureStore(ObjectStoreConformance):
    @pytest.fixture
    def store(self, azure_container: AzureAddress) -> CloudStore:
        return CloudStore(azure_container)


@pytest.fixture(params=["google_bucket", "azure_container"])
def address(request: pytest.FixtureRequest) -> GcsAddress | AzureAddress:
    """Each kind of store in turn."""
    found: GcsAddress | AzureAddress = request.getfixturevalue(request.param)
    return found


def test_a_missing_bucket_is_named_with_the_remedy_and_no_object_is_held_for_lost(
    address: GcsAddress | AzureAddress,
) -> None:
    missing = (
        replace(address, bucket="no-such-bucket")
        if isinstance(address, GcsAddress)
        else replace(address, container="no-such-container")
    )
    store = CloudStore(missing)
    for ask in (
        store.check,
        lambda: store.put_bytes("a", b""),
        lambda: store.get_bytes("a", 1),
        lambda: list(store.list("a/")),
        lambda: store.exists("a"),
    ):
        with pytest.raises(BucketNotFound, match="does not exist; create it") as caught:
            ask()
        assert caught.value.permanent


def test_credentials_that_are_refused_are_told_and_those_that_were_corrected_are_used(
    google_bucket: GcsAddress, azure_container: AzureAddress
) -> None:
    wrong: dict[GcsAddress | AzureAddress, tuple[str, str]] = {
        google_bucket: ("serviceAccountKey", make_service_account("stranger").key_file),
        azure_container: ("accountKey", "d3Jvbmc="),
    }
    for address, (key, value) in wrong.items():
        store, file = CloudStore(address), Path(address.credentials) / key
        right = file.read_text()
        store.put_bytes("a", b"1")
        file.write_text(value)
        for ask in (store.check, lambda store=store: store.get_bytes("a", 1), lambda store=store: store.exists("a")):
            with pytest.raises(
                InvalidCredentials, match=f"in Secret '{file.parent.name}'; running agents will read it"
            ):
                ask()
        file.write_text(right)
        assert store.get_bytes("a", 1) == b"1"


def test_a_key_that_was_rotated_is_used_at_once(google_server: GoogleServer, google_bucket: GcsAddress) -> None:
    google_server.add_account("retired")
    file = Path(google_bucket.credentials) / "serviceAccountKey"
    file.write_text(google_server.accounts["retired"].key_file)
    store = CloudStore(google_bucket)
    store.put_bytes("a", b"1")
    file.write_text(google_server.accounts["trials"].key_file)
    del google_server.accounts["retired"]
    assert store.get_bytes("a", 1) == b"1"


def test_who_may_only_read_is_told_which_role_is_missing(
    google_server: GoogleServer, google_bucket: GcsAddress, azure_server: AzureServer, azure_container: AzureAddress
) -> None:
    reader = google_server.add_account("reader")
    google_server.readers.add(reader.email)
    (Path(google_bucket.credentials) / "serviceAccountKey").write_text(reader.key_file)
    secret = Path(azure_container.credentials)
    (secret / "accountKey").unlink()
    (secret / "sasToken").write_text(azure_server.sign_sas(azure_container.container, "rl"))
    for address, role in (
        (google_bucket, "roles/storage.objectUser"),
        (azure_container, "Storage Blob Data Contributor"),
    ):
        store = CloudStore(address)
        store.check()
        with pytest.raises(AccessDenied, match=role):
            store.put_bytes("a", b"1")
        with pytest.raises(AccessDenied, match=role):
            store.put_bytes("a", b"1" * (20 << 20))


def test_a_signature_for_the_container_is_enough(azure_server: AzureServer, azure_container: AzureAddress) -> None:
    secret = Path(azure_container.credentials)
    (secret / "accountKey").unlink()
    (secret / "sasToken").write_text(azure_server.sign_sas(azure_container.container, "racwdl"))
    store = CloudStore(azure_container)
    store.put_bytes("a/b", b"1" * (20 << 20))
    assert store.get_bytes("a/b", 10) == b"1" * 11
    assert list(store.list("a/")) == ["a/b"]
    store.delete(["a/b", "missing"])
    assert list(store.list("a/")) == []


def test_a_server_that_is_away_is_no_reason_to_hold_anything_for_lost(
    address: GcsAddress | AzureAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(client._RETRY, "max_retries", 0)
    store = CloudStore(replace(address, endpoint="http://127.0.0.1:9"))
    for ask in (store.check, lambda: store.get_bytes("a", 1), lambda: store.exists("a")):
        with pytest.raises(Unreachable, match="does not answer"):
            ask()


def test_large_objects_come_back_whole(address: GcsAddress | AzureAddress) -> None:
    content = os.urandom(1 << 20) * 70
    store = CloudStore(address)
    store.put_bytes("large", content)
    assert b"".join(store.get("large")) == content
    assert b"".join(store.get("large", 30 << 20, 1000)) == content[30 << 20 :][:1000]
