"""A training program of several ranks that meet at rank 0 and go in step; each keeps a shard of the state.

Rank 0 listens at MASTER_PORT, the others connect to MASTER_ADDR. What can go wrong is chosen by the environment:
    EPOCHS          how many epochs it trains (5)
    EPOCH_SECONDS   how long each takes (0.3)
    HOLD_AT         rank 0 waits before this epoch until there is a file `go` in its shared directory, or it is asked to
                    stop; not where it resumes
    OOM_RANK        this rank uses more memory than it may, from OOM_AT (3) on, on the first attempt
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

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ADDRESS = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])


def meet() -> list[TextIO]:
    """Connections to all others on rank 0, and to rank 0 on the others."""
    if RANK == 0:
        server = socket.create_server(("", ADDRESS[1]))
        return [server.accept()[0].makefile("rw") for _ in range(WORLD - 1)]
    while True:
        try:
            return [socket.create_connection(ADDRESS, timeout=60).makefile("rw")]
        except OSError as error:
            print(f"rank 0 is not there yet: {error}", flush=True)
            time.sleep(0.3)


def say(peer: TextIO, **words: int) -> None:
    peer.write(json.dumps(words) + "\n")
    peer.flush()


def hear(peer: TextIO) -> dict[str, int]:
    line = peer.readline()
    if not line:
        sys.exit("a peer has gone")
    words: dict[str, int] = json.loads(line)
    return words


def step(epoch: int, seconds: float) -> Path:
    """One epoch of this rank: its shard of the state, in a checkpoint."""
    time.sleep(seconds)
    is_due = epoch >= int(os.environ.get("OOM_AT", "3")) and os.environ["PODTUNE_ATTEMPT"] == "1"
    hoard = []
    while is_due and int(os.environ.get("OOM_RANK", "-1")) == RANK:
        hoard.append(bytearray(8 << 20))
    directory = Path(tempfile.mkdtemp())
    (directory / f"shard-{RANK}.json").write_text(json.dumps({"epoch": epoch}))
    return directory


def hold(epoch: int, start: int) -> None:
    go = Path(os.environ["PODTUNE_DIR"]) / "go"
    while start == 0 and epoch == int(os.environ.get("HOLD_AT", "0")) and not go.exists():
        if trial.should_stop():
            sys.exit()
        time.sleep(0.1)


def main() -> None:
    # The first process of a container is not ended by a signal that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    seconds, epochs = float(os.environ.get("EPOCH_SECONDS", "0.3")), int(os.environ.get("EPOCHS", "5"))
    restored = trial.restored_checkpoint()
    shards = [json.loads(path.read_text())["epoch"] for path in restored.glob("shard-*.json")] if restored else []
    start = shards[0] if len(shards) == WORLD and len(set(shards)) == 1 else 0
    peers = meet()
    if RANK == 0:
        starts = [start, *(hear(peer)["start"] for peer in peers)]
        for epoch in range(start + 1, epochs + 1):
            hold(epoch, start)
            for peer in peers:
                say(peer, epoch=epoch)
            directory = step(epoch, seconds)
            for peer in peers:
                hear(peer)
            metrics = {"value": 1 - 1 / (epoch + 1), "start": start, "agreed": int(len(set(starts)) == 1)}
            trial.report({"training_iteration": epoch, **metrics}, checkpoint=directory)
        for peer in peers:
            say(peer, epoch=0)
        return
    say(peers[0], start=start)
    while epoch := hear(peers[0])["epoch"]:
        directory = step(epoch, seconds)
        trial.report({"training_iteration": epoch}, checkpoint=directory)
        say(peers[0], done=epoch)


main()
