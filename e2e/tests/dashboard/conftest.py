"""Dashboards of the cluster: one's own, and a team's as the chart installs it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import expect

from e2e.browser.visitor import Visitor
from e2e.dashboard import forward
from e2e.devcluster import Cluster
from e2e.experiments import STORE_SECRET, store
from e2e.install import ROOT, Image
from e2e.kubernetes import Kubernetes, eventually
from e2e.tests.conftest import make_namespace
from e2e.viewer import DashboardViewer

PREFIX = "/tuning/podtune"


@dataclass(frozen=True)
class Dashboard(DashboardViewer):
    """One that serves, with who looks at it."""

    program: subprocess.Popen[str] = field(kw_only=True)


@pytest.fixture
def dashboard(cluster: Cluster, namespace: Kubernetes) -> Iterator[Dashboard]:
    words = ["dashboard", "-n", namespace.namespace, "--port", "0"]
    command = [sys.executable, "-m", "podtune.cli.main", *words]
    with cluster.popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout is not None
        yield Dashboard(program.stdout.readline().strip(), program=program)
        program.kill()


@dataclass(frozen=True)
class Team:
    """A dashboard of two namespaces, and who looks at it."""

    ours: Kubernetes
    theirs: Kubernetes
    home: Kubernetes
    stranger: DashboardViewer

    @property
    def account(self) -> str:
        """The dashboard's own, as the API server names it."""
        return f"system:serviceaccount:{self.home.namespace}:podtune-dashboard"

    def log_in(self, namespace: Kubernetes, role: str) -> DashboardViewer:
        """Somebody with a role in one of the namespaces."""
        return self.stranger.log_in(make_token(namespace, role))


@pytest.fixture
def team(cluster: Cluster, namespace: Kubernetes) -> Iterator[Team]:
    """The whole chart, but for a second operator, in a namespace of its own under Pod Security "restricted"."""
    theirs, home = make_namespace(cluster, secret=False), make_namespace(cluster)
    with ExitStack() as stack:
        for other in (theirs, home):
            stack.callback(cluster.kubectl, "delete", "namespace", other.namespace, "--wait=false")
        install(home, namespace, theirs)
        stack.callback(cluster.run, ["helm", "uninstall", "podtune", "-n", home.namespace])
        port = stack.enter_context(forward(cluster, "podtune-dashboard", home.namespace))
        address = f"http://127.0.0.1:{port}{PREFIX}/"
        yield Team(namespace, theirs, home, DashboardViewer(address))


def make_token(namespace: Kubernetes, role: str) -> str:
    """The token of somebody new with a role in a namespace."""
    namespace.kubectl("create", "serviceaccount", role)
    account = f"{namespace.namespace}:{role}"
    namespace.kubectl("create", "rolebinding", role, f"--clusterrole={role}", f"--serviceaccount={account}")
    return namespace.kubectl("create", "token", role).strip()


def install(home: Kubernetes, ours: Kubernetes, theirs: Kubernetes) -> None:
    """The dashboard of two namespaces, which may read the store of the first."""
    image, store_of_ours = Image("dashboard"), store(home.cluster)
    values = {
        "replicas": "0",
        "watchNamespaces": f"{{{ours.namespace},{theirs.namespace}}}",
        "rbac.aggregateToDefaultRoles": "false",
        "dashboard.enabled": "true",
        "dashboard.image.repository": image.repository,
        "dashboard.image.tag": "dev",
        "dashboard.nodeSelector.podtune\\.dev/role": "system",
        "dashboard.pathPrefix": PREFIX,
        "dashboard.actions": "true",
        "dashboard.stores[0].namespace": ours.namespace,
        "dashboard.stores[0].secret": STORE_SECRET,
        **{f"dashboard.stores[0].store.{field}": store_of_ours[field] for field in ("bucket", "prefix", "endpoint")},
    }
    sets = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    options = ["-n", home.namespace, "--wait", "--timeout=300s"]
    said = home.cluster.run(["helm", "install", "podtune", ROOT / "charts" / "podtune", *options, *sets], timeout=330)
    assert "create token" in said.stdout


def await_text(viewer: DashboardViewer, path: str, text: str) -> None:
    """Reads a page that does not follow the cluster again and again until it has a text."""
    eventually(lambda: viewer.read(path), lambda page: text in page, what=f"{path} has {text!r}")


def log_in(visitor: Visitor, token: str, experiments: list[str]) -> None:
    """Logs in by the form, and sees some experiments."""
    page = visitor.open()
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("ul.experiments h2 a")).to_have_text(experiments)
