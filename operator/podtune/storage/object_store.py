"""What Podtune needs of a store: few operations, each safe to repeat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol


class Reader(Protocol):
    """A source of bytes that is read once, from front to back."""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, at most `size` unless it is negative; none at the end."""


class ObjectStore(Protocol):
    """Objects by key, in one bucket. All methods may be called by several threads at once.

    Every method raises a `StoreError` of the fitting kind where the store can't do what is asked.
    """

    def check(self) -> None:
        """Finds out whether the bucket is there and may be used."""

    def put(self, key: str, source: Reader, size: int) -> None:
        """Stores an object, in the place of one that may be there; readers see the old one or the new one, whole.

        Args:
            key: Its key.
            source: Its content. An error that reading it raises is passed on, and nothing is stored.
            size: How many bytes `source` is going to give; it decides how they are sent.
        """

    def put_bytes(self, key: str, data: bytes) -> None:
        """Stores a small object."""

    def get(self, key: str) -> Iterator[bytes]:
        """An object's content, piece by piece.

        Raises:
            NotFound: There is no such object; raised when the first piece is asked for.
        """

    def get_bytes(self, key: str, limit: int) -> bytes:
        """A small object's content, of which no more than `limit` + 1 bytes are read.

        Raises:
            NotFound: There is no such object.
        """

    def list(self, prefix: str) -> Iterator[str]:
        """The keys that start with `prefix`, sorted."""

    def delete(self, keys: Iterable[str]) -> None:
        """Deletes objects; keys without one are passed over."""
