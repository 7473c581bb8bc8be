"""What Podtune needs of a store: few operations, each safe to repeat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from podtune.storage.content import Content

MAX_PARTS = 9_000
"""S3 takes 10,000."""


def compute_part_size(size: int, smallest: int) -> int:
    """The size of the parts in which so many bytes are sent: larger where they would become too many."""
    return max(smallest, -(-size // MAX_PARTS))


class Reader(Protocol):
    """A source of bytes that is read once, from front to back."""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, at most `size` unless it is negative; none at the end."""


@dataclass(frozen=True, slots=True)
class PartialUpload:
    """An object that is stored in parts; until it is completed, nobody sees it.

    Attributes:
        part_size: Bytes of each part but the last; 0 of an upload that was found in a list.
    """

    key: str
    upload_id: str
    part_size: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A part that the store has.

    Attributes:
        number: Its number, from 1.
    """

    number: int
    etag: str
    sha256: str


class ReadableStore(Protocol):
    """Objects by key, in one store, to be read. All methods may be called by several threads at once.

    Keys are paths: no part between two slashes is empty, `.` or `..`, and no object's key is the folder of another.

    Every method raises a `StoreError` of the fitting kind where the store can't do what is asked.
    """

    def check(self) -> None:
        """Finds out whether the store is there and may be used."""

    def get(self, key: str, start: int = 0, size: int | None = None) -> Iterator[bytes]:
        """An object's content, piece by piece.

        Args:
            key: Its key.
            start: The first byte that is wanted.
            size: How many bytes are wanted, at least 1; all that follow when None.

        Raises:
            NotFound: There is no such object; raised when the first piece is asked for.
        """

    def get_bytes(self, key: str, limit: int) -> bytes:
        """A small object's content, of which no more than `limit` + 1 bytes are read.

        Raises:
            NotFound: There is no such object.
        """

    def exists(self, key: str) -> bool:
        """Whether there is an object with just this key."""

    def list(self, prefix: str) -> Iterator[str]:
        """The keys that start with `prefix`, sorted; it is empty, or ends with a slash."""


@runtime_checkable
class ObjectStore(ReadableStore, Protocol):
    """Objects by key that can also be stored, replaced and deleted. What a method has stored when it returns stays."""

    def put(self, key: str, source: Reader, size: int) -> None:
        """Stores an object, replacing one that may be there; readers see the old one or the new one, whole.

        Args:
            key: Its key.
            source: Its content. An error that reading it raises is passed on, and nothing is stored.
            size: How many bytes `source` is going to give; it decides how they are sent.
        """

    def put_bytes(self, key: str, data: bytes) -> None:
        """Stores a small object."""

    def put_content(self, key: str, content: Content) -> None:
        """Stores an object of which the store may refuse more than 5 GiB; content is read from the front for each try.

        An error that reading it raises is passed on.
        """

    def delete(self, keys: Iterable[str]) -> None:
        """Deletes objects; keys without one are passed over."""

    def copy(self, source: str, key: str) -> None:
        """Has the store copy an object by itself, replacing one that may be there; at most 5 GiB.

        Raises:
            NotFound: There is no such object.
            RequestRejected: The store can't copy.
        """


@runtime_checkable
class MultipartStore(ObjectStore, Protocol):
    """A store in which an object can be stored in parts, by several threads, in any order."""

    def start_upload(self, key: str, part_size: int) -> PartialUpload:
        """Begins to store an object in parts, each of which but the last has `part_size` bytes."""

    def put_part(self, upload: PartialUpload, number: int, content: Content) -> StoredPart:
        """Stores a part, replacing one of the same number; a bucket wants 5 MiB or more of each but the last."""

    def complete_upload(self, upload: PartialUpload, parts: Sequence[StoredPart]) -> None:
        """Makes an object of all its parts.

        Args:
            upload: The upload; it may have been completed already, by a call whose answer was lost.
            parts: In the order of their numbers.
        """

    def abort_upload(self, upload: PartialUpload) -> None:
        """Gives the parts up; nothing happens where there is no such upload any more."""

    def list_uploads(self, prefix: str) -> Iterator[PartialUpload]:
        """The uploads that were neither completed nor aborted, of keys that start with `prefix`."""
