"""A training program whose weights say where they come from: they are drawn once, and go on only by checkpoints.

Its value is the parameter `rate`, so the trial with the lowest is the one that has to learn from another; who has
learnt stays below its teacher, so the best of the first draw clones nobody. Each result holds the SHA-256 of the
weights and the rate that it was made with.
    EPOCHS          how many epochs it trains, one more after a checkpoint of the last; where it began afresh, it
                    trains on until there is a file `go` in the shared directory
    EPOCH_SECONDS   how long each takes
"""

import hashlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from podtune import trial


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rate = float(trial.params()["rate"])
    restored = trial.restored_checkpoint()
    weights, epoch, value = os.urandom(64), 0, rate
    if restored is not None:
        weights = (restored / "weights").read_bytes()
        value = min(rate, 0.999 * float((restored / "value").read_text()))
        epoch = int((restored / "epoch").read_text())
    while True:  # at least once: the donor of a late clone has trained all its epochs
        time.sleep(float(os.environ["EPOCH_SECONDS"]))
        epoch += 1
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "weights").write_bytes(weights)
            (Path(directory) / "epoch").write_text(str(epoch))
            (Path(directory) / "value").write_text(str(value))
            digest = hashlib.sha256(weights).hexdigest()
            trial.report({"epoch": epoch, "value": value, "weights": digest, "rate": rate}, checkpoint=directory)
        may_end = restored is not None or (Path(os.environ["PODTUNE_DIR"]) / "go").exists()
        if may_end and epoch >= int(os.environ["EPOCHS"]):
            return


main()
