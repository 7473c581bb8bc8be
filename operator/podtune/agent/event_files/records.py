"""The records of an event file, in the framing of TFRecord: length, checksum of that, data, checksum of that.

A file grows while it is read. What is there of a record in part is read again later; a length whose checksum is wrong
tells that the rest of the file can't be read. The checksums are CRC-32C, masked; in Python that takes a while, so a
record's data is checked where somebody wants it. Records that are long hold images and graphs, and are not read at all.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from podtune.agent.metric_files.growing_file import GrowingFile
from podtune.agent.metric_files.logged_scalars import CorruptFile
from podtune.storage.event_files.checksums import compute_crc32c, mask_checksum

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_HEADER = _LENGTH.size + _CHECKSUM.size
MAX_EVENT_RECORD = 1 << 18
"""Bytes of the longest record that is read."""
_CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class EventRecord:
    """A record.

    Attributes:
        data: What it holds.
        end: Where in the file it ends.
        checksum: What the file says of the data.
    """

    data: bytes
    end: int
    checksum: int

    @property
    def is_intact(self) -> bool:
        """Whether the data is what was written."""
        return mask_checksum(compute_crc32c(self.data)) == self.checksum


class RecordFile:
    """The records of an open file, from a position on to the end that it has now; not thread-safe.

    Attributes:
        position: Where the next record begins.
    """

    def __init__(self, file: int, position: int = 0) -> None:
        """Takes a file's descriptor, which stays the caller's."""
        self.position = position
        self._file = file
        self._growing = GrowingFile(file, _CHUNK)

    def read(self) -> Iterator[EventRecord]:
        """The records that are complete.

        Raises:
            CorruptFile: What follows is no record; `position` says where.
            OSError: The file can't be read.
        """
        size = os.fstat(self._file).st_size
        while len(header := self._growing.read_at(self.position, _HEADER)) == _HEADER:
            length = _LENGTH.unpack_from(header)[0]
            if mask_checksum(compute_crc32c(header[: _LENGTH.size])) != _CHECKSUM.unpack_from(header, _LENGTH.size)[0]:
                raise CorruptFile(f"at byte {self.position}, the checksum of a record's length is wrong")
            begin, end = self.position + _HEADER, self.position + _HEADER + length + _CHECKSUM.size
            if end > size:
                return
            if length > MAX_EVENT_RECORD:
                self.position = end
                continue
            whole = self._growing.read_at(begin, end - begin)
            if len(whole) < end - begin:
                return  # it was cut meanwhile
            self.position = end
            yield EventRecord(whole[:length], end, _CHECKSUM.unpack_from(whole, length)[0])
