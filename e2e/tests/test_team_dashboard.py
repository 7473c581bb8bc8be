"""The dashboard as the chart installs it: everyone sees and does what their own token lets them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from e2e.dashboard import forward
from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment
from e2e.install import ROOT, Image
from e2e.kubernetes import Kubernetes
from e2e.tests.conftest import make_namespace
from e2e.trials import EXPERIMENTS
from e2e.viewer import DashboardViewer
from podtune.dashboard.access.session import LoginSession

PREFIX = "/tuning/podtune"
HELD = {"EPOCHS": "6", "HOLD_AT": "3"}
"""Waits at epoch 3 until it is let go on."""


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
        namespace.kubectl("create", "serviceaccount", role)
        account = f"{namespace.namespace}:{role}"
        namespace.kubectl("create", "rolebinding", role, f"--clusterrole={role}", f"--serviceaccount={account}")
        return self.stranger.log_in(namespace.kubectl("create", "token", role).strip())


@pytest.fixture
def team(cluster: Cluster, namespace: Kubernetes) -> Iterator[Team]:
    """The whole chart, but for a second operator, in a namespace of its own under Pod Security "restricted"."""
    theirs, home = make_namespace(cluster, secret=False), make_namespace(cluster, secret=False)
    with ExitStack() as stack:
        for other in (theirs, home):
            stack.callback(cluster.kubectl, "delete", "namespace", other.namespace, "--wait=false")
        install(home, [namespace.namespace, theirs.namespace])
        stack.callback(cluster.run, ["helm", "uninstall", "podtune", "-n", home.namespace])
        port = stack.enter_context(forward(cluster, "podtune-dashboard", home.namespace))
        address = f"http://127.0.0.1:{port}{PREFIX}/"
        yield Team(namespace, theirs, home, DashboardViewer(address))


def install(home: Kubernetes, namespaces: list[str]) -> None:
    image = Image("dashboard")
    values = {
        "replicas": "0",
        "watchNamespaces": f"{{{','.join(namespaces)}}}",
        "rbac.aggregateToDefaultRoles": "false",
        "dashboard.enabled": "true",
        "dashboard.image.repository": image.repository,
        "dashboard.image.tag": "dev",
        "dashboard.nodeSelector.podtune\\.dev/role": "system",
        "dashboard.pathPrefix": PREFIX,
        "dashboard.actions": "true",
    }
    sets = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    options = ["-n", home.namespace, "--wait", "--timeout=300s"]
    said = home.cluster.run(["helm", "install", "podtune", ROOT / "charts" / "podtune", *options, *sets], timeout=330)
    assert "create token" in said.stdout


def test_everyone_sees_and_does_what_their_own_token_lets_them(team: Team) -> None:
    team.theirs.apply(experiment("foreign", counter(), suspend=True))
    theirs = team.log_in(team.theirs, "view")
    ours = team.log_in(team.ours, "view")

    # Nothing without a token, not even a name.
    base = f"experiments/{team.ours.namespace}/native/"
    for path in ("", base, f"experiments/{team.theirs.namespace}/foreign/", f"{base}trials.csv", "events"):
        answer = team.stranger.send(path)
        assert answer.status == 401, (path, answer)
        assert "foreign" not in answer.text.replace(path, "")

    # An open list hears of a new experiment, and its page of a trial that runs.
    team.ours.apply(experiment("native", counter(HELD), search={"algorithm": "random", "maxTrials": 1}))
    listed = ours.follow("", lambda page: f"{base}" in page)
    assert "/foreign/" not in listed
    ours.follow(
        f"{base}trials/native-0", lambda page: bool(re.search('<h1>native-0 <span class="state running">', page))
    )

    # Each their own.
    assert "/foreign/" in theirs.follow("", lambda page: "/foreign/" in page)
    assert "/native/" not in theirs.read("")
    assert theirs.send(base).status == 403
    assert ours.send(f"experiments/{team.theirs.namespace}/foreign/").status == 403

    # The role view shows no buttons, and a form that somebody makes up goes no further than the API server.
    pause = f"{base}actions/pause"
    assert "actions/pause" not in ours.read(base)
    assert ours.send(pause).status == 403
    forged = ours.send(pause, {"form": make_form(ours, f"pause {team.ours.namespace}/native"), "attempt": "0"})
    assert forged.status == 403
    assert "cannot patch resource" in forged.text
    assert theirs.send(pause).status == 403
    assert not is_suspended(team)

    # Who may edit says yes to what will happen.
    editor = team.log_in(team.ours, "edit")
    assert "actions/pause" in editor.read(base)
    form = dict(re.findall('<input type="hidden" name="([a-z]+)" value="([^"]*)">', editor.read(pause)))
    assert editor.send(pause, {**form, "form": "0"}).status == 403
    assert not is_suspended(team)
    assert editor.send(pause, form).status == 303
    assert is_suspended(team)
    ours.follow(base, lambda page: 'class="badge suspended"' in page)


def make_form(viewer: DashboardViewer, purpose: str) -> str:
    """A form's token, which a viewer can make for their own session: it keeps other sites out, not them."""
    began, _, token = viewer.cookie.partition("=")[2].partition(".")
    return LoginSession(token, int(began)).make_form_token(purpose)


def is_suspended(team: Team) -> bool:
    return bool(team.ours.get(EXPERIMENTS, "native")["spec"].get("suspend"))


def test_the_dashboard_itself_may_read_no_secret_and_write_nothing(team: Team) -> None:
    def may(namespace: Kubernetes, *question: str) -> bool:
        words = ["kubectl", "auth", "can-i", *question, "-n", namespace.namespace, f"--as={team.account}"]
        return team.home.cluster.run(words, check=False).stdout.strip() == "yes"

    for namespace in (team.ours, team.theirs, team.home):
        assert not any(may(namespace, verb, "secrets") for verb in ("get", "list", "watch"))
        assert not any(may(namespace, verb, EXPERIMENTS) for verb in ("create", "patch", "update", "delete"))
        assert not may(namespace, "get", "pods", "--subresource=log")
        assert not may(namespace, "create", "pods", "--subresource=exec")
    assert may(team.ours, "watch", EXPERIMENTS)
    assert not may(team.home, "list", EXPERIMENTS)
    assert may(team.home, "create", "tokenreviews.authentication.k8s.io")
    assert not may(team.home, "get", "nodes")
