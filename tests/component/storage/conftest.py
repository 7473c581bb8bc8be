"""A real S3 server, versitygw, on the loopback interface."""

import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

ACCESS_KEY = "component-test"
SECRET_KEY = "component-test-secret"


def find_versitygw() -> str:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    built = sorted(cache.glob("podtune/tools/*/bin/versitygw"), key=lambda path: path.stat().st_mtime)
    found = shutil.which("versitygw") or (built and str(built[-1]))
    if not found:
        pytest.fail(
            f"versitygw is neither on PATH nor below {cache}/podtune/tools; `python -m e2e.cluster up` builds it",
            pytrace=False,
        )
    return found


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory):
    """URL of the server, and the directory whose subdirectories are its buckets."""
    binary = find_versitygw()
    directory = tmp_path_factory.mktemp("buckets")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = (tmp_path_factory.mktemp("log") / "versitygw.log").open("wb")
    process = subprocess.Popen(
        [binary, "--port", f"127.0.0.1:{port}", "posix", str(directory)],
        env={"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY, "PATH": os.environ["PATH"]},
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_until_answering(url, process)
        yield url, directory
    finally:
        process.terminate()
        process.wait(10)
        log.close()


def _wait_until_answering(url: str, process: subprocess.Popen) -> None:
    for _ in range(100):
        assert process.poll() is None, "versitygw has ended"
        try:
            urllib.request.urlopen(url, timeout=2).close()
        except urllib.error.HTTPError as refusal:
            refusal.close()  # it refuses who has no signature, so it is there
            return
        except OSError:
            time.sleep(0.05)
    pytest.fail("versitygw does not answer")


@pytest.fixture(autouse=True)
def credentials(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)


@pytest.fixture
def bucket(s3_server, request):
    """A fresh bucket."""
    _, directory = s3_server
    name = f"bucket-{os.urandom(4).hex()}"
    (directory / name).mkdir()
    yield name
    shutil.rmtree(directory / name)
