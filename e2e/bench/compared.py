"""Brings what Podtune is measured beside to this machine: beside the local cluster there is no network to do so.

python -m e2e.bench.compared
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from e2e.bench.sync.sync_tools import RCLONE, install_aws
from e2e.bench.tuner.environments import Environment, Missing
from e2e.devcluster.building import packages
from e2e.devcluster.errors import ClusterError

ENVIRONMENTS = ("replay.txt", "bench-syne-tune.txt", "bench-optuna-gp.txt", "bench-optuna-dashboard.txt")


def main() -> None:
    """Installs all; what can't be had is told, and left out of the figures."""
    for requirements in ENVIRONMENTS:
        try:
            Environment(requirements).install()
        except Missing as missing:
            print(missing, file=sys.stderr)
    with tempfile.TemporaryDirectory() as directory:
        install_aws(Path(directory))
    if shutil.which(RCLONE) is None:
        try:
            packages.install(RCLONE)
        except ClusterError as error:
            print(error, file=sys.stderr)


if __name__ == "__main__":
    main()
