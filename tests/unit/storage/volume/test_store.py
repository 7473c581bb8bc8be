"""A store on a volume: held to the suite for all stores, and to what files ask for besides."""

import errno
import io
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from podtune.storage.address import VolumeAddress
from podtune.storage.content import BytesContent
from podtune.storage.errors import (
    AccessDenied,
    NotFound,
    OutOfSpace,
    RequestRejected,
    StoreError,
    Unreachable,
)
from podtune.storage.object_store import PartialUpload
from podtune.storage.volume import unfinished
from podtune.storage.volume.store import VolumeStore
from podtune.testing.stores import MultipartStoreConformance

OTHERS = "0123456789abcdef"


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    (tmp_path / "volume").mkdir()
    return tmp_path / "volume"


@pytest.fixture
def store(volume: Path) -> VolumeStore:
    return VolumeStore(VolumeAddress("checkpoints", "team/digits", str(volume)))


class TestConformance(MultipartStoreConformance):
    """See `MultipartStoreConformance`."""


def files(volume: Path) -> list[str]:
    """All that lies on it, folders with a slash at their end."""
    paths = [path for path in volume.rglob("*") if path.name != ""]
    return sorted(f"{path.relative_to(volume)}{'/' if path.is_dir() else ''}" for path in paths)


def failing(code: int) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def test_an_object_is_a_plain_file_that_the_group_may_read(store: VolumeStore, volume: Path) -> None:
    store.put_bytes("a/b/c", b"content")
    assert (volume / "a" / "b" / "c").read_bytes() == b"content"
    assert stat.S_IMODE((volume / "a" / "b" / "c").stat().st_mode) & 0o777 == 0o640
    assert stat.S_IMODE((volume / "a" / "b").stat().st_mode) & 0o777 == 0o750


def test_checking_leaves_nothing_but_the_prefix(store: VolumeStore, volume: Path) -> None:
    store.check()
    assert files(volume) == ["team/", "team/digits/"]


def test_a_file_system_that_folds_capitals_is_refused(store: VolumeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podtune.storage.volume.store._is_there", lambda *_: True)
    with pytest.raises(RequestRejected, match="does not tell capitals from small letters"):
        store.check()


def test_folders_that_become_empty_go_as_far_as_the_prefix(store: VolumeStore, volume: Path) -> None:
    for key in ("team/digits/uid/e-1/1/x", "team/digits/uid/e-2/1/x", "other/x"):
        store.put_bytes(key, b"")
    store.delete(["team/digits/uid/e-1/1/x", "other/x"])
    assert files(volume) == [
        "team/", "team/digits/", "team/digits/uid/", "team/digits/uid/e-2/", "team/digits/uid/e-2/1/",
        "team/digits/uid/e-2/1/x",
    ]  # fmt: skip
    store.delete(["team/digits/uid/e-2/1/x"])
    assert files(volume) == ["team/", "team/digits/"]


def test_many_may_store_and_delete_in_one_folder(store: VolumeStore, volume: Path) -> None:
    """A folder may be removed, being empty, at the moment when somebody else is about to store in it."""

    def work(number: int) -> None:
        for _ in range(60):
            store.put_bytes(f"dir/sub/{number}", b"x")
            store.delete([f"dir/sub/{number}"])

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, number) for number in range(4)]:
            done.result()
    assert files(volume) == []


@pytest.mark.parametrize("moment", ["fsync", "rename", "pwrite"])
@pytest.mark.parametrize("how", ["put", "copy"])
def test_what_fails_while_it_is_stored_leaves_the_old_object_and_no_file(
    store: VolumeStore, volume: Path, monkeypatch: pytest.MonkeyPatch, moment: str, how: str
) -> None:
    store.put_bytes("dir/a", b"old")
    store.put_bytes("dir/b", b"new")
    if how == "copy" and moment == "pwrite":
        moment = "copy_file_range"
    with monkeypatch.context() as patch:
        patch.setattr(os, moment, failing(errno.ENOSPC))
        with pytest.raises(OutOfSpace, match="is full while"):
            store.put_bytes("dir/a", b"new") if how == "put" else store.copy("dir/b", "dir/a")
    assert files(volume) == ["dir/", "dir/a", "dir/b"]
    assert store.get_bytes("dir/a", 10) == b"old"


def test_what_was_stored_is_made_to_stay_before_it_has_its_name(
    store: VolumeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    for name in ("fsync", "rename"):
        real = getattr(os, name)

        def call(*arguments: int, name: str = name, real: Callable[..., None] = real, **options: int) -> None:
            calls.append(f"{name} {'folder' if stat.S_ISDIR(os.fstat(arguments[0]).st_mode) else 'file'}"
                         if name == "fsync" else name)  # fmt: skip
            real(*arguments, **options)

        monkeypatch.setattr(os, name, call)
    store.put_bytes("new/a", b"x")
    assert calls == ["fsync folder", "fsync file", "rename", "fsync folder"]


def test_what_an_agent_that_was_killed_has_left_is_no_object_and_can_be_aborted(
    store: VolumeStore, volume: Path
) -> None:
    (volume / "dir").mkdir()
    (volume / "dir" / f".podtune-{OTHERS}-weights").write_bytes(b"half")
    assert list(store.list("")) == []
    (upload,) = store.list_uploads("dir/")
    assert upload == PartialUpload("dir/weights", OTHERS)
    assert list(store.list_uploads("other/")) == []
    store.abort_upload(upload)
    assert files(volume) == []


def test_a_key_like_an_unfinished_files_is_refused(store: VolumeStore) -> None:
    with pytest.raises(RequestRejected, match="files that are not finished have such names"):
        store.put_bytes(f"dir/.podtune-{OTHERS}-weights", b"")


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "../a", "a/../b", "a/\0"])
def test_a_key_that_leads_elsewhere_is_refused(store: VolumeStore, key: str) -> None:
    for use in (lambda: store.put_bytes(key, b""), lambda: list(store.get(key)), lambda: store.delete([key])):
        with pytest.raises(RequestRejected, match="can't hold"):
            use()


