"""Writes what wandb.init() and run.log() write in offline mode, where there is no wandb."""

import json
import os
import struct
import sys
import time
import zlib
from pathlib import Path

if os.environ.get("WANDB_MODE") != "offline":
    sys.exit("wandb: ERROR api_key not configured (no-tty)")


def number(value: int) -> bytes:
    encoded = b""
    while value >= 0x80:
        value, encoded = value >> 7, encoded + bytes([value & 0x7F | 0x80])
    return encoded + bytes([value])


def field(key: int, content: bytes) -> bytes:
    return number(key << 3 | 2) + number(len(content)) + content


def frame(record: bytes) -> bytes:
    """One chunk of LevelDB's log; all of this script fits into the first block."""
    return struct.pack("<IHB", zlib.crc32(b"\x01" + record), len(record), 1) + record


directory = Path(os.environ["WANDB_DIR"], "wandb", time.strftime("offline-run-%Y%m%d_%H%M%S-k3mxq1ab"))
directory.mkdir(parents=True)
with (directory / "run-k3mxq1ab.wandb").open("wb", buffering=0) as log:
    log.write(b":W&B\xe1\xbe\x00" + frame(field(17, field(1, b"k3mxq1ab"))))
    loss = 1.0
    for step in range(4):
        loss *= 1 - float(sys.argv[1])
        values = {"epoch": step + 1, "val/loss": loss, "_timestamp": time.time(), "_runtime": step, "_step": step}
        items = (field(2, name.encode()) + field(16, json.dumps(value).encode()) for name, value in values.items())
        history = b"".join(field(1, item) for item in items) + field(2, b"\x08" + number(step) if step else b"")
        log.write(frame(b"\x08" + number(step + 2) + field(2, history)))
