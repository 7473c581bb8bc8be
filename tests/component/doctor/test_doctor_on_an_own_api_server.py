"""`kubectl podtune doctor` on a real API server, with an installation that is broken as the local cluster must not be.

There is no kubelet: pods are as healthy as their written status. What runs here is the API server, with the chart's own
objects and RBAC.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.kubernetes import eventually
from podtune import __version__
from podtune.api.crd.generate import RESOURCES, build_definition
from podtune.cli import main as cli
from podtune.cli.client.api_client import HttpApi
from podtune.cli.client.kubeconfig import connect
from podtune.cli.commands.doctor import command
from podtune.cli.errors import ExitStatus
from podtune.kube import paths
from podtune.kube.errors import ResourceNotFound
from podtune.kube.manifests import Manifest
from tests.component.charts.rendered import NAME, NAMESPACE, find_one, render
from tests.component.own_api_server import create_definitions, find_programs, running_api_server

pytestmark = [pytest.mark.cluster]

USERS = "vision"
RELEASE = "podtune"
NAMESPACES = "/api/v1/namespaces"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNTS = f"{NAMESPACES}/{NAMESPACE}/serviceaccounts"
OPERATOR = paths.pod(NAMESPACE, "podtune-a")
LEASE = paths.lease(NAMESPACE, f"{RELEASE}-operator")
DNS_SERVER = paths.pod("kube-system", "coredns-a")
EARLIER = Path(__file__).parents[2] / "golden" / "releases" / "0.2.0" / "crds"
FOR_EVER = 10 * 365 * 86_400
Undo = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Installation:
    """Podtune on an API server of its own."""

    kubeconfig: Path
    api: HttpApi

    def doctor(self, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[tuple[str, str, str]]]:
        """What the command answers: its exit code, and subject, state and message of each check."""
        options = ["--kubeconfig", str(self.kubeconfig), "-n", USERS, "--operator-namespace", NAMESPACE, "-o", "json"]
        code = cli.main(["doctor", *options])
        items = json.loads(capsys.readouterr().out)["items"]
        return code, [(item["subject"], item["state"], item["message"]) for item in items]


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    binaries = find_programs()
    with running_api_server(binaries, tmp_path_factory.mktemp("api-server")) as kubeconfig:
        api = HttpApi(connect(kubeconfig))
        for name in (NAMESPACE, USERS):
            api.create(NAMESPACES, {"metadata": {"name": name}})
        create_definitions(api)
        install_chart(api)
        eventually(lambda: not is_gone(api, f"{NAMESPACES}/kube-system"), what="the API server has made kube-system")
        api.create(paths.pods("kube-system"), make_pod("coredns-a", {"k8s-app": "kube-dns"}))
        set_ready(api, DNS_SERVER, is_ready=True)
        yield Installation(kubeconfig, api)


def install_chart(api: HttpApi) -> None:
    """The chart's account, rights and Service, a pod of its Deployment that is ready, and the Lease that it holds."""
    documents = render()
    api.create(ACCOUNTS, find_one(documents, "ServiceAccount", RELEASE))
    api.create(paths.services(NAMESPACE), find_one(documents, "Service", f"{RELEASE}-results"))
    for kind, collection in (("ClusterRole", "clusterroles"), ("ClusterRoleBinding", "clusterrolebindings")):
        api.create(f"{RBAC}/{collection}", find_one(documents, kind, NAME))
    template = find_one(documents, "Deployment", RELEASE)["spec"]["template"]
    labels = template["metadata"]["labels"] | {"podtune.dev/leader": "true"}
    api.create(paths.pods(NAMESPACE), {"metadata": {"name": "podtune-a", "labels": labels}, "spec": template["spec"]})
    set_ready(api, OPERATOR, is_ready=True)
    create_lease(api)


def create_lease(api: HttpApi) -> None:
    api.create(paths.leases(NAMESPACE), {"metadata": {"name": f"{RELEASE}-operator"}, "spec": make_lease()})


def make_lease(renewed: timedelta = timedelta()) -> Manifest:
    """One that nobody has to renew, unless it was renewed another time ago."""
    written = (datetime.now(UTC) + renewed).isoformat(timespec="microseconds").replace("+00:00", "Z")
    lasts = 15 if renewed else FOR_EVER
    return {"holderIdentity": "podtune-a", "renewTime": written, "leaseDurationSeconds": lasts}


def make_pod(name: str, labels: dict[str, str]) -> Manifest:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "main", "image": "i"}]}}


def set_ready(api: HttpApi, pod: str, *, is_ready: bool) -> None:
    """As a kubelet tells that it is, or that its containers are not."""
    condition = {"type": "Ready", "status": str(is_ready)}
    api.patch(paths.status_of(pod), {"status": {"phase": "Running", "conditions": [condition]}})


