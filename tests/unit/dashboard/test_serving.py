"""`podtune dashboard FILE`."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from podtune.cli import main as cli
from podtune.cli.errors import CliError
from podtune.dashboard import serving
from tests.unit.dashboard.archives import pack

WAIT = 60


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    file = tmp_path / "digits.yaml"
    file.write_text(pack().to_yaml(), encoding="utf-8")
    return file


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_an_archive_is_served_on_loopback_until_the_program_is_stopped(archive: Path) -> None:
    command = [sys.executable, "-m", "podtune.cli.main", "dashboard", str(archive), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        address = program.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{address}experiments/team/digits/", timeout=WAIT) as answer:
            assert "digits-1" in answer.read().decode()
        program.send_signal(signal.SIGINT)
        assert program.wait(WAIT) == 0


def test_a_large_archive_is_read_aside_with_the_same_outcome(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = serving.read_source(archive)
    monkeypatch.setattr(serving, "LARGE", 0)
    assert serving.read_source(archive).list_trials("team", "digits") == small.list_trials("team", "digits")
    broken = tmp_path / "broken.yaml"
    broken.write_text(archive.read_text(encoding="utf-8").replace("0.75", "0.76"), encoding="utf-8")
    with pytest.raises(CliError, match="it is damaged"):
        serving.read_source(broken)


def test_a_taken_port_is_said(archive: Path, taken_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["dashboard", str(archive), "--port", str(taken_port)]) == 1
    assert f"error: port {taken_port}: Address already in use; choose another with --port" in capsys.readouterr().err


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "other.yaml"
    file.write_text("kind: Pod\n", encoding="utf-8")
    assert cli.main(["dashboard", str(file)]) == 1
    assert "it is no ExperimentArchive" in capsys.readouterr().err


def test_a_missing_package_is_named(archive: Path) -> None:
    program = f"""
import sys
sys.modules["jinja2"] = None
from podtune.cli.main import main
raise SystemExit(main(["dashboard", {str(archive)!r}]))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT, check=False)
    assert ended.returncode == 1
    assert "the dashboard needs jinja2, which is not installed" in ended.stderr
