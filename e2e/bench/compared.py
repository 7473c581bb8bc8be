"""Brings to this machine what the benchmark needs: beside the local cluster there is no network to do so.

python -m e2e.bench.compared
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from e2e.bench.sync.sync_tools import RCLONE, install_aws
from e2e.bench.tuner.environments import Environment, Missing
from e2e.browser.chromium import ensure_chromium
from e2e.devcluster.building import packages
from e2e.devcluster.errors import ClusterError

ENVIRONMENTS = ("replay.txt", "bench-syne-tune.txt", "bench-optuna-gp.txt", "bench-optuna-dashboard.txt")


def main() -> None:
    """Installs all; what can't be had is told, and left out of the figures."""
    steps: list[Callable[[], object]] = [Environment(requirements).install for requirements in ENVIRONMENTS]
    for step in (*steps, ensure_chromium, _install_aws, _install_rclone):
        try:
            step()
        except (Missing, ClusterError) as missing:
            print(missing, file=sys.stderr)


def _install_aws() -> None:
    with tempfile.TemporaryDirectory() as directory:
        install_aws(Path(directory))


def _install_rclone() -> None:
    if shutil.which(RCLONE) is None:
        packages.install(RCLONE)


if __name__ == "__main__":
    main()
