"""`podtune dashboard`, with a file and without."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from aiohttp import web

from podtune.cli import main as cli
from podtune.cli.errors import CliError
from podtune.dashboard import serving
from podtune.kube.manifests import Manifest
from tests.unit.dashboard.archives import pack
from tests.unit.dashboard.live.live_api import EXPERIMENTS, TRIALS, team_experiment, team_trial

WAIT = 60


class ApiServer:
    """Lists what it has to those who may see it; its watches are silent until the test ends."""

    def __init__(self, lists: Mapping[str, list[Manifest]]) -> None:
        self.lists = lists
        self.over = threading.Event()
        handler = type("Handler", (_Handler,), {"api": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"


class _Handler(BaseHTTPRequestHandler):
    api: ApiServer

    def do_GET(self) -> None:
        split = urlsplit(self.path)
        found = self.api.lists.get(split.path)
        body = {"message": f"you cannot list {split.path}"}
        if found is not None:
            body = {"metadata": {"resourceVersion": "7"}, "items": found}  # type: ignore[dict-item]
        self.send_response(403 if found is None else 200)
        self.end_headers()
        if "watch" in parse_qs(split.query):
            self.wfile.flush()
            self.api.over.wait(WAIT)
        else:
            self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """A test says what it wants to know."""


@pytest.fixture
def api_server() -> Iterator[ApiServer]:
    server = ApiServer({EXPERIMENTS: [team_experiment()], TRIALS: [team_trial(0)]})
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.over.set()
    server.http.shutdown()
    server.http.server_close()
    thread.join()


@pytest.fixture
def kubeconfig(api_server: ApiServer, tmp_path: Path) -> Path:
    config = {
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one", "namespace": "team"}}],
        "clusters": [{"name": "one", "cluster": {"server": api_server.url}}],
        "users": [{"name": "one", "user": {"token": "abc"}}],
    }
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    return file


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


def test_without_a_file_the_cluster_is_served_and_open_streams_do_not_hold_the_program(kubeconfig: Path) -> None:
    options = ["--kubeconfig", str(kubeconfig), "--port", "0"]
    command = [sys.executable, "-m", "podtune.cli.main", "dashboard", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        address = program.stdout.readline().strip()
        with urllib.request.urlopen(f"{address}experiments/team/digits/trials", timeout=WAIT) as answer:
            assert "digits-0" in answer.read().decode()
        with urllib.request.urlopen(f"{address}events", timeout=WAIT) as stream:
            assert stream.readline() == b": open\n"
            program.send_signal(signal.SIGINT)
            _, errors = program.communicate(timeout=WAIT)
        assert program.returncode == 0
        assert errors == "reading namespace team\n"


def test_where_experiments_may_not_be_read_the_command_says_so(
    kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["dashboard", "-A", "--kubeconfig", str(kubeconfig), "--port", "0"]) == 1
    assert "the API server says 403: you cannot list" in (errors := capsys.readouterr().err)
    assert "name a namespace with -n" in errors


@pytest.mark.parametrize("options", [["-A"], ["-n", "team"], ["--context", "one"], ["--kubeconfig", "file"]])
def test_a_file_needs_no_cluster(archive: Path, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["dashboard", str(archive), *options]) == 1
    assert "is shown without a cluster; leave out -A, -n" in capsys.readouterr().err


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


async def test_idle_connections_are_closed_after_a_minute_or_so() -> None:
    runner = serving.make_runner(web.Application())
    await runner.setup()
    assert runner.server is not None
    assert runner.server().keepalive_timeout == 75
    await runner.cleanup()


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


def test_a_price_that_is_none_is_refused(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["dashboard", str(archive), "--gpu-price", "cheap"]) == 1
    assert (
        "--gpu-price, --currency: 'cheap' is no price of a GPU-hour; write a number above 0" in capsys.readouterr().err
    )
