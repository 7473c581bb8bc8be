"""Brings what Podtune is measured beside into uv's cache: beside the local cluster there is no network to do so.

python -m e2e.bench.compared
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from e2e.bench.sync_tools import install_aws
from e2e.bench.tuner.environments import Environment, Missing

ENVIRONMENTS = ("replay.txt", "bench-syne-tune.txt", "bench-optuna-gp.txt")


def main() -> None:
    """Installs all; what can't be had is told, and left out of the figures."""
    for requirements in ENVIRONMENTS:
        try:
            Environment(requirements).install()
        except Missing as missing:
            print(missing, file=sys.stderr)
    with tempfile.TemporaryDirectory() as directory:
        install_aws(Path(directory))


if __name__ == "__main__":
    main()