@pytest.mark.parametrize("name", ["n" * 230, "ä" * 120])
def test_a_name_that_is_too_long_is_refused_in_words(store: VolumeStore, name: str) -> None:
    with pytest.raises(RequestRejected, match="File name too long"):
        store.put_bytes(f"dir/{name}", b"")


def test_a_part_that_is_missing_makes_no_object(store: VolumeStore) -> None:
    upload = store.start_upload("dir/a", 10)
    store.put_part(upload, 1, BytesContent(b"x" * 10))
    third = store.put_part(upload, 3, BytesContent(b"y"))
    with pytest.raises(RequestRejected, match="parts of it are missing"):
        store.complete_upload(upload, [third])
    assert not store.exists("dir/a")


def test_completing_what_is_complete_does_nothing(store: VolumeStore) -> None:
    upload = store.start_upload("dir/a", 10)
    parts = [store.put_part(upload, 1, BytesContent(b"x"))]
    store.complete_upload(upload, parts)
    store.complete_upload(upload, parts)
    store.delete(["dir/a"])
    with pytest.raises(NotFound):
        store.complete_upload(upload, parts)


def test_what_goes_wrong_in_a_source_says_nothing_of_the_volume(store: VolumeStore, volume: Path) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError(errno.EIO, "the program's disk")

    with pytest.raises(OSError, match="the program's disk"):
        store.put("dir/a", Broken(), 10)
    assert files(volume) == ["dir/"]


class TestPlantedEntries:
    """Others may use the volume: nothing that they leave there leads out of it, or hangs."""

    @pytest.fixture
    def outside(self, tmp_path: Path) -> Path:
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside" / "token").write_text("secret")
        return tmp_path / "outside"

    def test_a_link_to_a_file_is_neither_read_nor_listed_nor_copied(
        self, store: VolumeStore, volume: Path, outside: Path
    ) -> None:
        (volume / "a").symlink_to(outside / "token")
        with pytest.raises(RequestRejected):
            list(store.get("a"))
        with pytest.raises(RequestRejected):
            store.copy("a", "b")
        assert not store.exists("a")
        assert list(store.list("")) == []

    def test_one_that_is_replaced_or_deleted_stays_what_it_leads_to(
        self, store: VolumeStore, volume: Path, outside: Path
    ) -> None:
        (volume / "a").symlink_to(outside / "token")
        store.put_bytes("a", b"mine")
        (volume / "b").symlink_to(outside / "token")
        store.delete(["b"])
        assert (outside / "token").read_text() == "secret"
        assert files(volume) == ["a"]

    def test_a_link_to_a_folder_is_not_followed(self, store: VolumeStore, volume: Path, outside: Path) -> None:
        (volume / "dir").symlink_to(outside)
        for use in (lambda: store.put_bytes("dir/a", b""), lambda: list(store.get("dir/token"))):
            with pytest.raises(StoreError):
                use()
        store.delete(["dir/token"])
        assert list(store.list("")) == list(store.list("dir/")) == list(store.list_uploads("")) == []
        assert [path.name for path in outside.iterdir()] == ["token"]

    def test_a_pipe_hangs_nobody(self, store: VolumeStore, volume: Path) -> None:
        os.mkfifo(volume / "a")
        with pytest.raises(NotFound):
            list(store.get("a"))
        assert (store.exists("a"), list(store.list(""))) == (False, [])

    def test_names_that_are_no_texts_are_passed_over(self, store: VolumeStore, volume: Path) -> None:
        (volume / os.fsdecode(b"\xff")).write_bytes(b"")
        assert list(store.list("")) == []

    def test_so_is_what_nfs_keeps_of_a_file_that_was_deleted(self, store: VolumeStore, volume: Path) -> None:
        (volume / ".nfs000000000000a1b200000001").write_bytes(b"")
        assert list(store.list("")) == []


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (errno.EACCES, AccessDenied, f"give its root directory to group {os.getegid()} "),
        (errno.EPERM, AccessDenied, "or set securityContext.fsGroup in trialTemplate"),
        (errno.EROFS, AccessDenied, "is mounted read-only"),
        (errno.ENOSPC, OutOfSpace, "enlarge the claim"),
        (errno.EDQUOT, OutOfSpace, "enlarge the claim"),
        (errno.ESTALE, Unreachable, "does not answer while storing dir/a .*delete the pod"),
        (errno.EIO, Unreachable, "does not answer"),
        (errno.ENOTCONN, Unreachable, "does not answer"),
        (errno.EINVAL, RequestRejected, "refuses storing dir/a"),
    ],
)
def test_errors_say_what_helps(
    store: VolumeStore, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[StoreError], said: str
) -> None:
    monkeypatch.setattr(unfinished, "open_entry", failing(code))
    with pytest.raises(kind, match=said) as caught:
        store.put_bytes("dir/a", b"")
    assert str(caught.value).startswith("the volume of claim 'checkpoints' ")


def test_a_file_system_that_can_not_copy_says_so(store: VolumeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put_bytes("a", b"x")
    monkeypatch.setattr(os, "copy_file_range", failing(errno.EXDEV))
    with pytest.raises(RequestRejected):
        store.copy("a", "b")
