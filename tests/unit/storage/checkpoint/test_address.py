import pytest

from podtune.storage.address import S3Address
from podtune.storage.checkpoint.address import TrialAddress, parse_checkpoint_uri
from podtune.storage.errors import StoreSettingsError


@pytest.mark.parametrize("prefix", ["", "a", "a/b"])
def test_a_checkpoint_is_found_by_its_uri(prefix: str) -> None:
    store = S3Address("models", prefix)
    address = TrialAddress(store, "uid", "t").checkpoint("pod/2", "9")
    assert parse_checkpoint_uri(store, address.uri) == address
    assert address.step == 9
    assert address.uri == f"s3://models/{prefix}{'/' if prefix else ''}uid/t/pod-2/9"


def test_that_of_another_store_is_refused() -> None:
    with pytest.raises(StoreSettingsError, match="'s3://models/uid/t/pod/9' is not in the store, s3://other"):
        parse_checkpoint_uri(S3Address("other"), "s3://models/uid/t/pod/9")
