"""The environments of `make replay` have what the rules import: nobody runs it with each change."""

import json
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

REQUIREMENTS = Path(__file__).resolve().parents[3] / "requirements"
PROGRAM = """
import json, sys
before = set(sys.modules)
from podtune.tuning import randomness
from podtune.tuning.schedulers import factory
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules.keys() - before})))
"""


@pytest.mark.parametrize("name", ["replay.txt", "replay-syne-tune.txt"])
def test_a_reference_s_environment_has_what_the_schedulers_import(name: str) -> None:
    pinned = {line.partition("==")[0] for line in (REQUIREMENTS / name).read_text().splitlines() if "==" in line}
    loaded = json.loads(subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True).stdout)
    packages = packages_distributions()
    installed = {package for module in loaded for package in packages.get(module, [])} - {"podtune"}
    needed = {package.lower().replace("_", "-") for package in installed}
    assert "pydantic" in needed
    assert needed <= pinned
