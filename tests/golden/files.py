"""Golden files: one JSON object a line, compressed; written the same way they are the same bytes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HISTORIES = Path(__file__).with_name("histories")


def path(name: str) -> Path:
    return HISTORIES / f"{name}.jsonl.gz"


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path(name).read_bytes()).splitlines()]


def encode(histories: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(history, separators=(",", ":")).encode() + b"\n" for history in histories)


def write(name: str, histories: Sequence[dict[str, Any]]) -> None:
    path(name).write_bytes(gzip.compress(encode(histories), mtime=0))
