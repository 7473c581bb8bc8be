"""Copies a directory and hashes it, in parts and side by side: what a transfer takes where it is nothing but that.

python -m e2e.bench.sync.sync_floor SOURCE TARGET
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PART = 8 << 20
PIECE = 1 << 18
"""Stays in the processor's cache from when it is read until it is written."""


def main() -> None:
    """Copies with as many threads as there are processors."""
    source, target = map(Path, sys.argv[1:])
    target.mkdir(parents=True)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for _ in threads.map(lambda part: _copy(*part), _parts(source, target)):
            pass


def _parts(source: Path, target: Path) -> Iterator[tuple[Path, Path, int]]:
    for path in source.iterdir():
        for start in range(0, max(1, path.stat().st_size), PART):
            yield path, target / path.name, start


def _copy(source: Path, target: Path, start: int) -> str:
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(PIECE))
    copied = os.open(target, os.O_WRONLY | os.O_CREAT)
    try:
        with source.open("rb", buffering=0) as file:
            for place in range(start, start + PART, PIECE):
                size = os.preadv(file.fileno(), [buffer], place)
                digest.update(buffer[:size])
                os.pwrite(copied, buffer[:size], place)
                if size < PIECE:
                    break
    finally:
        os.close(copied)
    return digest.hexdigest()


if __name__ == "__main__":
    main()
