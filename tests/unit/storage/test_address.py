import pytest

from podtune.storage.address import (
    AzureAddress,
    FileAddress,
    GcsAddress,
    PluginAddress,
    S3Address,
    StoreAddress,
    VolumeAddress,
    parse_store_address,
)
from podtune.storage.errors import StoreSettingsError

S3 = S3Address("models", "team/digits", "http://s3:9000", credentials="/etc/podtune/credentials/models-s3")


def test_an_uri_means_a_key_of_its_store() -> None:
    assert S3.find_key("s3://models/a/b") == "a/b"
    assert S3.holds("s3://models/a/b")


@pytest.mark.parametrize(
    "uri", ["", "nonsense", "s3://", "s3://models", "s3://model/a", "s3://models2/a", "gs://models/a"]
)
def test_one_of_another_store_is_refused(uri: str) -> None:
    assert not S3.holds(uri)
    with pytest.raises(StoreSettingsError, match="is not in the store, s3://models"):
        S3.find_key(uri)


@pytest.mark.parametrize("key", ["", "/", "a/", "/a", "a//b", ".", "..", "a/../b", "./a"])
def test_an_uri_that_means_no_key_or_another_one_is_refused(key: str) -> None:
    for find in (S3.find_key, S3.find_sibling):
        with pytest.raises(StoreSettingsError, match="write it like s3://models/path"):
            find(f"s3://models/{key}")


def test_another_bucket_of_the_server_is_reached_with_the_same_credentials() -> None:
    assert S3.find_sibling("s3://exports/digits/best") == (
        S3Address("exports", "team/digits", "http://s3:9000", credentials="/etc/podtune/credentials/models-s3"),
        "digits/best",
    )
    assert S3.find_sibling("s3://models/digits/best") == (S3, "digits/best")


@pytest.mark.parametrize("uri", ["", "exports", "gs://exports/a", "s3:///a"])
def test_an_address_in_no_bucket_is_no_sibling(uri: str) -> None:
    with pytest.raises(StoreSettingsError, match="is not an address in a bucket"):
        S3.find_sibling(uri)


VOLUME = VolumeAddress("checkpoints", "team/digits")


def test_a_volume_is_called_as_its_claim() -> None:
    assert VOLUME.uri == "volume://checkpoints"
    assert VOLUME.where == "the volume of claim 'checkpoints'"
    assert VOLUME.find_key("volume://checkpoints/a/b") == "a/b"


def test_of_volumes_no_other_is_reached() -> None:
    assert VOLUME.find_sibling("volume://checkpoints/a/b") == (VOLUME, "a/b")
    for uri in ("volume://others/a", "s3://checkpoints/a"):
        with pytest.raises(StoreSettingsError, match="is not in the store, volume://checkpoints"):
            VOLUME.find_sibling(uri)


@pytest.mark.parametrize(
    ("text", "address", "uri", "where"),
    [
        (
            '{"kind": "gcs", "bucket": "models", "prefix": "team"}',
            GcsAddress("models", "team"),
            "gs://models",
            "bucket 'models' at Google Cloud Storage",
        ),
        (
            '{"kind": "azure", "account": "lab", "container": "models"}',
            AzureAddress("models", "lab"),
            "az://models",
            "container 'models' at Azure account 'lab'",
        ),
        ('{"kind": "file", "directory": "/tmp/a"}', FileAddress("/tmp/a"), "file:///tmp/a", "directory '/tmp/a'"),
        (
            '{"kind": "plugin", "name": "shelf", "settings": "{}", "credentials": "/etc/key"}',
            PluginAddress("shelf", credentials="/etc/key"),
            "plugin://shelf",
            "store plugin 'shelf'",
        ),
    ],
)
def test_each_kind_of_store_has_uris_of_its_own(text: str, address: StoreAddress, uri: str, where: str) -> None:
    assert parse_store_address(text) == address
    assert (address.uri, address.where) == (uri, where)
    assert address.find_key(f"{uri}/a/b") == "a/b"
    assert address.find_sibling(f"{uri}/a/b") == (address, "a/b")
    assert not S3.holds(f"{uri}/a/b")


def test_other_buckets_of_google_and_containers_of_the_account_are_siblings() -> None:
    assert GcsAddress("models", "t").find_sibling("gs://exports/a") == (GcsAddress("exports", "t"), "a")
    assert AzureAddress("models", "lab").find_sibling("az://exports/a") == (AzureAddress("exports", "lab"), "a")
    for address, scheme in ((GcsAddress("models"), "gs"), (AzureAddress("models", "lab"), "az")):
        with pytest.raises(StoreSettingsError, match=f"write it like {scheme}://bucket/path"):
            address.find_sibling("s3://models/a")


def test_of_plugins_and_directories_no_other_is_reached() -> None:
    for address in (PluginAddress("shelf"), FileAddress("/tmp/a")):
        with pytest.raises(StoreSettingsError, match=f"is not in the store, {address.uri}"):
            address.find_sibling("plugin://other/a")


def test_a_volume_is_told_by_its_kind() -> None:
    assert parse_store_address('{"kind": "volume", "claim": "c"}') == VolumeAddress("c", "", "/podtune-store")


def test_the_prefix_comes_before_the_experiment() -> None:
    assert S3.experiment_prefix("uid") == "team/digits/uid/"
    assert S3Address("models").experiment_prefix("uid") == "uid/"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ("{}", "bucket is missing; name an existing bucket"),
        ('{"bucket": ""}', "bucket is missing"),
        ('{"kind": "volume"}', "claim is missing; name an existing claim"),
        ('{"kind": "tape"}', "kind is 'tape', which this agent does not know: its image is too old"),
        ('{"kind": ["s3"]}', "this agent does not know"),
        ('{"bucket": "b", "region": 1}', "region is 1, which is not a string"),
        ('{"bucket": "b", "addressing": "Host"}', "addressing is 'Host'; write one of Auto, Path, VirtualHost"),
    ],
)
def test_bad_settings_name_the_field(text: str, said: str) -> None:
    with pytest.raises(StoreSettingsError, match=said):
        parse_store_address(text)


def test_what_is_null_or_unknown_is_as_if_it_were_missing() -> None:
    assert parse_store_address('{"bucket": "b", "endpoint": null, "size": 3}') == S3Address("b")
