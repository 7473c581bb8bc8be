"""The dashboard beside a run."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from podtune.cli.commands.experiments.live_dashboard import show_run
from podtune.cli.errors import CliError
from tests.unit.local.experiments import PATIENCE, make_manifest, make_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The directory of a run that has just begun."""
    make_run(make_manifest(), tmp_path).close()
    return tmp_path / "run"


def _answers(address: str) -> bool:
    try:
        with urlopen(address, timeout=PATIENCE) as page:
            return "tiny" in page.read().decode()
    except OSError:
        return False


def test_it_is_there_while_the_run_is(run: Path) -> None:
    with show_run(run, 0) as address:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
        assert _answers(address)
    assert not _answers(address)


@pytest.mark.long
def test_a_port_that_is_taken_is_told_with_how_to_go_on(run: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(CliError, match=rf"--dashboard {port}: port {port}: .*--port.*podtune run --resume"),
            show_run(run, port),
        ):
            pass


@pytest.mark.long
def test_it_ends_with_a_run_that_is_killed(run: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path\n"
        "from podtune.cli.commands.experiments.live_dashboard import show_run\n"
        "with show_run(Path(sys.argv[1]), 0) as address: print(address, flush=True); os._exit(9)"
    )
    said = subprocess.run([sys.executable, "-c", script, run], capture_output=True, text=True, check=False)
    deadline = time.monotonic() + PATIENCE
    while _answers(said.stdout.strip()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert said.returncode == 9
