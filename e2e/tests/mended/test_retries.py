"""What a person asks of a trial that runs: another attempt."""

from __future__ import annotations

REVISION = "podtune.dev/template-revision"
SLOW = {"EPOCHS": "6", "EPOCH_SECONDS": "0.5", "HOLD_AT": "4"}
"""It waits at an epoch until it is let go on, or asked to stop."""
ONE = {"algorithm": "random", "maxTrials": 1, "seed": 1}
