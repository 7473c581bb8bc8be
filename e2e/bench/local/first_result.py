"""How long somebody waits for a first result who begins with nothing: `pip install`, then `podtune run`."""

from __future__ import annotations

import subprocess
import tempfile
import time
import venv
from pathlib import Path

from e2e.bench.tuner.environments import ROOT, Missing

PACKAGES = (".[local,dashboard]", "scikit-learn")
"""Those of README's first commands."""
EXAMPLE = ("examples/digits/experiment.yaml", "--workdir", "examples/digits", "--dashboard")
"""What `podtune run` is given there, up to the port."""
FIRST_RESULT = "best accuracy"
"""What `podtune run` says once a trial has reported."""
LIMIT = 600.0


def measure_first_result() -> dict[str, float]:
    """Seconds that the installation takes, and those from its end to the first result.

    Raises:
        Missing: The packages can't be installed.
    """
    with tempfile.TemporaryDirectory(prefix="podtune-first-") as directory:
        place = Path(directory)
        venv.create(place / "venv", with_pip=True)
        programs = place / "venv/bin"
        began = time.perf_counter()
        pip = [str(programs / "pip"), "install", "--quiet", *PACKAGES]
        installed = subprocess.run(pip, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, check=False)
        if installed.returncode:
            raise Missing(f"pip install: {installed.stderr.strip().splitlines()[-1:]}")
        installation = time.perf_counter() - began
        return {"installation": installation, "first result": _wait_for_result(programs, place / "run")}


def _wait_for_result(programs: Path, run: Path) -> float:
    """Runs the example until its first result; returns how long that took, in seconds.

    Raises:
        RuntimeError: There is none.
    """
    words = [str(programs / "podtune"), "run", *EXAMPLE, "0", "--directory", str(run)]
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(run.parent)}
    began = time.perf_counter()
    with subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        has_result = any(FIRST_RESULT in line for line in process.stdout)
        waited = time.perf_counter() - began
        process.terminate()
        process.stdout.read()
    if not has_result:
        raise RuntimeError(f"the example has ended without a result, with exit code {process.returncode}")
    return waited
