"""Bytes to store, which can be read again for each retry."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Protocol

PIECE = 1 << 18
"""So much of it is in memory at a time: what has just been read, from a file or from the store, is still in the
processor's cache to be hashed and passed on; much less, and the interpreter's lock would change hands all the time."""

Bytes = bytes | bytearray | memoryview


class Content(Protocol):
    """Bytes of a known size and SHA-256."""

    @property
    def size(self) -> int:
        """How many bytes."""

    @property
    def sha256(self) -> str:
        """Their SHA-256, in hexadecimal."""

    def read_pieces(self) -> Iterator[Bytes]:
        """The bytes, from the first to the last, anew with each call; a piece is good until the next one is taken."""


class BytesContent:
    """Bytes in memory, which nobody changes any more."""

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = data

    @property
    def size(self) -> int:
        """See `Content.size`."""
        return len(self._data)

    @cached_property
    def sha256(self) -> str:
        """See `Content.sha256`."""
        return hashlib.sha256(self._data).hexdigest()

    def read_pieces(self) -> Iterator[Bytes]:
        """See `Content.read_pieces`."""
        yield self._data


class PiecesContent:
    """Bytes in memory, which nobody changes any more, in several pieces: they need not be copied into one."""

    def __init__(self, pieces: Sequence[bytes], size: int) -> None:
        """Takes the pieces in their order, of `size` bytes together."""
        self._pieces = pieces
        self.size = size

    @cached_property
    def sha256(self) -> str:
        """See `Content.sha256`."""
        digest = hashlib.sha256()
        for piece in self._pieces:
            digest.update(piece)
        return digest.hexdigest()

    def read_pieces(self) -> Iterator[Bytes]:
        """See `Content.read_pieces`."""
        yield from self._pieces


class ContentChanged(Exception):
    """A file is not what it was."""


class FileSlice:
    """A slice of an open file.

    It is read once to be hashed and once to be sent, the second time from the page cache: so a slice of any size takes
    no more memory than a piece.
    """

    def __init__(
        self, file: int, offset: int, size: int, *, path: str = "", checked: Callable[[], None] = lambda: None
    ) -> None:
        """Reads nothing yet.

        Args:
            file: File descriptor; it is never sought in, so several threads may read from it.
            offset: Where the slice begins.
            size: Its bytes.
            path: Of the file, for messages.
            checked: Called before each piece; raises where nothing more is to be read.
        """
        self._file = file
        self._offset = offset
        self._path = path
        self._checked = checked
        self.size = size

    @cached_property
    def sha256(self) -> str:
        """See `Content.sha256`."""
        digest = hashlib.sha256()
        for piece in self.read_pieces():
            digest.update(piece)
        return digest.hexdigest()

    def read_pieces(self) -> Iterator[Bytes]:
        """See `Content.read_pieces`.

        Raises:
            ContentChanged: The file has become shorter, or can't be read.
        """
        position, end = self._offset, self._offset + self.size
        buffer = memoryview(bytearray(min(PIECE, self.size)))
        while position < end:
            self._checked()
            try:
                size = os.preadv(self._file, [buffer[: end - position]], position)
            except OSError as error:
                raise ContentChanged(f"{self._path} can no longer be read: {error.strerror}") from error
            if not size:
                raise ContentChanged(f"{self._path} changed while it was being stored")
            position += size
            yield buffer[:size]


class PieceReader:
    """A source that is read once, made of pieces; see `podtune.storage.object_store.Reader`."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, at most `size` unless it is negative; none at the end."""
        if size < 0:
            whole, self._rest = self._rest + b"".join(self._pieces), b""
            return whole
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._rest = piece
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken
