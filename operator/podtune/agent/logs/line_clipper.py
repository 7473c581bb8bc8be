"""Cuts a program's output into lines, of which none is longer than memory and segments allow."""

from __future__ import annotations

LONGEST_LINE = 256 << 10
"""Bytes of a line that are kept: a progress bar that prints no line breaks makes lines of any length."""


class LineClipper:
    """Cuts a stream of bytes into lines; of one that is too long, it leaves out the middle and says so."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._half = longest // 2
        self._rest = bytearray()
        self._dropped = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Takes the next bytes in, and returns the lines that are complete now, without their ends."""
        first, *others = data.split(b"\n")
        self._add(first)
        lines = []
        for piece in others:
            lines.append(self._take())
            self._add(piece)
        return lines

    def finish(self) -> list[bytes]:
        """The last line, where it lacks its end."""
        return [self._take()] if self._rest else []

    def _add(self, piece: bytes) -> None:
        """Adds to the line; its first and its last half stay."""
        self._rest += piece
        excess = len(self._rest) - 2 * self._half
        if excess > 0:
            del self._rest[self._half : self._half + excess]
            self._dropped += excess

    def _take(self) -> bytes:
        line, dropped = bytes(self._rest), self._dropped
        self._rest.clear()
        self._dropped = 0
        if not dropped:
            return line
        note = f"[podtune: {dropped} bytes of this line are left out]".encode()
        return b"".join((line[: self._half], note, line[self._half :]))
