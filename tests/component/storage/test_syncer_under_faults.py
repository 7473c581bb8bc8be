"""Checkpoints on a real S3 server whose network, and whose disk, are not to be relied on."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from podtune.protocol.checkpoint import CheckpointRef
from podtune.storage.address import S3Address
from podtune.storage.backoff import ExponentialBackoff
from podtune.storage.checkpoint import file_upload
from podtune.storage.checkpoint.address import TrialAddress
from podtune.storage.checkpoint.local_tree import LocalFile, open_tree
from podtune.storage.checkpoint.manifest import ManifestFile
from podtune.storage.checkpoint.restore import RestoreOutcome, Restorer
from podtune.storage.checkpoint.syncer import CheckpointInfo, Options, upload_checkpoint
from podtune.storage.directory import Directory
from podtune.storage.errors import StoreError, Unreachable
from podtune.storage.object_store import MultipartStore
from podtune.storage.s3.store import S3Store
from podtune.storage.stores import make_store
from tests.component.storage.proxy import Exchange, Fault, Proxy, times

PART = 5 << 20


@pytest.fixture
def proxy(s3_server: tuple[str, Path]) -> Iterator[Proxy]:
    proxy = Proxy(s3_server[0])
    yield proxy
    proxy.close()


@pytest.fixture
def trial(proxy: Proxy, bucket: str) -> TrialAddress:
    return TrialAddress(S3Address(bucket, "demo", proxy.url), "uid", "digits-7")


@pytest.fixture
def direct(s3_server: tuple[str, Path], bucket: str) -> S3Store:
    """The bucket without the proxy."""
    return S3Store(S3Address(bucket, "demo", s3_server[0]))


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_upload, "WHOLE", PART)
    monkeypatch.setattr(file_upload, "CHUNK", PART)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "shared" / "c1"
    directory.mkdir(parents=True)
    (directory / "large").write_bytes(os.urandom(2 * PART + 1000))
    for number in range(20):
        (directory / f"small-{number}").write_bytes(os.urandom(1000))
    return directory


@pytest.fixture
def restored(tmp_path: Path) -> Path:
    """Where to restore to."""
    return tmp_path / "restored"


def upload(
    trial: TrialAddress,
    source: Path,
    *,
    packs: bool = False,
    step: int = 1,
    done: dict[LocalFile, ManifestFile] | None = None,
) -> CheckpointRef:
    address = trial.checkpoint("pod-1", str(step))
    with open_tree(Directory(source.parent), (source.name,)) as tree:
        info = CheckpointInfo("pod-1", step, step, "")
        digest = upload_checkpoint(
            make_store(trial.store), tree, address, info, options=Options(packs=packs), done=done
        )
    return CheckpointRef(address.uri, digest, step)


def restore(
    trial: TrialAddress, candidates: Sequence[CheckpointRef], directory: Path, patience: float = 60.0
) -> RestoreOutcome:
    restorer = Restorer(
        make_store(trial.store), trial.store, backoff=ExponentialBackoff(0.05, 0.2, Random(0)), patience=patience,
        clock=lambda: 0.0, sleep=lambda _: None,
    )  # fmt: skip
    return restorer.restore(candidates, Directory(directory.parent), directory.name)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def unavailable(exchange: Exchange) -> None:
    exchange.status = 503


def lost(exchange: Exchange) -> None:
    exchange.lost = True


def cut(exchange: Exchange) -> None:
    exchange.cut = True


def flipped(exchange: Exchange) -> None:
    exchange.flipped = True


def damaged(exchange: Exchange) -> None:
    exchange.damaged = True


def of_data(exchange: Exchange) -> bool:
    return "/data/" in exchange.target or "/packs/" in exchange.target


def writes_data(exchange: Exchange) -> bool:
    return exchange.method == "PUT" and of_data(exchange)


def reads_data(exchange: Exchange) -> bool:
    return exchange.method == "GET" and of_data(exchange)


def completes(exchange: Exchange) -> bool:
    return exchange.method == "POST" and "uploadId=" in exchange.target


@pytest.mark.parametrize("packs", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize(
    ("matches", "change"),
    [(writes_data, unavailable), (writes_data, lost), (completes, lost), (completes, unavailable)],
    ids=["503", "answer lost", "completion's answer lost", "completion refused for now"],
)
def test_an_upload_survives_what_passes(
    trial: TrialAddress,
    proxy: Proxy,
    source: Path,
    restored: Path,
    *,
    matches: Callable[[Exchange], bool],
    change: Fault,
    packs: bool,
) -> None:
    proxy.faults = [times(2, matches, change)]
    candidate = upload(trial, source, packs=packs)
    proxy.faults = []
    assert restore(trial, [candidate], restored).checkpoint == candidate
    assert contents(restored) == contents(source)
    store = make_store(trial.store)
    assert isinstance(store, MultipartStore)
    assert list(store.list_uploads("")) == []


@pytest.mark.parametrize("packs", [False, True], ids=["plain", "packed"])
def test_what_was_damaged_on_its_way_is_not_stored_and_sent_again(
    trial: TrialAddress, proxy: Proxy, source: Path, restored: Path, packs: bool
) -> None:
    proxy.faults = [times(1, writes_data, damaged)]
    done: dict[LocalFile, ManifestFile] = {}
    with pytest.raises(Unreachable, match="XAmzContentSHA256Mismatch"):
        upload(trial, source, packs=packs, done=done)
    candidate = upload(trial, source, packs=packs, done=done)
    assert restore(trial, [candidate], restored).checkpoint == candidate
    assert contents(restored) == contents(source)


@pytest.mark.parametrize("packs", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("change", [unavailable, cut, flipped], ids=["503", "cut off", "bit flipped"])
def test_a_restore_survives_what_passes(
    trial: TrialAddress, proxy: Proxy, source: Path, restored: Path, *, change: Fault, packs: bool
) -> None:
    candidate = upload(trial, source, packs=packs)
    proxy.faults = [times(1, reads_data, change)]
    assert restore(trial, [candidate], restored).checkpoint == candidate
    assert contents(restored) == contents(source)


@pytest.mark.parametrize("change", [flipped, lambda exchange: setattr(exchange, "status", 404)], ids=["flipped", "404"])
def test_what_is_damaged_for_good_falls_back_to_the_one_before(
    trial: TrialAddress, proxy: Proxy, source: Path, tmp_path: Path, change: Fault
) -> None:
    first = upload(trial, source, step=1)
    second = upload(trial, source, step=2)
    proxy.faults = [times(1000, lambda exchange: reads_data(exchange) and "/2/" in exchange.target, change)]
    outcome = restore(trial, [second, first], tmp_path / "restored")
    assert outcome.checkpoint == first
    assert "is damaged" in outcome.message or "is missing" in outcome.message


def test_an_upload_that_fails_leaves_no_parts_and_no_checkpoint_and_goes_on_later(
    trial: TrialAddress, proxy: Proxy, direct: S3Store, source: Path, tmp_path: Path
) -> None:
    proxy.faults = [times(1000, lambda exchange: "partNumber=2" in exchange.target, unavailable)]
    done: dict[LocalFile, ManifestFile] = {}
    with pytest.raises(Unreachable):
        upload(trial, source, done=done)
    assert list(direct.list_uploads("")) == []
    assert not any(key.endswith("/manifest.json") for key in direct.list(""))
    earlier = tuple(done)
    proxy.faults, proxy.seen = [], []
    candidate = upload(trial, source, done=done)
    written = {exchange.target for exchange in proxy.seen if writes_data(exchange)}
    assert not any(target.endswith(f"/{file.path}") for file in earlier for target in written)
    assert restore(trial, [candidate], tmp_path / "restored").checkpoint == candidate


def test_a_refusal_is_not_asked_for_again(trial: TrialAddress, proxy: Proxy, source: Path) -> None:
    proxy.faults = [times(1000, writes_data, lambda exchange: setattr(exchange, "status", 403))]
    with pytest.raises(StoreError) as caught:
        upload(trial, source)
    assert caught.value.permanent
    refused = [exchange.target for exchange in proxy.seen if writes_data(exchange)]
    assert len(refused) == len(set(refused))
