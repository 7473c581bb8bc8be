"""The records of a `.wandb` file, the log that the client of Weights & Biases keeps of a run on disk.

It has the framing of LevelDB's logs: blocks of 32 KiB, in which a record is one chunk, or several where it does not fit
into the rest of a block. Unlike LevelDB, the client begins the file with seven bytes of its own, which count for the
first block, and its checksums are zlib's CRC-32. The file grows while it is read, and what is there of a record in part
is read again later. Where a chunk is damaged, nothing tells where the next one begins: the rest can't be read.
https://github.com/google/leveldb/blob/main/doc/log_format.md
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from podtune.agent.metric_files.growing_file import GrowingFile
from podtune.agent.metric_files.logged_scalars import CorruptFile

_FILE_HEADER = struct.Struct("<4sHB")
_IDENTITY = (b":W&B", 0xBEE1, 0)
"""What the file begins with; the last is the version of all that follows."""
_CHUNK_HEADER = struct.Struct("<IHB")
"""Checksum of kind and data, length of the data, kind."""
_BLOCK = 32 << 10
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
MAX_RUN_RECORD = 1 << 20
"""Bytes of the longest record that is read; longer ones hold tables and code."""
_READ_SIZE = 8 * _BLOCK


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A record.

    Attributes:
        data: What it holds.
        end: Where in the file it ends.
        is_intact: Whether the data is what was written; others are not read.
    """

    data: bytes
    end: int
    is_intact: bool = True


class RunLog:
    """The records of an open file, from a position on to the end that it has now; not thread-safe.

    Attributes:
        position: Where the next record begins.
    """

    def __init__(self, file: int, position: int = 0) -> None:
        """Takes a file's descriptor, which stays the caller's."""
        self.position = position
        self._growing = GrowingFile(file, _READ_SIZE)

    def read(self) -> Iterator[RunRecord]:
        """The records that are complete.

        Raises:
            CorruptFile: What follows is no record; `position` says where.
            OSError: The file can't be read.
        """
        if self.position == 0 and not self._skip_file_header():
            return
        while (record := self._read_record()) is not None:
            self.position = record.end
            if len(record.data) <= MAX_RUN_RECORD:
                yield record

    def _skip_file_header(self) -> bool:
        """Whether the file's own header is there."""
        header = self._growing.read_at(0, _FILE_HEADER.size)
        if len(header) < _FILE_HEADER.size:
            return False
        if _FILE_HEADER.unpack(header) != _IDENTITY:
            raise CorruptFile(f"it begins with {header!r}, as no file does that this agent knows")
        self.position = _FILE_HEADER.size
        return True

    def _read_record(self) -> RunRecord | None:
        """The next record; None where it is not there as a whole."""
        position, data = self.position, b""
        expected = (_FULL, _FIRST)
        while True:
            room = _BLOCK - position % _BLOCK
            if room < _CHUNK_HEADER.size:
                position += room
                continue
            header = self._growing.read_at(position, _CHUNK_HEADER.size)
            if len(header) < _CHUNK_HEADER.size or not any(header):
                return None
            checksum, length, kind = _CHUNK_HEADER.unpack(header)
            if kind not in expected or length > room - _CHUNK_HEADER.size:
                raise CorruptFile(f"at byte {position}, there is no part of a record")
            chunk = self._growing.read_at(position + _CHUNK_HEADER.size, length)
            if len(chunk) < length:
                return None
            if zlib.crc32(chunk, zlib.crc32(bytes([kind]))) != checksum:
                raise CorruptFile(f"at byte {position}, a checksum is wrong")
            position += _CHUNK_HEADER.size + length
            data += chunk[: max(0, MAX_RUN_RECORD + 1 - len(data))]
            if kind in (_FULL, _LAST):
                return RunRecord(data, position)
            expected = (_MIDDLE, _LAST)
