"""Pins all dependencies anew, each file with hashes and without the name of any package index."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
UV = str(Path(sys.executable).parent / "uv")
OPTIONS = ["--quiet", "--upgrade", "--generate-hashes", "--python-version", "3.11", "--no-header"]
OPTIONS += ["--no-emit-index-url", "--no-annotate"]
FILES: dict[str, list[str]] = {
    "operator.txt": ["--extra", "operator", "pyproject.toml"],
    # On top of operator.txt, and so with its versions of what both need.
    "gp.txt": ["--extra", "gp", "--constraint", "requirements/operator.txt", "pyproject.toml"],
    "agent.txt": ["--extra", "agent", "pyproject.toml"],
    "cli.txt": ["--extra", "cli", "pyproject.toml"],
    # With what reads stores, in the agent's versions.
    "dashboard.txt": [
        *("--extra", "cli", "--extra", "dashboard", "--extra", "agent"),
        *("--constraint", "requirements/agent.txt", "pyproject.toml"),
    ],
    "replay.txt": ["requirements/replay.in"],
    "replay-syne-tune.txt": ["requirements/replay-syne-tune.in"],
    "bench-syne-tune.txt": ["requirements/bench-syne-tune.in"],
    "bench-awscli.txt": ["requirements/bench-awscli.in"],
    "bench-optuna-gp.txt": ["requirements/bench-optuna-gp.in"],
    "bench-optuna-dashboard.txt": ["requirements/bench-optuna-dashboard.in"],
    "unchanged-scripts.txt": ["requirements/unchanged-scripts.in"],
    "event-files.txt": ["requirements/event-files.in"],
    "mlflow.txt": ["requirements/mlflow.in"],
    "wandb.txt": ["requirements/wandb.in"],
    "tensorboard.txt": ["requirements/tensorboard.in"],
    "pyright.txt": ["requirements/pyright.in"],
    "checkov.txt": ["requirements/checkov.in"],
    "docs.txt": ["requirements/docs.in"],
    "dev.txt": ["--all-extras", "--group", "dev", "pyproject.toml"],
    # In one environment with dev.txt.
    "build.txt": ["--constraint", "requirements/dev.txt", "requirements/build.in"],
    "uv.txt": ["requirements/uv.in"],
    "release-checks.txt": ["requirements/release-checks.in"],
    "../examples/digits/requirements.txt": ["examples/digits/requirements.in"],
    "../examples/gradient-boosting/requirements.txt": ["examples/gradient-boosting/requirements.in"],
}


def main() -> None:
    """Writes all lock files."""
    for name, sources in FILES.items():
        command = [UV, "pip", "compile", *OPTIONS, *sources, "--output-file", f"requirements/{name}"]
        subprocess.run(command, cwd=HERE.parent, check=True)
        print(f"requirements/{name}: {(HERE / name).read_text().count('==')} packages")


if __name__ == "__main__":
    main()
