"""What every store has to hold; a test class inherits it and provides the fixture `store`: one that is empty.

from podtune.testing.stores import ObjectStoreConformance

class TestShelf(ObjectStoreConformance):
    @pytest.fixture
    def store(self, tmp_path):
        return Shelf(settings={"directory": str(tmp_path)}, prefix="", credentials=None)
"""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from podtune.storage.content import BytesContent, ContentChanged, FileSlice, PieceReader
from podtune.storage.errors import NotFound, RequestRejected
from podtune.storage.object_store import MultipartStore, ObjectStore

_PART = 5 << 20


class ObjectStoreConformance:
    """The promises of `podtune.storage.object_store.ObjectStore`."""

    def test_it_has_all_methods(self, store: ObjectStore) -> None:
        """Podtune refuses a plugin that lacks one."""
        assert isinstance(store, ObjectStore)

    def test_it_can_be_checked(self, store: ObjectStore) -> None:
        """Agents check the store before there is anything to store."""
        store.check()

    def test_what_was_put_comes_back(self, store: ObjectStore) -> None:
        """Byte for byte, in either way of reading."""
        store.put_bytes("a/b", b"content")
        assert b"".join(store.get("a/b")) == b"content"
        assert store.get_bytes("a/b", 100) == b"content"

    def test_an_empty_object_comes_back(self, store: ObjectStore) -> None:
        """Checkpoints may have empty files."""
        store.put("empty", io.BytesIO(), 0)
        assert list(store.get("empty")) in ([], [b""])
        assert store.get_bytes("empty", 1) == b""

    def test_a_new_object_takes_the_place_of_the_old(self, store: ObjectStore) -> None:
        """Segments of results are rewritten while they grow."""
        store.put_bytes("a", b"old")
        store.put_bytes("a", b"new")
        assert store.get_bytes("a", 100) == b"new"

    def test_of_an_object_that_is_replaced_readers_see_the_old_or_the_new_whole(self, store: ObjectStore) -> None:
        """Nobody ever reads a mixture."""
        size = 600_000
        store.put_bytes("a", bytes(size))

        def read() -> None:
            for _ in range(10):
                found = b"".join(store.get("a"))
                assert len(found) == size
                assert len(set(found)) == 1

        with ThreadPoolExecutor(4) as pool:
            readers = [pool.submit(read) for _ in range(4)]
            for number in range(30):
                store.put_bytes("a", bytes([number]) * size)
            for reader in readers:
                reader.result()

    @pytest.mark.parametrize("size", [1, 8 << 20, (8 << 20) + 1, 21 << 20])
    def test_sources_of_all_sizes_are_read_once_from_front_to_back(self, store: ObjectStore, size: int) -> None:
        """They have no seek, and need not be files."""
        content = (b"0123456789abcdef" * (size // 16 + 1))[:size]
        store.put("big", _OnceReadable(content), size)
        assert b"".join(store.get("big")) == content

    def test_no_more_than_the_limit_is_read(self, store: ObjectStore) -> None:
        """One byte more tells that an object is too large."""
        store.put_bytes("a", b"x" * 1000)
        assert len(store.get_bytes("a", 10)) == 11

    def test_a_missing_object_is_not_found(self, store: ObjectStore) -> None:
        """It is told apart from all other troubles, since a checkpoint is then given up."""
        with pytest.raises(NotFound):
            next(store.get("missing"))
        with pytest.raises(NotFound):
            store.get_bytes("missing", 10)

    def test_listing_goes_by_prefix_and_is_sorted(self, store: ObjectStore) -> None:
        """By the bytes of the keys."""
        for key in ("p/2", "p/10", "q/1", "p/sub/x"):
            store.put_bytes(key, b"")
        assert list(store.list("p/")) == ["p/10", "p/2", "p/sub/x"]
        assert list(store.list("nothing/")) == []

    def test_listing_is_sorted_by_the_whole_key_over_pages_and_folders(self, store: ObjectStore) -> None:
        """A folder has no place of its own in the order."""
        keys = ["a-b", "a.txt", "a/b", "a/b.d/e", "ab", "b/A", "b/a", *(f"many/{n}" for n in range(1200))]
        for key in keys:
            store.put_bytes(key, b"")
        assert list(store.list("")) == sorted(keys)
        assert list(store.list("a/")) == [key for key in sorted(keys) if key.startswith("a/")]

    def test_only_an_object_of_just_this_key_exists(self, store: ObjectStore) -> None:
        """Neither a folder nor a longer key counts."""
        store.put_bytes("dir/object", b"")
        assert store.exists("dir/object")
        assert not any(map(store.exists, ("dir", "dir/obj", "dir/object/1", "dir/object2", "other")))

    def test_what_was_deleted_is_gone_and_the_rest_stays(self, store: ObjectStore) -> None:
        """What is missing already is passed over."""
        for key in ("a", "b", "c"):
            store.put_bytes(key, b"")
        store.delete(["a", "b", "never there"])
        store.delete([])
        assert list(store.list("")) == ["c"]

    def test_unusual_characters_in_keys_survive(self, store: ObjectStore) -> None:
        """Keys hold the names of files that programs choose."""
        key = "dir/ä ö+&=%?#~(1)'!.txt"
        store.put_bytes(key, b"1")
        assert list(store.list("dir/")) == [key]
        assert store.get_bytes(key, 10) == b"1"
        store.delete([key])
        assert list(store.list("dir/")) == []

    @pytest.mark.parametrize("name", ["n" * 200, "ä" * 100, ".hidden", "...", "a b", "-", "~", "%2F"])
    def test_unusual_names_survive(self, store: ObjectStore, name: str) -> None:
        """Of folders as of files."""
        store.put_bytes(f"{name}/{name}", b"1")
        assert list(store.list(f"{name}/")) == [f"{name}/{name}"]
        assert store.get_bytes(f"{name}/{name}", 10) == b"1"

    def test_several_may_delete_the_same(self, store: ObjectStore) -> None:
        """A storage pod and an agent may clean up at the same time."""
        keys = [f"dir/{number}" for number in range(60)]
        for key in keys:
            store.put_bytes(key, b"")
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(store.delete, keys) for _ in range(4)]:
                done.result()
        assert list(store.list("")) == []

    @pytest.mark.parametrize("size", [100, 20 << 20])
    def test_a_source_that_fails_stores_nothing(self, store: ObjectStore, size: int) -> None:
        """Half an object would pass for a whole one."""
        with pytest.raises(RuntimeError, match="disk on fire"):
            store.put("broken", _FailingReader(size // 2), size)
        assert list(store.list("")) == []

    @pytest.mark.parametrize(("start", "size"), [(0, 1), (3, 4), (95, 5), (90, None), (99, 1)])
    def test_a_range_is_read(self, store: ObjectStore, start: int, size: int | None) -> None:
        """Packed files are read out of the middle of an object."""
        content = bytes(range(100))
        store.put_bytes("a", content)
        assert b"".join(store.get("a", start, size)) == content[start:][:size]

    def test_a_range_that_an_object_does_not_reach_is_not_found(self, store: ObjectStore) -> None:
        """The object is not the one that was meant."""
        store.put_bytes("a", b"short")
        with pytest.raises(NotFound):
            next(store.get("a", 100, 10))

    def test_a_file_is_stored_from_its_middle(self, store: ObjectStore, tmp_path: Path) -> None:
        """Content may be read again for each try."""
        (tmp_path / "file").write_bytes(bytes(range(256)) * 10_000)
        with (tmp_path / "file").open("rb") as file:
            store.put_content("a", FileSlice(file.fileno(), 1000, 2 << 20))
            store.put_content("a", FileSlice(file.fileno(), 1000, 2 << 20))
        assert b"".join(store.get("a")) == (bytes(range(256)) * 10_000)[1000 : 1000 + (2 << 20)]

    def test_many_threads_may_use_it_at_once(self, store: ObjectStore) -> None:
        """Files of a checkpoint go side by side."""

        def work(number: int) -> bytes:
            store.put_bytes(f"t/{number}", str(number).encode())
            return store.get_bytes(f"t/{number}", 10)

        with ThreadPoolExecutor(12) as pool:
            assert list(pool.map(work, range(12))) == [str(number).encode() for number in range(12)]
        assert len(list(store.list("t/"))) == 12

    def test_a_copy_is_what_it_was_made_of(self, store: ObjectStore) -> None:
        """A store that can't copy says so, and is then asked to read and to store."""
        key = "dir/ä ö+&=%?#~(1)'!.txt"
        store.put_bytes(key, b"content")
        try:
            store.copy(key, "copies/ü+1")
        except RequestRejected:
            return  # it says that it can't copy, and is asked to read and to store instead
        store.put_bytes(key, b"another")
        assert store.get_bytes("copies/ü+1", 100) == b"content"
        with pytest.raises(NotFound):
            store.copy("missing", "copies/none")

    def test_what_is_read_from_it_can_be_stored_in_it_at_the_same_time(self, store: ObjectStore) -> None:
        """An export puts a checkpoint's files together while it stores them."""
        content = bytes(range(256)) * (20 << 12)
        store.put_bytes("a", content)
        store.put("b", PieceReader(store.get("a")), len(content))
        assert b"".join(store.get("b")) == content

    def test_content_that_fails_stores_nothing(self, store: ObjectStore) -> None:
        """A file that a program changes meanwhile is no checkpoint."""
        for size in (2000, 20 << 20):
            with TemporaryFile() as file:
                file.write(b"x" * 1000)
                file.flush()
                with pytest.raises(ContentChanged):
                    store.put_content("broken", FileSlice(file.fileno(), 0, size))
        assert list(store.list("")) == []


class MultipartStoreConformance(ObjectStoreConformance):
    """The promises of `podtune.storage.object_store.MultipartStore`."""

    def test_parts_become_an_object_whatever_the_order_in_which_they_come(self, store: MultipartStore) -> None:
        """Several threads send them."""
        upload = store.start_upload("dir/ä b", _PART)
        assert list(store.list("dir/")) == []
        assert list(store.list_uploads("dir/")) == [upload]
        parts = {number: store.put_part(upload, number, BytesContent(bytes([number]) * size)) for number, size in
                 ((3, 10), (1, _PART), (2, _PART))}  # fmt: skip
        store.complete_upload(upload, [parts[number] for number in (1, 2, 3)])
        assert b"".join(store.get("dir/ä b")) == b"\1" * _PART + b"\2" * _PART + b"\3" * 10
        assert list(store.list_uploads("dir/")) == []

    def test_an_upload_that_was_aborted_leaves_nothing(self, store: MultipartStore) -> None:
        """It may be aborted twice."""
        upload = store.start_upload("dir/a", _PART)
        store.put_part(upload, 1, BytesContent(b"x" * _PART))
        other = store.start_upload("other/a", _PART)
        store.abort_upload(upload)
        store.abort_upload(upload)
        assert list(store.list("dir/")) == []
        assert list(store.list_uploads("")) == [other]
        with pytest.raises(NotFound):
            store.put_part(upload, 2, BytesContent(b"y"))
        store.abort_upload(other)


class _OnceReadable:
    """A source without seek, tell or length."""

    def __init__(self, content: bytes) -> None:
        self._stream = io.BytesIO(content)

    def read(self, size: int = -1, /) -> bytes:
        return self._stream.read(size)


class _FailingReader:
    def __init__(self, size: int) -> None:
        self._left = size

    def read(self, size: int = -1, /) -> bytes:
        if self._left <= 0:
            raise RuntimeError("disk on fire")
        amount = self._left if size < 0 else min(size, self._left)
        self._left -= amount
        return b"x" * amount
