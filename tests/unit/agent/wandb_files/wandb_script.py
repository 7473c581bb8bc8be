"""What people's scripts log to Weights & Biases; prints the rows that it has logged, each with its step.

Argument: a file to wait for after the first row, so that somebody sees it while the script runs.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import wandb

seen = Path(sys.argv[1])
logged: list[dict[str, Any]] = []

with wandb.init(project="first") as run:

    def log(**row: Any) -> None:
        """Logs a row, whose step is its number."""
        logged.append({"step": len(logged), **row})
        run.log(row)

    log(loss=1.0, epoch=1)
    while not seen.exists():
        time.sleep(0.05)
    log(loss=0.5, epoch=2, val={"acc": 0.25, "top": {"5": 0.75}}, name="adam", done=True)
    log(loss=float("nan"), text="x" * 40_000, lr=1e-9)
    for epoch in range(3, 400):
        log(**{"loss": 1 / epoch, "epoch": epoch, "bytes": 1 << 40, "train/loss": -epoch})
    run.log({"notes": wandb.Html("<b>none</b>"), "samples": wandb.Table(columns=["x"], data=[[1.5]])})

wandb.init(project="second", config={"lr": 0.1})
wandb.log({"loss": 0.2}, step=10)
wandb.log({"lr": 0.1}, step=10)
wandb.log({"loss": 0.1}, step=12, commit=True)
wandb.finish()
logged += [{"step": 10, "loss": 0.2, "lr": 0.1}, {"step": 12, "loss": 0.1}]
print(json.dumps(logged))
