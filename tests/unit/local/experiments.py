"""Experiments of the tests in this folder: their programs are a few words of shell."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from podtune.local.local_run import LocalRun
from podtune.local.starting import start_run

PATIENCE = 60.0
LONGEST_RUN = 240.0
"""Seconds that a whole run may take, however busy the machine is: less than a test may."""
REPORT = 'echo "{\\"score\\": $PODTUNE_PARAM_x}" >> "$PODTUNE_DIR/results.jsonl"'
"""Reports the parameter x."""
FOREVER = "while :; do sleep 1; done"
COUNT = """
i=$(cat "$PODTUNE_DIR/restored/step" 2>/dev/null || echo 0); echo "from $i" >> "$PODTUNE_TRIAL.txt"
while [ $i -lt 4 ]; do
  i=$((i+1)); mkdir -p "$PODTUNE_DIR/checkpoints/$i"; echo $i > "$PODTUNE_DIR/checkpoints/$i/step"
  echo "{\\"step\\": $i, \\"score\\": $PODTUNE_PARAM_x, \\"_checkpoint\\": \\"$i\\"}" >> "$PODTUNE_DIR/results.jsonl"
  %s
done
"""
"""Counts to four, with a checkpoint at each step, and goes on from the one that is restored."""
STORE = {"store": {"bucket": "models"}}


def make_manifest(script: str = REPORT, *, trials: int = 2, concurrent: int = 1, **spec: Any) -> dict[str, Any]:
    container = {"name": "trial", "image": "train:1", "command": ["sh", "-c", script]}
    return {
        "apiVersion": "podtune.dev/v1alpha1",
        "kind": "Experiment",
        "metadata": {"name": "tiny"},
        "spec": {
            "objective": {"metric": "score", "mode": "max"},
            "parameters": [{"name": "x", "float": {"min": 0, "max": 1}}],
            "search": {"algorithm": "random", "maxTrials": trials, "seed": 1},
            "maxConcurrentTrials": concurrent,
            "trialTemplate": {"spec": {"containers": [container], "terminationGracePeriodSeconds": 1}},
            **spec,
        },
    }


def make_run(manifest: dict[str, Any], path: Path, **options: Any) -> LocalRun:
    path.mkdir(exist_ok=True)
    run, _ = start_run("tiny", manifest, environ=os.environ, directory=path / "run", workdir=path, **options)
    return run


def follow(run: LocalRun, until: Callable[[LocalRun], bool] = lambda _: False) -> None:
    """Runs an experiment to its end, or until something holds."""
    deadline = time.monotonic() + LONGEST_RUN
    try:
        for _ in run.follow():
            assert time.monotonic() < deadline, run.progress.experiment
            if until(run):
                return
    finally:
        run.kill()
        run.close()
