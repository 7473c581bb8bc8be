"""A training program that goes from trial to trial, and trains next to nothing: its value is `base`.

What can be chosen by the environment:
    CRASH_TRIAL     index of a trial whose first attempt crashes
    WAIT_TRIAL      index of a trial that reports once and then waits until it is to stop
    CHECKPOINTS     set: a checkpoint with each result
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from podtune import trial

for this in trial.stream():
    index, attempt = os.environ["PODTUNE_TRIAL_INDEX"], os.environ["PODTUNE_ATTEMPT"]
    if index == os.environ.get("CRASH_TRIAL") and attempt == "1":
        sys.exit(1)
    base = float(this.params()["base"])
    restored = this.restored_checkpoint()
    start = json.loads((restored / "state.json").read_text())["epoch"] if restored else 0
    result = {"epoch": start + 1, "value": base, "start": start}
    if "CHECKPOINTS" in os.environ:
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "state.json").write_text(json.dumps({"epoch": start + 1, "index": index}))
            this.report(result, checkpoint=directory)
    else:
        this.report(result)
    while index == os.environ.get("WAIT_TRIAL") and attempt == "1" and not this.should_stop():
        time.sleep(0.05)
