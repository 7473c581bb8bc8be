"""An API server with nothing in it, for tests of clusters that lack what the local one has: no kubelet, no controllers.

Needs the programs of a local cluster without Docker.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.chaos.processes.free_ports import free_port
from e2e.devcluster.building import tools
from e2e.devcluster.building.packages import program
from e2e.devcluster.processes import run, wait_until
from podtune.api.crd.generate import RESOURCES, build_definition
from podtune.cli.client.api_client import HttpApi
from podtune.cli.client.kubeconfig import connect
from podtune.kube.errors import ApiRefusal, Unanswered
from podtune.kube.manifests import Manifest

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SECONDS = 120.0
_TOKEN = "administrator"


def find_programs() -> Path:
    """The folder of a local cluster's programs; skips the test where there are none, as Docker has brought it up."""
    programs = tools.installed("cluster")
    if programs is None:
        pytest.skip("an API server of one's own takes the programs of a cluster without Docker")
    return programs


@contextmanager
def running_served_namespace(directory: Path, namespace: str) -> Iterator[Path]:
    """Runs one that has our definitions and a namespace."""
    with running_api_server(find_programs(), directory) as kubeconfig:
        api = HttpApi(connect(kubeconfig))
        create_definitions(api)
        api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        yield kubeconfig


@contextmanager
def running_api_server(binaries: Path, directory: Path) -> Iterator[Path]:
    """Runs it with an etcd; gives a kubeconfig of its administrator."""
    store, peers, port = (free_port() for _ in range(3))
    etcd = [
        *(str(binaries / "etcd"), "--unsafe-no-fsync", f"--data-dir={directory}/etcd"),
        *(f"--listen-client-urls=http://127.0.0.1:{store}", f"--advertise-client-urls=http://127.0.0.1:{store}"),
        *(f"--listen-peer-urls=http://127.0.0.1:{peers}", f"--initial-advertise-peer-urls=http://127.0.0.1:{peers}"),
        f"--initial-cluster=default=http://127.0.0.1:{peers}",
    ]
    key, tokens = directory / "service-account.key", directory / "tokens.csv"
    run([program("openssl"), "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key])
    tokens.write_text(f'{_TOKEN},administrator,1,"system:masters"\n')
    server = [
        *(str(binaries / "kube-apiserver"), f"--etcd-servers=http://127.0.0.1:{store}", f"--secure-port={port}"),
        *("--bind-address=127.0.0.1", "--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none"),
        *(f"--cert-dir={directory}/certificates", f"--token-auth-file={tokens}", "--authorization-mode=RBAC"),
        *(f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"),
        *("--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.97.0.0/24"),
        "--disable-admission-plugins=ServiceAccount",  # no controller makes the accounts that it asks for
    ]
    kubeconfig = _write_kubeconfig(directory / "kubeconfig", f"https://127.0.0.1:{port}")
    with _running(etcd, directory), _running(server, directory) as check_alive:
        api = HttpApi(connect(kubeconfig))
        wait_until(lambda: _is_ready(api), "the API server is not ready", _SECONDS, check_alive)
        yield kubeconfig


def create_definitions(api: HttpApi, definitions: Sequence[Manifest] | None = None) -> None:
    """Creates some, or our own, and waits until their objects are served."""
    given = [build_definition(resource) for resource in RESOURCES] if definitions is None else definitions
    for definition in given:
        api.create(_DEFINITIONS, definition)
    found = [f"{_DEFINITIONS}/{definition['metadata']['name']}" for definition in given]
    wait_until(
        lambda: all(_is_established(api.get(path)) for path in found), "the definitions are not established", _SECONDS
    )


def _is_established(definition: Manifest) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return ("Established", "True") in {(condition["type"], condition["status"]) for condition in conditions}


@contextmanager
def _running(command: Sequence[str], directory: Path) -> Iterator[Callable[[], None]]:
    """Runs a program until the context ends; gives what raises if it has ended before."""
    log = directory / f"{Path(command[0]).name}.log"
    with log.open("wb") as written:
        process = subprocess.Popen(command, stdout=written, stderr=written, cwd=directory)

    def check_alive() -> None:
        assert process.poll() is None, log.read_text(errors="replace")[-4000:]

    try:
        yield check_alive
    finally:
        process.kill()
        process.wait()


def _is_ready(api: HttpApi) -> bool:
    try:
        return list(api.read_lines("/readyz", timeout=5)) == ["ok"]
    except (ApiRefusal, Unanswered):
        return False


def _write_kubeconfig(path: Path, url: str) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "own",
        "contexts": [{"name": "own", "context": {"cluster": "own", "user": "administrator"}}],
        "clusters": [{"name": "own", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "administrator", "user": {"token": _TOKEN}}],
    }
    path.write_text(json.dumps(config))
    return path
