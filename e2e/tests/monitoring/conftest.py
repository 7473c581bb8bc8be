"""Where alerts are watched: fixtures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.chaos.processes.free_ports import free_port
from e2e.devcluster.building import tools
from e2e.tests.monitoring.prometheus_server import running_prometheus
from e2e.tests.monitoring.scene import NAMESPACE, Scene, make_token
from podtune.cli.client.api_client import HttpApi
from podtune.cli.client.kubeconfig import connect
from tests.component.own_api_server import create_definitions, running_api_server


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    binaries = tools.installed("cluster")
    if binaries is None:
        pytest.skip("an API server of one's own takes the programs of a cluster without Docker")
    ports, token = (free_port(), free_port()), tmp_path / "token"
    for folder in ("api", "prometheus"):
        (tmp_path / folder).mkdir()
    with running_api_server(binaries, tmp_path / "api") as kubeconfig:
        api = HttpApi(connect(kubeconfig))
        create_definitions(api)
        api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        token.write_text(make_token(api))
        targets = [f"127.0.0.1:{port}" for port in ports]
        # Where no Prometheus can be had, the test fails: it is there for nothing else.
        with running_prometheus(tmp_path / "prometheus", targets, token) as server:
            yield Scene(kubeconfig, api, server, ports)
