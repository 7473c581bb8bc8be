"""Ports for servers that are started later, or again."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

_FIRST, _COUNT = 20_000, 10_000
"""Below the ports that the kernel chooses for whoever wants any, or connects to something: it gives none of these away
before the server listens."""
_PROCESSES_APART = 97
_used = 0


def free_port(host: str = "127.0.0.1") -> int:
    """A port at which nobody listens, and that this process has not been given before.

    Raises:
        OSError: There is none.
    """
    global _used  # noqa: PLW0603 - what one caller was given no other may have
    for _ in range(_COUNT):
        port = _FIRST + (os.getpid() * _PROCESSES_APART + _used) % _COUNT
        _used += 1
        with suppress(OSError), socket.socket() as probe:
            probe.bind((host, port))
            return port
    raise OSError(f"no port from {_FIRST} to {_FIRST + _COUNT - 1} is free")
