"""Namespaces that opt in, with the chart's own RBAC enforced by a real API server, and the operator's own process.

The local cluster's operator serves all namespaces. Here is no kubelet, so pods stay as the operator makes them, and no
controller, so nobody puts the chart's role into Kubernetes' own `admin`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from podtune.cli import main as cli
from podtune.cli.client.api_client import HttpApi
from podtune.cli.client.kubeconfig import connect
from podtune.cli.errors import ExitStatus
from podtune.kube import paths
from podtune.kube.manifests import Manifest
from tests.component.charts.rendered import NAME, NAMESPACE, find_one, render
from tests.component.operator_process import operator, until
from tests.component.own_api_server import create_definitions, find_programs, running_api_server

pytestmark = pytest.mark.cluster

RBAC = "/apis/rbac.authorization.k8s.io/v1"
NAMESPACES = "/api/v1/namespaces"
SEEN = 45.0
"""Seconds in which an opt-out is noticed, on a busy machine."""
MAY_BIND = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"], "verbs": ["create", "list"]}


@dataclass(frozen=True, slots=True)
class Installation:
    """An API server with the operator's rights in the mode in which namespaces opt in."""

    kubeconfig: Path
    directory: Path
    api: HttpApi

    def log_in(self, namespace: str, account: str) -> Path:
        """A kubeconfig of a service account."""
        path = f"{NAMESPACES}/{namespace}/serviceaccounts/{account}/token"
        token = self.api.create(path, {"metadata": {}, "spec": {"expirationSeconds": 3600}})["status"]["token"]
        config = yaml.safe_load(self.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        written = self.directory / f"{namespace}-{account}.yaml"
        written.write_text(yaml.safe_dump(config))
        return written

    def run(self, *words: str, as_: Path | None = None) -> int:
        return cli.main([*words, "--operator-namespace", NAMESPACE, "--kubeconfig", str(as_ or self.kubeconfig)])

    def may(self, namespace: str, verb: str, resource: str, group: str = "") -> bool:
        """Whether the operator has a right."""
        asked = {"namespace": namespace, "group": group, "resource": resource, "verb": verb}
        spec = {"user": f"system:serviceaccount:{NAMESPACE}:podtune", "resourceAttributes": asked}
        review = {"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}, "spec": spec}
        return bool(self.api.create(paths.ACCESS_REVIEWS, review)["status"]["allowed"])

    def read_condition(self, namespace: str) -> tuple[str, str]:
        """Reason and message of the Experiment's condition Stalled."""
        status = self.api.get(paths.experiment(namespace, "digits")).get("status") or {}
        found = [c for c in status.get("conditions", ()) if c["type"] == "Stalled"]
        return (found[0]["reason"], found[0]["message"]) if found else ("", "")

    def list_uids(self, namespace: str) -> list[str]:
        """UIDs of trials and pods."""
        return sorted(
            item["metadata"]["uid"]
            for path in (paths.trials, paths.pods)
            for item in self.api.list_all(path(namespace))
        )


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    binaries = find_programs()
    directory = tmp_path_factory.mktemp("api-server")
    with running_api_server(binaries, directory) as kubeconfig:
        api = HttpApi(connect(kubeconfig))
        for name in (NAMESPACE, "team-a", "team-b", "team-c", "team-d"):
            api.create(NAMESPACES, {"metadata": {"name": name}})
        create_definitions(api)
        install_rights(api)
        yield Installation(kubeconfig, directory, api)


def install_rights(api: HttpApi) -> None:
    documents = render(namespaceOptIn=True)
    api.create(f"{NAMESPACES}/{NAMESPACE}/serviceaccounts", find_one(documents, "ServiceAccount", "podtune"))
    for name in (NAME, f"{NAME}-namespace", f"{NAME}-enable"):
        api.create(paths.cluster_roles(), find_one(documents, "ClusterRole", name))
    api.create(f"{RBAC}/clusterrolebindings", find_one(documents, "ClusterRoleBinding", NAME))
    leadership = "podtune-leadership"
    api.create(f"{RBAC}/namespaces/{NAMESPACE}/roles", find_one(documents, "Role", leadership))
    api.create(paths.role_bindings(NAMESPACE), find_one(documents, "RoleBinding", leadership))


def make_experiment() -> Manifest:
    return {
        "apiVersion": "podtune.dev/v1alpha1",
        "kind": "Experiment",
        "metadata": {"name": "digits"},
        "spec": {
            "objective": {"metric": "accuracy", "mode": "max"},
            "parameters": [{"name": "lr", "float": {"min": 0.1, "max": 0.9}}],
            "search": {"algorithm": "random", "maxTrials": 2, "seed": 7},
            "maxConcurrentTrials": 2,
            "trialTemplate": {
                "spec": {"serviceAccountName": "default", "containers": [{"name": "trial", "image": "i"}]}
            },
        },
    }


@pytest.fixture
async def running(installation: Installation) -> AsyncIterator[None]:
    """The operator, as its service account, from before anybody has opted in."""
    environment = {
        "KUBECONFIG": str(installation.log_in(NAMESPACE, "podtune")),
        "PODTUNE_NAMESPACES": "",
        "PODTUNE_NAMESPACE_OPT_IN": "true",
        "PODTUNE_LEASE_NAME": "podtune-operator",
        "PODTUNE_ALLOWED_SERVICE_ACCOUNTS": "default",  # here nobody fills it in
    }
    async with operator(NAMESPACE, **environment) as process:
        await until(process, "leading")
        assert process.stderr is not None
        draining = asyncio.create_task(process.stderr.read())
        yield
        was_running = process.returncode is None
        if was_running:
            process.terminate()
        await asyncio.wait_for(process.wait(), 60)
        said = (await draining).decode()
        print(said)  # pytest shows it where the test has failed
        assert was_running
        assert process.returncode == 0


async def eventually(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while not await asyncio.to_thread(holds):  # noqa: ASYNC110 - an API server is asked, which sets no event
            await asyncio.sleep(0.2)


async def test_namespaces_are_served_once_they_have_opted_in(
    installation: Installation, running: None, capsys: pytest.CaptureFixture[str]
) -> None:
    api = installation.api
    assert installation.run("enable", "team-a") == 0
    for namespace in ("team-a", "team-b"):
        api.create(paths.experiments(namespace), make_experiment())

    await eventually(lambda: len(installation.list_uids("team-a")) == 4)
    await eventually(lambda: installation.read_condition("team-b")[0] == "NamespaceNotEnabled")
    message = installation.read_condition("team-b")[1]
    assert f"kubectl podtune enable --operator-namespace {NAMESPACE} team-b" in message
    assert installation.list_uids("team-b") == []
    for verb, resource in (("create", "pods"), ("list", "pods"), ("create", "configmaps"), ("get", "pods/log")):
        assert not installation.may("team-b", verb, resource), (verb, resource)
    for namespace in ("team-a", "team-b"):
        assert not installation.may(namespace, "get", "secrets")

    # Its administrator opts in, who may neither list ClusterRoles nor do all that the operator may.
    api.create(f"{NAMESPACES}/team-b/serviceaccounts", {"metadata": {"name": "owner"}})
    owner = installation.log_in("team-b", "owner")
    assert installation.run("enable", "team-b", as_=owner) == ExitStatus.FORBIDDEN
    make_owner(api, "team-b", may_bind=False)
    assert installation.run("enable", "team-b", as_=owner) == ExitStatus.FORBIDDEN
    assert f"bind ClusterRole {NAME}-namespace" in capsys.readouterr().err
    make_owner(api, "team-b", may_bind=True)
    assert installation.run("enable", "team-b", as_=owner) == 0
    await eventually(lambda: len(installation.list_uids("team-b")) == 4)
    await eventually(lambda: installation.read_condition("team-b") == ("Accepted", ""))


@pytest.mark.long
async def test_a_namespace_that_opts_out_is_left_alone_and_goes_on_where_it_was(
    installation: Installation, running: None, capsys: pytest.CaptureFixture[str]
) -> None:
    api = installation.api
    installation.run("enable", "team-c")
    api.create(paths.experiments("team-c"), make_experiment())
    await eventually(lambda: len(installation.list_uids("team-c")) == 4)
    before = installation.list_uids("team-c")
    capsys.readouterr()
    assert installation.run("disable", "team-c") == 0
    assert "running until their programs end: digits-0-1, digits-1-1" in capsys.readouterr().out
    await eventually(lambda: installation.read_condition("team-c")[0] == "NamespaceNotEnabled", SEEN)
    assert installation.list_uids("team-c") == before
    assert installation.run("enable", "team-c") == 0
    await eventually(lambda: installation.read_condition("team-c") == ("Accepted", ""))
    assert installation.list_uids("team-c") == before


async def test_a_deletion_does_not_wait_where_nobody_may_delete_the_checkpoints(
    installation: Installation, running: None
) -> None:
    api, path = installation.api, paths.experiment("team-d", "digits")
    api.create(paths.experiments("team-d"), make_experiment())
    await eventually(lambda: installation.read_condition("team-d")[0] == "NamespaceNotEnabled")
    api.patch(path, {"metadata": {"finalizers": ["podtune.dev/checkpoints"]}})
    api.delete(path, api.get(path)["metadata"]["uid"])
    await eventually(lambda: api.list_all(paths.experiments("team-d")) == [])
    told = [event["reason"] for event in api.list_all(paths.core_events(NAMESPACE)) if "related" in event]
    assert told == ["CheckpointsLeft"]


def make_owner(api: HttpApi, namespace: str, *, may_bind: bool) -> None:
    """Gives `owner` the rights on RoleBindings that the role admin has, or what the chart adds to it."""
    if may_bind:
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"{NAME}-enable"}
    else:
        api.create(f"{RBAC}/namespaces/{namespace}/roles", {"metadata": {"name": "owner"}, "rules": [MAY_BIND]})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "owner"}
    binding = {
        "metadata": {"name": f"owner-{may_bind}".lower()},
        "roleRef": role,
        "subjects": [{"kind": "ServiceAccount", "name": "owner", "namespace": namespace}],
    }
    api.create(paths.role_bindings(namespace), binding)
