"""A training program that only counts: its value after epoch n is base * (1 - 1 / (n + 1)).

It resumes where its checkpoint says. What can go wrong is chosen by the environment:
    EPOCHS          how many epochs it trains (3)
    EPOCH_SECONDS   how long each takes (0.2)
    CRASH_AT        exit with CRASH_CODE (1) when this epoch is reached on the first attempt
    CRASH_ALWAYS    the same on every attempt
    STDOUT          set: print results instead of reporting them
    PRINT           set: print the number of each epoch, too
    TRAP            set: end with exit code 0 on SIGTERM
    OOM_AT          take more memory than there is when this epoch is reached on the first attempt
    FILL_AT         fill the disk likewise
    WAIT_AT         wait for SIGTERM likewise
    HANG_AT         hang likewise, deaf to SIGTERM
    TAKE_AT         hold TAKE_MIB of memory from this epoch on, on every attempt
    HOLD_AT         wait before this epoch until there is a file `go` in the shared directory, or it is asked to stop;
                    not where it resumes
    HOLD_EACH       wait so before each epoch but the first of an attempt, for a file `go-EPOCH`
    UNTIL_GO        set: its last epoch is that in which there is a file `go`, if it is before that of EPOCHS
    CRASH_NODE      crash only on this node; NODE says which one it is
    STORE_EACH      hand a checkpoint over after every such number of epochs (1)
    ON_REQUEST      set: hand a checkpoint over only when one is asked for
    WEIGHTS_MIB     add a file of so many MiB to each checkpoint, which is never the same (0)
"""

import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from podtune import trial


def go_wrong(epoch: int) -> None:
    if epoch == int(os.environ.get("OOM_AT", "0")):
        hoard = [bytearray(os.urandom(1 << 20)) for _ in range(4096)]
        print(len(hoard), flush=True)
    if epoch == int(os.environ.get("FILL_AT", "0")):
        with tempfile.NamedTemporaryFile() as file:  # one without a name is not counted
            for _ in range(192):
                file.write(bytes(1 << 20))
            file.flush()
            time.sleep(600)
    if epoch == int(os.environ.get("WAIT_AT", "0")):
        time.sleep(600)
    if epoch == int(os.environ.get("HANG_AT", "0")):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print(f"hanging at epoch {epoch}", flush=True)
        time.sleep(600)


def hold(epoch: int, start: int) -> None:
    if start == 0 and epoch == int(os.environ.get("HOLD_AT", "0")):
        wait_for("go")
    if "HOLD_EACH" in os.environ and epoch > start + 1:
        wait_for(f"go-{epoch}")


def wait_for(name: str) -> None:
    file = Path(os.environ["PODTUNE_DIR"]) / name
    while not file.exists():
        if trial.should_stop():
            sys.exit()
        time.sleep(0.1)


def write_weights(path: Path) -> None:
    with path.open("wb") as file:
        for _ in range(int(os.environ["WEIGHTS_MIB"])):
            file.write(os.urandom(1 << 20))


def main() -> None:
    # The first process of a container is not ended by a signal that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0 if "TRAP" in os.environ else 143))
    parameters = trial.params()
    base = float(parameters["base"])
    epochs = int(os.environ.get("EPOCHS", "3"))
    seconds = float(os.environ.get("EPOCH_SECONDS", "0.2"))
    crash_at = int(os.environ.get("CRASH_AT", "0"))
    always = "CRASH_ALWAYS" in os.environ
    only = os.environ.get("CRASH_TRIAL", os.environ["PODTUNE_TRIAL_INDEX"])
    may_crash = os.environ.get("CRASH_NODE", "") in ("", os.environ.get("NODE"))
    take_at = int(os.environ.get("TAKE_AT", "0"))
    taken: list[bytes] = []
    start = 0
    restored = trial.restored_checkpoint()
    if restored is not None:
        start = json.loads((restored / "state.json").read_text())["epoch"]
        print(f"resumed from epoch {start}", flush=True)
    for epoch in range(start + 1, epochs + 1):
        time.sleep(seconds)
        hold(epoch, start)
        first = os.environ["PODTUNE_ATTEMPT"] == "1"
        if epoch == crash_at and may_crash and (always or first) and only == os.environ["PODTUNE_TRIAL_INDEX"]:
            print(f"crashing at epoch {epoch}", file=sys.stderr, flush=True)
            sys.exit(int(os.environ.get("CRASH_CODE", "1")))
        if first:
            go_wrong(epoch)
        if take_at and epoch >= take_at and not taken:
            taken += [os.urandom(1 << 20) for _ in range(int(os.environ["TAKE_MIB"]))]
        value = base * (1 - 1 / (epoch + 1))
        if "PRINT" in os.environ:
            print(f"epoch {epoch}", flush=True)
        if "STDOUT" in os.environ:
            print(f"epoch={epoch} value={value}", flush=True)
            continue
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "state.json").write_text(json.dumps({"epoch": epoch}))
            if "WEIGHTS_MIB" in os.environ:
                write_weights(Path(directory) / "weights")
            due = epoch % int(os.environ.get("STORE_EACH", "1")) == 0
            wanted = trial.should_checkpoint() if "ON_REQUEST" in os.environ else due
            metrics = {"epoch": epoch, "value": value, "start": start}
            trial.report(metrics, checkpoint=directory if wanted else None)
        told_to_end = "UNTIL_GO" in os.environ and (Path(os.environ["PODTUNE_DIR"]) / "go").exists()
        if told_to_end or trial.should_stop():
            return


main()
