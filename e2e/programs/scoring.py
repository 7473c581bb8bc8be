"""An evaluation of what counter.py has trained: the score is 1 - base, so the best training has the worst one.

It reads the epoch from the checkpoint. What can go wrong is chosen by the environment:
    CRASH_FIRST     exit with code 3 on the first attempt of the evaluation of the trial with this index
    HOLD            wait until there is a file `go` in the shared directory, or it is asked to stop
"""

import json
import os
import sys
import time
from pathlib import Path

from podtune import trial

restored = trial.restored_checkpoint()
if restored is None:
    sys.exit("there is no checkpoint to evaluate")
epoch = json.loads((restored / "state.json").read_text())["epoch"]
if os.environ.get("CRASH_FIRST") == os.environ["PODTUNE_TRIAL_INDEX"] and os.environ["PODTUNE_ATTEMPT"] == "2":
    sys.exit(3)
while "HOLD" in os.environ and not (Path(os.environ["PODTUNE_DIR"]) / "go").exists():
    if trial.should_stop():
        sys.exit()
    time.sleep(0.1)
trial.report({"score": 1 - float(trial.params()["base"]), "evaluated_epoch": epoch})
