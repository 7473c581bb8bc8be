"""With the chart's admission policies, people are told at `kubectl apply` what their experiments may not do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from e2e.devcluster import Cluster
from e2e.experiments import EXAMPLES_IMAGE, counter, experiment
from e2e.install import OPERATOR_NAMESPACE, OPERATOR_PODS, RELEASE, ROOT
from e2e.kubernetes import Kubernetes, Object, eventually

FOREIGN = "podtune-s3"
"""A Secret of the namespace that only some may read."""
ACCOUNT = "trainer"
OF_HOST: Object = {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}
RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class User:
    """Somebody who is no administrator, with the rights of a role in one namespace."""

    kubernetes: Kubernetes
    name: str

    def apply(self, *objects: Object) -> str:
        """What `kubectl apply` says; a refusal, too."""
        listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        words = ["kubectl", "-n", self.kubernetes.namespace, "apply", f"--as={self.name}", "-f", "-"]
        done = self.kubernetes.cluster.run(words, stdin=listed, check=False)
        return done.stdout + done.stderr


def let_in(namespace: Kubernetes, name: str, role: Object) -> User:
    subject = {"kind": "User", "name": name, "apiGroup": RBAC}
    binding: Object = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, **role},
        "subjects": [subject],
    }
    namespace.apply(binding)
    return User(namespace, name)


@pytest.fixture
def policies(cluster: Cluster, operator: Kubernetes, namespace: Kubernetes) -> Iterator[None]:
    """The cluster's release with both policies; afterwards it is as it was."""
    settings = (
        *("admissionPolicy.templates=true", "admissionPolicy.userRights=true"),
        *(f"allowedImages[0]={EXAMPLES_IMAGE}", f"allowedServiceAccounts[0]={ACCOUNT}"),
    )
    options = ["-n", OPERATOR_NAMESPACE, "--wait", "--timeout=200s"]
    sets = [f"--set={setting}" for setting in settings]
    chart = str(ROOT / "charts" / "podtune")
    refused = make_attempt("probe", **OF_HOST)
    cluster.run(["helm", "upgrade", RELEASE, chart, "--reuse-values", *options, *sets], timeout=230)
    try:
        eventually(lambda: "denied request" in try_out(namespace, refused), what="the policies are in force")
        await_leader(operator)
        yield
    finally:
        cluster.run(["helm", "rollback", RELEASE, *options], timeout=230)
        eventually(lambda: "denied request" not in try_out(namespace, refused), what="the policies are gone")
        await_leader(operator)


def try_out(namespace: Kubernetes, tried: Object) -> str:
    words = ["kubectl", "-n", namespace.namespace, "create", "--dry-run=server", "-f", "-"]
    done = namespace.cluster.run(words, stdin=json.dumps(tried), check=False)
    return done.stdout + done.stderr


def await_leader(operator: Kubernetes) -> None:
    eventually(
        lambda: operator.list("pods", OPERATOR_PODS),
        lambda pods: len(pods) == 1 and pods[0]["metadata"]["labels"].get("podtune.dev/leader") == "true",
        what="one operator leads",
    )


def make_attempt(name: str, container: Object | None = None, **pod: Object | str) -> Object:
    template = {"spec": {"containers": [counter() | (container or {})]} | pod}
    return experiment(name, counter(), trialTemplate=template)


@pytest.mark.alone
@pytest.mark.long
@pytest.mark.usefixtures("policies")
def test_people_are_told_at_once_what_their_experiments_may_not_do(namespace: Kubernetes) -> None:
    rules = [{"apiGroups": ["podtune.dev"], "resources": ["experiments"], "verbs": ["get", "create", "patch"]}]
    namespace.apply({"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": "tuner"}, "rules": rules})
    tuner = let_in(namespace, "anna", {"kind": "Role", "name": "tuner"})
    editor = let_in(namespace, "eva", {"kind": "ClusterRole", "name": "edit"})

    host = (
        'spec.trialTemplate.spec.volumes[0].hostPath: {"path":"/"} is not allowed in a trial\'s pod; remove the field'
    )
    image = "the image evil.example/train:1 is not allowed (the administrator allows images with allowedImages)"
    for user in (tuner, editor):
        assert host in user.apply(make_attempt("host", **OF_HOST))
        assert image in user.apply(make_attempt("image", {"image": "evil.example/train:1"}))
        assert "serviceAccountName admin is not allowed" in user.apply(
            make_attempt("admin", serviceAccountName="admin")
        )

    there = f"in namespace {namespace.namespace}"
    secret = make_attempt("secret", {"envFrom": [{"secretRef": {"name": FOREIGN}}]})
    assert f"Secret {FOREIGN} is named, which you may not read {there}; leave it out" in tuner.apply(secret)
    account = make_attempt("account", serviceAccountName=ACCOUNT)
    assert f"serviceAccountName is {ACCOUNT}, as which you may not act {there}" in tuner.apply(account)
    claim: Object = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
    assert f"claim data is named, which you may not use {there}" in tuner.apply(make_attempt("claim", **claim))
    assert namespace.list("experiments.podtune.dev") == []

    assert "experiment.podtune.dev/good created" in tuner.apply(make_attempt("good"))
    assert "experiment.podtune.dev/secret created" in editor.apply(secret)
    for name in ("good", "secret"):
        namespace.wait_for_condition("experiments.podtune.dev", name, "Complete")
