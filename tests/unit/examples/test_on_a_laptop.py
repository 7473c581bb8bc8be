"""The examples' READMEs: what they say of laptops works as it is typed, here with two trials each."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from docs.fenced_blocks import ROOT, find_blocks

EXAMPLES = ROOT / "examples"
HERE = "tests/unit/examples/test_on_a_laptop.py"
BLOCKS = {
    page.parent.name: block
    for page in sorted(EXAMPLES.glob("*/README.md"))
    for block in find_blocks(page)
    if block.run_by == HERE
}
ALWAYS = ("katib", "shell")
"""What is run each time; the cluster runs all of them."""


def find_port() -> int:
    """A free port: other tests run on this machine, too."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def type_block(folder: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Types a README's commands in a copy of its folder; those in the background end first."""
    copy = directory / folder
    shutil.copytree(EXAMPLES / folder, copy, ignore=shutil.ignore_patterns("podtune-runs", "__pycache__"))
    for file in (*copy.glob("*.yaml"), *copy.glob("*.py")):
        text = re.sub(r"(maxTrials: |max_trials=)\d+", r"\g<1>2", file.read_text(encoding="utf-8"))
        file.write_text(text.replace("{epoch: 40}", "{epoch: 8}"), encoding="utf-8")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PODTUNE_")}
    environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), environ["PATH"]))
    typed = "\n".join([*BLOCKS[folder].commands(), "wait"]).replace("29500", str(find_port()))
    return subprocess.run(
        ["bash", "-c", typed],
        cwd=copy,
        env=environ,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(folder, marks=() if folder in ALWAYS else pytest.mark.long)
        for folder in sorted(BLOCKS.keys() - {"gang"})
    ],
)
def test_two_trials_run_on_this_machine(folder: str, tmp_path: Path) -> None:
    done = type_block(folder, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\S+: all 2 trials are done", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.long
def test_the_gang_meets_without_a_cluster(tmp_path: Path) -> None:
    done = type_block("gang", tmp_path)
    last = re.findall(r"epoch 30  loss ([0-9.]+)", done.stdout)  # two ranks may print on one line
    assert len(last) == 3, done.stdout + done.stderr
    assert len(set(last)) == 1, "the ranks have trained different models"
