"""The operator's flows on a real API server: which of its requests it takes for which."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

pytestmark = [pytest.mark.cluster]

CHART = Path(__file__).parents[3] / "charts" / "podtune"
NAMESPACE = "tuning"
FLOW = re.compile(r"X-Kubernetes-Pf-Flowschema-Uid: (?P<uid>\S+)", re.IGNORECASE)
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


def _run(*command: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=False)


def _kubectl(*arguments: str, given: str = "") -> str:
    done = _run("kubectl", *arguments, given=given)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def release() -> Iterator[str]:
    """A release of which only the flows are there."""
    name = f"podtune-{uuid4().hex[:8]}"
    rendered = _run(
        *("helm", "template", name, str(CHART), "-n", NAMESPACE, "--set", "apiPriority.enabled=true"),
        *("-s", "templates/api-priority.yaml", "--kube-version=1.34.0"),
    )
    assert rendered.returncode == 0, rendered.stderr
    _kubectl("create", "-f", "-", given=rendered.stdout)
    yield name
    _kubectl("delete", "-f", "-", given=rendered.stdout)


def _flow_of(path: str, account: str) -> str:
    """UID of the FlowSchema that the API server takes a service account's request for."""
    # Whether it is allowed is asked afterwards.
    asked = _run("kubectl", "get", "--raw", path, "--as", f"system:serviceaccount:{NAMESPACE}:{account}", "-v=8")
    found = FLOW.search(asked.stderr)
    assert found is not None, asked.stderr
    return found["uid"]


def _schema(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(_kubectl("get", "flowschema", name, "-o", "json"))
    return schema


def _until_it_is(flow: str, path: str, account: str) -> None:
    """Waits until the API server, which takes a moment to learn of flows, knows this one."""
    deadline = time.monotonic() + 90
    while _flow_of(path, account) != flow:
        assert time.monotonic() < deadline, f"{path} is not of the flow"
        time.sleep(0.2)


def test_the_operators_requests_have_a_flow_and_its_lease_one_above(release: str) -> None:
    lease = _schema(f"{NAMESPACE}-{release}-leadership")
    others = _schema(f"{NAMESPACE}-{release}")
    _until_it_is(lease["metadata"]["uid"], LEASES + f"/{release}-operator", release)
    _until_it_is(others["metadata"]["uid"], f"/api/v1/namespaces/{NAMESPACE}/pods", release)
    _until_it_is(others["metadata"]["uid"], "/version", release)
    assert _flow_of(LEASES, "somebody-else") not in (lease["metadata"]["uid"], others["metadata"]["uid"])
    for name in (f"{NAMESPACE}-{release}-leadership", f"{NAMESPACE}-{release}"):
        _kubectl("wait", "--for=condition=Dangling=false", f"flowschema/{name}", "--timeout=50s")
