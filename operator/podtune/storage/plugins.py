"""Stores of other packages, found by their entry points in the agent's image.

A package offers one in its own pyproject.toml:

    [project.entry-points."podtune.stores"]
    webdav = "my_package:make"

What is named there is called with the keyword arguments `settings`, `prefix` and `credentials`, the directory where the
store's Secret is mounted, or None. It answers settings that it can't work with by a ValueError that says which, and
what to write instead, and returns an `ObjectStore`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from podtune.storage.address import PluginAddress
from podtune.storage.content import Bytes, Content
from podtune.storage.errors import RequestRejected, StoreError, StoreSettingsError
from podtune.storage.object_store import ObjectStore, Reader

STORES_GROUP = "podtune.stores"
T = TypeVar("T")


class PluginStore:
    """A store of another package, made when it is first used.

    It is held to raise nothing but a `StoreError`, and what reading content raises. Where it is not installed, or
    refuses its settings, every method raises a `StoreSettingsError`.
    """

    def __init__(self, address: PluginAddress) -> None:
        self._address = address
        self._store: ObjectStore | None = None
        self._lock = threading.Lock()

    def check(self) -> None:
        """See `ObjectStore.check`."""
        with self._open("being checked") as store:
            store.check()

    def put(self, key: str, source: Reader, size: int) -> None:
        """See `ObjectStore.put`."""
        watched = _WatchedReader(source)
        with self._open(f"storing {key}", watched) as store:
            store.put(key, watched, size)

    def put_bytes(self, key: str, data: bytes) -> None:
        """See `ObjectStore.put_bytes`."""
        with self._open(f"storing {key}") as store:
            store.put_bytes(key, data)

    def put_content(self, key: str, content: Content) -> None:
        """See `ObjectStore.put_content`."""
        watched = _WatchedContent(content)
        with self._open(f"storing {key}", watched) as store:
            store.put_content(key, watched)

    def get(self, key: str, start: int = 0, size: int | None = None) -> Iterator[bytes]:
        """See `ObjectStore.get`."""
        with self._open(f"reading {key}") as store:
            yield from store.get(key, start, size)

    def get_bytes(self, key: str, limit: int) -> bytes:
        """See `ObjectStore.get_bytes`."""
        with self._open(f"reading {key}") as store:
            return store.get_bytes(key, limit)

    def exists(self, key: str) -> bool:
        """See `ObjectStore.exists`."""
        with self._open(f"looking for {key}") as store:
            return store.exists(key)

    def list(self, prefix: str) -> Iterator[str]:
        """See `ObjectStore.list`."""
        with self._open(f"listing {prefix}") as store:
            yield from store.list(prefix)

    def delete(self, keys: Iterable[str]) -> None:
        """See `ObjectStore.delete`."""
        doomed = tuple(keys)
        with self._open(f"deleting {doomed[0] if doomed else 'nothing'}") as store:
            store.delete(doomed)

    def copy(self, source: str, key: str) -> None:
        """See `ObjectStore.copy`."""
        with self._open(f"copying {source}") as store:
            store.copy(source, key)

    @contextmanager
    def _open(self, doing: str, source: _WatchedReader | _WatchedContent | None = None) -> Iterator[ObjectStore]:
        """The store, with its errors translated."""
        try:
            yield self._make()
        except StoreError:
            raise
        except Exception as error:  # what somebody else's code does can fail in any way
            if source is not None and source.failure is not None:
                raise source.failure from None
            raise RequestRejected(
                f"{self._address.where} failed while {doing} ({type(error).__name__}: {error}); tell its author"
            ) from error

    def _make(self) -> ObjectStore:
        with self._lock:
            if self._store is None:
                self._store = load_store(self._address)
            return self._store


class _WatchedReader:
    """A source, and what has gone wrong in it."""

    def __init__(self, source: Reader) -> None:
        self._source = source
        self.failure: Exception | None = None

    def read(self, size: int = -1, /) -> bytes:
        try:
            return self._source.read(size)
        except Exception as failure:
            self.failure = failure
            raise


class _WatchedContent:
    """Content, and what has gone wrong when it was read."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self.failure: Exception | None = None

    @property
    def size(self) -> int:
        return self._content.size

    @property
    def sha256(self) -> str:
        return self._watch(lambda: self._content.sha256)

    def read_pieces(self) -> Iterator[Bytes]:
        pieces = self._content.read_pieces()
        while (piece := self._watch(lambda: next(pieces, None))) is not None:
            yield piece

    def _watch(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except Exception as failure:
            self.failure = failure
            raise


def load_store(address: PluginAddress) -> ObjectStore:
    """Makes the store of another package; this reads the list of all installed packages.

    Raises:
        StoreSettingsError: It is not installed, can't be made, or is something else.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - no other agent needs it, and it imports much

    installed = {entry.name: entry for entry in entry_points(group=STORES_GROUP)}
    entry = installed.get(address.name)
    if entry is None:
        there = ", ".join(sorted(installed)) or "none"
        raise StoreSettingsError(
            f"{address.where} is not installed in the agent's image (installed: {there}); install a package there that "
            f"has it as an entry point of {STORES_GROUP}, or correct checkpoints.store.plugin.name"
        )
    try:
        made = entry.load()(
            settings=json.loads(address.settings),
            prefix=address.prefix,
            credentials=Path(address.credentials) if address.credentials else None,
        )
    except ValueError as error:
        raise StoreSettingsError(f"{address.where} refuses its settings: {error}") from error
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise StoreSettingsError(
            f"{address.where} ({entry.value}) can't be created ({problem}); tell its author"
        ) from error
    if not isinstance(made, ObjectStore):
        raise StoreSettingsError(
            f"{address.where} made a {type(made).__name__}, which is not an ObjectStore; tell its author"
        )
    return made
