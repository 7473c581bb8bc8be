"""What `podtune plan` and `podtune simulate` print for every scheduler; `python -m tests.unit.cli.golden_outputs`
writes it anew."""

from __future__ import annotations

import contextlib
import io
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from podtune.cli import main as cli

GOLDEN = Path(__file__).parent / "golden"
SCHEDULERS: dict[str, dict[str, Any]] = {
    "fifo": {},
    "asha": {"maxTime": 27, "reductionFactor": 3, "brackets": 2},
    "ashaPromotion": {"maxTime": 27, "reductionFactor": 3},
    "hyperband": {"maxTime": 27, "reductionFactor": 3},
    "bohb": {"maxTime": 27, "reductionFactor": 3},
    "median": {"gracePeriod": 3},
    "pbt": {"interval": 5},
    "pb2": {"interval": 5},
}
OUTPUTS: dict[str, str] = {
    **{f"plan-{kind}.txt": f"plan {kind}.yaml --price-per-gpu-hour 2.5" for kind in SCHEDULERS},
    "plan-hyperband.json": "plan hyperband.yaml --time-per-iteration 30s -o json",
    "simulate-asha.txt": "simulate asha.yaml --function branin --gpus 4 --crashes-per-hour 0.5",
    "simulate-asha.json": "simulate asha.yaml --function branin --gpus 4 --crashes-per-hour 0.5 -o json",
    "simulate-ashaPromotion.txt": "simulate ashaPromotion.yaml --function hartmann6 --seed 3",
}


def manifest(kind: str, **changes: Any) -> dict[str, Any]:
    """An Experiment with a scheduler."""
    spec: dict[str, Any] = {
        "objective": {"metric": "loss", "mode": "min"},
        "parameters": [{"name": f"x{i}", "float": {"min": 0, "max": 1}} for i in range(6)],
        "search": {"algorithm": "bohb" if kind == "bohb" else "random", "maxTrials": 27, "seed": 1},
        "scheduler": {kind: SCHEDULERS[kind]},
        "maxConcurrentTrials": 6,
        "checkpoints": {"store": {"bucket": "podtune"}},
        "trialTemplate": {
            "spec": {
                "containers": [
                    {
                        "name": "trial",
                        "image": "registry.example/train:1",
                        "resources": {"limits": {"nvidia.com/gpu": 1}},
                    }
                ]
            }
        },
        **changes,
    }
    metadata = {"name": kind.lower()}
    return {"apiVersion": "podtune.dev/v1alpha1", "kind": "Experiment", "metadata": metadata, "spec": spec}


def write_manifests(directory: Path) -> None:
    """Writes a manifest for each scheduler."""
    for kind in SCHEDULERS:
        (directory / f"{kind}.yaml").write_text(yaml.safe_dump(manifest(kind), sort_keys=False), encoding="utf-8")


def main() -> int:
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        write_manifests(Path())
        for name, command in OUTPUTS.items():
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                code = cli.main(shlex.split(command))
            if code != 0:
                print(f"{command}: exit code {code}", file=sys.stderr)
                return 1
            (GOLDEN / name).write_text(stripped(printed.getvalue()), encoding="utf-8")
    return 0


def stripped(text: str) -> str:
    """The text without blanks at the ends of lines, which no editor keeps."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


if __name__ == "__main__":
    sys.exit(main())
