"""The driver of a gang with roles: it hands out epochs to its workers, adds up what they return, and keeps the state.

It listens at MASTER_PORT, and knows from PODTUNE_ROLES how many workers there are. What can be chosen:
    EPOCHS          how many epochs it trains (5)
    HOLD_AT         it waits before this epoch until there is a file `go` in its shared directory; not where it resumes
"""

import json
import os
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import TextIO

from podtune import trial


def ask(worker: TextIO, **words: int) -> dict[str, int]:
    worker.write(json.dumps(words) + "\n")
    worker.flush()
    line = worker.readline()
    if not line:
        sys.exit("a worker has gone")
    answer: dict[str, int] = json.loads(line)
    return answer


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    roles, role = json.loads(os.environ["PODTUNE_ROLES"]), os.environ["PODTUNE_ROLE"]
    assert (role, os.environ["PODTUNE_ROLE_INDEX"], os.environ["RANK"]) == ("driver", "0", "0")
    restored = trial.restored_checkpoint()
    start = json.loads((restored / "state.json").read_text())["epoch"] if restored else 0
    server = socket.create_server(("", int(os.environ["MASTER_PORT"])))
    workers = [server.accept()[0].makefile("rw") for _ in range(roles["worker"])]
    places = sorted(ask(worker, epoch=0)["index"] for worker in workers)
    go, hold_at = Path(os.environ["PODTUNE_DIR"]) / "go", int(os.environ.get("HOLD_AT", "0"))
    for epoch in range(start + 1, int(os.environ.get("EPOCHS", "5")) + 1):
        while start == 0 and epoch == hold_at and not go.exists():
            time.sleep(0.1)
        work = sum(ask(worker, epoch=epoch)["work"] for worker in workers)
        directory = Path(tempfile.mkdtemp())
        (directory / "state.json").write_text(json.dumps({"epoch": epoch}))
        metrics = {"value": 1 - 1 / (epoch + 1), "work": work, "start": start, "places": len(set(places))}
        trial.report({"training_iteration": epoch, **metrics}, checkpoint=directory)
    for worker in workers:
        ask(worker, epoch=-1)


main()
