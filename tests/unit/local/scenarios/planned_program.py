"""The program of a scenario's trials: does what a plan says, as `SimulatedPod` does it in virtual time.

Usage: planned_program.py PLAN train|evaluate
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[4] / "operator"))

from podtune import trial


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    index = os.environ["PODTUNE_TRIAL_INDEX"]
    faults = plan["faults"].get(index, [])
    attempt = int(os.environ["PODTUNE_ATTEMPT"])
    fault = faults[attempt - 1] if attempt <= len(faults) else None
    restored = trial.restored_checkpoint()
    step = int((restored / "step").read_text()) if restored is not None else 0
    if sys.argv[2] == "evaluate":
        time.sleep(plan["seconds"])
        _strike(fault, step)
        value = plan["evaluations"][index].get(str(step))
        trial.report({"seen": step} | ({} if value is None else {"accuracy": value}))
        return
    while True:
        time.sleep(plan["seconds"])
        _strike(fault, step)
        if step >= plan["steps"]:
            return
        step += 1
        _report(plan, index, step)


def _strike(fault: list[Any] | None, step: int) -> None:
    """Has the fault that is planned for the attempt happen after its iteration."""
    if fault is None or step < fault[1]:
        return
    print(f"epoch {step}\nTraceback (most recent call last)\nValueError: boom", flush=True)
    match fault[0]:
        case "CRASH":
            os._exit(fault[2])
        case "OOM":
            os.kill(os.getpid(), signal.SIGKILL)
        case "HUNG":
            while True:
                signal.pause()
        case other:
            raise AssertionError(f"{other} strikes no process")


def _report(plan: dict[str, Any], index: str, step: int) -> None:
    metrics = {"training_iteration": step, **plan["metrics"][index][str(step)]}
    every = plan["checkpoint_every"]
    checkpoint = None
    if plan["stores"] and ((every and step % every == 0) or trial.should_checkpoint()):
        checkpoint = Path(os.environ["PODTUNE_DIR"]) / "state"
        checkpoint.mkdir(exist_ok=True)
        (checkpoint / "step").write_text(str(step))
    trial.report(metrics, checkpoint)


if __name__ == "__main__":
    main()
