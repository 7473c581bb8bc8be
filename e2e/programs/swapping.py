"""In its second turn it puts a link to the agent's token where its directory was, and reports what came of it."""

import os
import time
from pathlib import Path

from podtune import trial

for this in trial.stream():
    refused = 0
    own = Path(os.environ["PODTUNE_DIR"])
    if own.parent.name == "trials":
        try:
            own.rename(own.with_name("moved"))
        except PermissionError:
            refused = 1
        trials, moved = own.parent, own.parent.with_name("moved")
        trials.rename(moved)  # the volume itself is everybody's
        trials.mkdir()
        own.symlink_to("/var/run/secrets/podtune.dev")
        time.sleep(4)  # several passes over the artifacts
        own.unlink()
        trials.rmdir()
        moved.rename(trials)
    this.report({"value": 1.0, "refused": refused})
