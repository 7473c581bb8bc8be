"""The server as a program: its probes, its prefix, its logs, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest
import yaml

from podtune.kube import paths
from tests.unit.dashboard.live.live_api import EXPERIMENTS, TRIALS, team_experiment, team_trial
from tests.unit.dashboard.test_serving import ApiServer

WAIT = 60


@pytest.fixture
def api_server() -> Iterator[ApiServer]:
    lists = {EXPERIMENTS: [team_experiment()], TRIALS: [team_trial(0)]}
    server = ApiServer(lists | {paths.experiments("empty"): [], paths.trials("empty"): []})
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.over.set()
    server.http.shutdown()
    server.http.server_close()
    thread.join()


@contextmanager
def run_server(api_server: ApiServer, folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The program, and its address as soon as it knows the cluster."""
    config = {
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
        "clusters": [{"name": "one", "cluster": {"server": api_server.url}}],
        "users": [{"name": "one", "user": {"token": "dashboard-token"}}],
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(config), encoding="utf-8")
    command = [sys.executable, "-m", "podtune.dashboard", "--address", "127.0.0.1", "--port", "0", *options]
    environment = os.environ | {"KUBECONFIG": str(folder / "kubeconfig")}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as program:
        assert program.stderr is not None
        listening = json.loads(program.stderr.readline())
        assert listening["event"] == "dashboard listens"
        try:
            yield program, f"http://127.0.0.1:{listening['port']}"
        finally:
            program.kill()


def await_event(program: subprocess.Popen[str], event: str) -> None:
    assert program.stderr is not None
    for line in program.stderr:
        if json.loads(line)["event"] == event:
            return
    raise AssertionError(f"no {event!r}")


def read(url: str) -> tuple[int, str, str]:
    """Status, text and where redirects have led to."""
    try:
        with urllib.request.urlopen(url, timeout=WAIT) as answer:
            return answer.status, answer.read().decode(), answer.url
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), url


def test_it_serves_below_a_prefix_and_ends_at_once_when_told_to(api_server: ApiServer, tmp_path: Path) -> None:
    options = ("--open", "--namespaces", "team,empty", "--title", "prod", "--prefix", "/tools/podtune/")
    with run_server(api_server, tmp_path, *options) as (program, address):
        await_event(program, "dashboard is ready")
        assert read(f"{address}/healthz")[:2] == (200, "ok\n")
        assert read(f"{address}/readyz")[:2] == (200, "ok\n")
        for path in ("/", "/tools/podtune"):
            status, page, url = read(address + path)
            assert (status, url) == (200, f"{address}/tools/podtune/")
            assert "prod" in page
        home = f"{address}/tools/podtune/experiments/team/digits/"
        page = read(f"{home}trials/digits-0")[1]
        root = re.search('class="brand" href="([^"]+)"', page)
        assert root
        assert urljoin(f"{home}trials/digits-0", root[1]) == f"{address}/tools/podtune/"
        style = re.search('rel="stylesheet" href="([^"]+)"', page)
        assert style
        assert read(urljoin(f"{home}trials/digits-0", style[1]))[0] == 200
        with urllib.request.urlopen(f"{address}/tools/podtune/events", timeout=WAIT) as stream:
            assert stream.readline() == b": open\n"
            program.send_signal(signal.SIGTERM)
            await_event(program, "dashboard ends")
            assert program.wait(WAIT) == 0


def test_without_a_token_it_shows_a_login_and_answers_probes(api_server: ApiServer, tmp_path: Path) -> None:
    with run_server(api_server, tmp_path, "--namespaces", "team") as (program, address):
        await_event(program, "dashboard is ready")
        status, page, _ = read(f"{address}/experiments/team/digits/")
        assert status == 401
        assert "accuracy" not in page
        assert read(f"{address}/readyz")[0] == 200


def test_of_a_broken_request_no_header_is_logged(api_server: ApiServer, tmp_path: Path) -> None:
    with run_server(api_server, tmp_path, "--namespaces", "team") as (program, address):
        await_event(program, "dashboard is ready")
        with socket.create_connection(("127.0.0.1", urlsplit(address).port), WAIT) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nCookie: podtune=secret\x01\r\n\r\n")
            assert b"400 Bad Request" in connection.recv(4096)
        program.send_signal(signal.SIGTERM)
        errors = program.communicate(timeout=WAIT)[1]
    assert [json.loads(line)["event"] for line in errors.splitlines()] == [
        "a request is not valid HTTP",
        "dashboard ends",
    ]
    assert "secret" not in errors


def test_where_it_may_read_nothing_it_says_so_and_ends(api_server: ApiServer, tmp_path: Path) -> None:
    with run_server(api_server, tmp_path) as (program, _):
        errors = program.communicate(timeout=WAIT)[1]
        assert program.returncode == 1
    assert "the API server says 403: you cannot list" in errors
