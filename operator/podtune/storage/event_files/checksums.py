"""The checksums of event files: CRC-32C, masked."""

from __future__ import annotations

_POLYNOMIAL = 0x82F63B78
"""That of Castagnoli, lowest bit first."""
_MASK_DELTA = 0xA282EAD8
_ALL = 0xFFFFFFFF


def compute_crc32c(data: bytes) -> int:
    """The checksum that Castagnoli's polynomial makes of bytes (RFC 3720)."""
    crc = _ALL
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ _ALL


def mask_checksum(crc: int) -> int:
    """A checksum as it stands in a file: a checksum of what contains checksums is of little use."""
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & _ALL


def _compute_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = tuple(map(_compute_entry, range(256)))
