"""An S3 server for tests and benchmarks: versitygw on the loopback interface, on a directory."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.devcluster.processes import wait_until

BUCKET = "bench"
ACCESS_KEY = "bench"
SECRET_KEY = "bench-secret"
_REGION = "us-east-1"


@dataclass(frozen=True)
class Server:
    """A server that runs.

    Attributes:
        url: Where it answers.
        process: Its /proc folder.
    """

    url: str
    process: Path


@contextmanager
def running_server(directory: Path, *options: str) -> Iterator[Server]:
    """Runs a server with one bucket below a directory; `options` are further ones of its command line."""
    (directory / "buckets" / BUCKET).mkdir(parents=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [
            find_versitygw(),
            "--port",
            f"127.0.0.1:{port}",
            "--region",
            _REGION,
            *options,
            "posix",
            str(directory / "buckets"),
        ],
        env={"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY, "PATH": os.environ["PATH"]},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: _answers(url), f"the S3 server does not answer at {url}", 30)
        yield Server(url, Path("/proc") / str(process.pid))
    finally:
        process.terminate()
        process.wait(10)


def environment(endpoint: str) -> dict[str, str]:
    """The environment in which all tools find the server's credentials, and nothing of the machine's own."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": os.devnull,
        "PYTHONPATH": "operator:.",
        "AWS_ENDPOINT_URL_S3": endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_DEFAULT_REGION": _REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


def find_versitygw() -> str:
    """The path of the server's program."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    built = sorted(cache.glob("podtune/tools/*/bin/versitygw"), key=lambda path: path.stat().st_mtime)
    found = shutil.which("versitygw") or (str(built[-1]) if built else None)
    if found is None:
        raise SystemExit(f"versitygw is neither on PATH nor below {cache}/podtune/tools; `make cluster` builds it")
    return found


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=2).close()
    except urllib.error.HTTPError as refusal:
        refusal.close()  # it refuses who has no signature, so it is there
    except OSError:
        return False
    return True