def remove_definitions(api: HttpApi) -> Undo:
    found = [paths.definition(resource.name) for resource in RESOURCES]
    for path in found:
        api.delete(path, api.get(path)["metadata"]["uid"])
    eventually(lambda: all(is_gone(api, path) for path in found), what="the definitions are gone")
    return lambda: create_definitions(api)


def is_gone(api: HttpApi, path: str) -> bool:
    try:
        api.get(path)
    except ResourceNotFound:
        return True
    return False


def install_earlier_definitions(api: HttpApi) -> Undo:
    for resource in RESOURCES:
        earlier = yaml.safe_load((EARLIER / f"{resource.name}.yaml").read_text(encoding="utf-8"))
        api.patch(paths.definition(resource.name), {"spec": {"versions": earlier["spec"]["versions"]}})

    def undo() -> None:
        for resource in RESOURCES:
            present = build_definition(resource)["spec"]["versions"]
            api.patch(paths.definition(resource.name), {"spec": {"versions": present}})

    return undo


def label_as_earlier(api: HttpApi) -> Undo:
    version = "app.kubernetes.io/version"
    api.patch(OPERATOR, {"metadata": {"labels": {version: "0.1.0"}}})
    return lambda: api.patch(OPERATOR, {"metadata": {"labels": {version: __version__}}})


def take_a_right(api: HttpApi) -> Undo:
    role = f"{RBAC}/clusterroles/{NAME}"
    rules = api.get(role)["rules"]
    api.patch(role, {"rules": [rule for rule in rules if "pods/log" not in rule["resources"]]})
    return lambda: api.patch(role, {"rules": rules})


def remove_lease(api: HttpApi) -> Undo:
    api.delete(LEASE, api.get(LEASE)["metadata"]["uid"])
    return lambda: create_lease(api)


def let_lease_expire(api: HttpApi) -> Undo:
    api.patch(LEASE, {"spec": make_lease(-timedelta(hours=1))})
    return lambda: api.patch(LEASE, {"spec": make_lease()})


def renew_lease_by_a_clock_that_is_ahead(api: HttpApi) -> Undo:
    api.patch(LEASE, {"spec": make_lease(timedelta(minutes=5))})
    return lambda: api.patch(LEASE, {"spec": make_lease()})


def stop_dns_server(api: HttpApi) -> Undo:
    set_ready(api, DNS_SERVER, is_ready=False)
    return lambda: set_ready(api, DNS_SERVER, is_ready=True)


def test_the_installation_is_well_as_far_as_can_be_seen(
    installation: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = installation.doctor(capsys)
    assert code == ExitStatus.DONE, said
    assert {subject for subject, state, _ in said if state == "ok"} >= {
        *("clocks", "definitions", "operator", "leader", "results service", "DNS", "operator's rights", "your rights"),
    }, said


@pytest.mark.parametrize(
    ("damage", "subject", "words"),
    [
        (remove_definitions, "definitions", "experiments.podtune.dev is missing: this cluster does not know"),
        (install_earlier_definitions, "definitions", "experiments.podtune.dev is older than this program"),
        (label_as_earlier, "operator", f"podtune-a has version 0.1.0, this program {__version__}; upgrade the older"),
        (take_a_right, "operator's rights", f":{RELEASE} may not get pods/log in namespace {USERS}; upgrade"),
        (remove_lease, "leader", f"no Lease {RELEASE}-operator in namespace {NAMESPACE}: no operator has ever led"),
        (let_lease_expire, "leader", "nothing is decided; look at the operator's log: kubectl logs"),
        (renew_lease_by_a_clock_that_is_ahead, "clocks", "s ahead of the API server's; set up NTP there"),
        (stop_dns_server, "DNS", "so agents find neither operator nor bucket; look at the pods of kube-system"),
    ],
)
def test_what_is_broken_is_named_with_its_remedy(
    installation: Installation,
    damage: Callable[[HttpApi], Undo],
    subject: str,
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    undo = damage(installation.api)
    try:
        code, said = eventually(
            lambda: installation.doctor(capsys),
            lambda answer: any(about == subject and words in text for about, _, text in answer[1]),
            what=f"doctor says {words}",
        )
    finally:
        undo()
    assert code == ExitStatus.FAILED
    assert {about for about, state, _ in said if state == "problem"} == {subject}, said


@pytest.mark.parametrize(("shift", "words"), [(timedelta(minutes=5), "ahead of"), (-timedelta(minutes=5), "behind")])
def test_a_wrong_clock_of_this_machine_is_seen_by_the_api_servers_date(
    installation: Installation,
    shift: timedelta,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Shifted(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.now(tz) + shift

    monkeypatch.setattr(command, "datetime", Shifted)
    code, said = installation.doctor(capsys)
    assert code == ExitStatus.FAILED
    (problem,) = [text for about, state, text in said if (about, state) == ("clocks", "problem")]
    assert f"s {words} the API server: logins and buckets refuse it; set up NTP" in problem
