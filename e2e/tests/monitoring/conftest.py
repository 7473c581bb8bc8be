"""Where alerts are watched: fixtures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.chaos.processes.free_ports import free_port
from e2e.tests.monitoring.prometheus_server import running_prometheus
from e2e.tests.monitoring.scene import NAMESPACE, Scene, make_token
from podtune.cli.client.api_client import HttpApi
from podtune.cli.client.kubeconfig import connect
from tests.component.own_api_server import running_served_namespace


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    ports, token = (free_port(), free_port()), tmp_path / "token"
    for folder in ("api", "prometheus"):
        (tmp_path / folder).mkdir()
    with running_served_namespace(tmp_path / "api", NAMESPACE) as kubeconfig:
        api = HttpApi(connect(kubeconfig))
        token.write_text(make_token(api))
        targets = [f"127.0.0.1:{port}" for port in ports]
        # Where no Prometheus can be had, the test fails: it is there for nothing else.
        with running_prometheus(tmp_path / "prometheus", targets, token) as server:
            yield Scene(kubeconfig, api, server, ports)
