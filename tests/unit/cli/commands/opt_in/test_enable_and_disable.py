"""`podtune enable` and `podtune disable` make and delete one RoleBinding, and say what follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from podtune.cli import main as cli
from podtune.cli.client import api_client
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal, make_refusal
from podtune.kube.manifests import Manifest
from tests.unit.cli.cli_fakes import NAMESPACE, RUNNING, FakeApi, experiment

BINDING = paths.role_binding(NAMESPACE, "podtune-system-podtune")


class RbacApi(FakeApi):
    """With the ClusterRole of one operator."""

    def __init__(self) -> None:
        super().__init__()
        self.roles = [make_role("podtune-system")]
        self.refusals: dict[str, ApiRefusal] = {}

    def list_all(self, path: str, params: Mapping[str, str] | None = None) -> list[Manifest]:
        self._refuse(path)
        return self.roles if path == paths.cluster_roles() else super().list_all(path, params)

    def create(self, path: str, item: Mapping[str, Any], params: Mapping[str, str] | None = None) -> Manifest:
        self._refuse(f"POST {path}")
        return super().create(path, item, params)

    def _refuse(self, request: str) -> None:
        if request in self.refusals:
            raise self.refusals[request]


def make_role(home: str) -> Manifest:
    annotations = {"podtune.dev/subject": f"{home}/podtune"}
    return {"metadata": {"name": f"{home}-podtune-namespace", "annotations": annotations}}


def forbidden(message: str) -> ApiRefusal:
    return make_refusal(403, "Forbidden", message)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> RbacApi:
    fake = RbacApi()
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (fake, namespace or NAMESPACE))
    return fake


def test_a_namespace_is_enabled_once(api: RbacApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["enable", NAMESPACE]) == 0
    assert capsys.readouterr().out.startswith("namespace vision is enabled: RoleBinding podtune-system-podtune; ")
    made = api.objects[BINDING]
    assert made["roleRef"]["name"] == "podtune-system-podtune-namespace"
    assert made["subjects"] == [{"kind": "ServiceAccount", "name": "podtune", "namespace": "podtune-system"}]
    assert cli.main(["enable", NAMESPACE]) == 0
    assert "is enabled already" in capsys.readouterr().out
    assert list(api.objects) == [BINDING]


def test_a_dry_run_makes_nothing_and_prints_the_manifest_for_git(
    api: RbacApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["enable", NAMESPACE, "--dry-run"]) == 0
    assert "would be made" in capsys.readouterr().out
    api.refusals[paths.role_bindings(NAMESPACE)] = forbidden("no rights there")
    assert cli.main(["enable", NAMESPACE, "--dry-run", "-o", "yaml"]) == 0
    manifest = yaml.safe_load(capsys.readouterr().out)
    assert (manifest["kind"], manifest["metadata"]["namespace"]) == ("RoleBinding", NAMESPACE)
    assert not {"uid", "resourceVersion"} & manifest["metadata"].keys()
    assert api.objects == {}


def test_a_binding_that_gitops_has_made_under_another_name_counts(
    api: RbacApi, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["enable", NAMESPACE, "--dry-run", "-o", "json"])
    manifest = yaml.safe_load(capsys.readouterr().out)
    manifest["metadata"]["name"] = "tuning"
    api.create(paths.role_bindings(NAMESPACE), manifest)
    assert cli.main(["enable", NAMESPACE]) == 0
    assert "enabled already: RoleBinding tuning" in capsys.readouterr().out
    assert cli.main(["disable", NAMESPACE]) == 0
    assert api.deleted == [paths.role_binding(NAMESPACE, "tuning")]


def test_who_may_not_list_cluster_roles_gets_the_usual_one(api: RbacApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.refusals[paths.cluster_roles()] = forbidden("cannot list clusterroles")
    assert cli.main(["enable", NAMESPACE]) == 0
    assert BINDING in api.objects
    assert cli.main(["enable", NAMESPACE, "--operator-namespace", "tuning", "--dry-run", "-o", "json"]) == 0
    manifest = yaml.safe_load(capsys.readouterr().out.partition("\n")[2])
    assert manifest["roleRef"]["name"] == "tuning-podtune-namespace"
    assert manifest["subjects"][0]["namespace"] == "tuning"


@pytest.mark.parametrize(
    ("homes", "arguments", "said"),
    [
        ([], [], "no operator of this cluster waits for namespaces to opt in"),
        (["a"], ["--operator-namespace", "b"], "the operator in namespace b does not wait"),
        (["a", "b"], [], "there are operators in a, b; say with --operator-namespace"),
    ],
)
def test_an_operator_that_is_not_in_that_mode_is_told_of(
    api: RbacApi, capsys: pytest.CaptureFixture[str], homes: list[str], arguments: list[str], said: str
) -> None:
    api.roles = [make_role(home) for home in homes]
    for command in ("enable", "disable"):
        assert cli.main([command, NAMESPACE, *arguments]) == 1
        assert said in capsys.readouterr().err


def test_who_may_not_bind_is_told_which_right_is_missing(api: RbacApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.refusals[f"POST {paths.role_bindings(NAMESPACE)}"] = forbidden("user may not bind")
    assert cli.main(["enable", NAMESPACE]) == 5
    said = capsys.readouterr().err
    assert "bind ClusterRole podtune-system-podtune-namespace" in said
    assert "user may not bind" in said


def test_a_namespace_that_is_missing_or_a_binding_that_is_another_is_told_of(
    api: RbacApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.refusals[f"POST {paths.role_bindings(NAMESPACE)}"] = make_refusal(404, "NotFound", 'namespaces "vision"')
    assert cli.main(["enable", NAMESPACE]) == 1
    assert "is there a namespace vision" in capsys.readouterr().err
    api.refusals.clear()
    other = {"metadata": {"name": "podtune-system-podtune"}, "roleRef": {"kind": "Role", "name": "view"}}
    api.create(paths.role_bindings(NAMESPACE), other)
    assert cli.main(["enable", NAMESPACE]) == 1
    assert "binds something else" in capsys.readouterr().err


def test_disable_says_what_runs_there_still(api: RbacApi, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["enable", NAMESPACE])
    api.add_experiment(experiment("digits", **RUNNING))
    api.add_experiment(experiment("done", state="Complete"))
    for name, phase in (("digits-0-1", "Running"), ("digits-1-1", "Succeeded")):
        api.objects[paths.pod(NAMESPACE, name)] = {"metadata": {"name": name}, "status": {"phase": phase}}
    capsys.readouterr()
    assert cli.main(["disable", NAMESPACE, "--dry-run"]) == 0
    assert BINDING in api.objects
    assert "would be disabled" in capsys.readouterr().out
    assert cli.main(["disable", NAMESPACE]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "namespace vision is disabled: RoleBinding podtune-system-podtune is deleted",
        "not ended, and standing still until the namespace is enabled again: digits",
        "running until their programs end: digits-0-1",
        "to end them now: kubectl delete pods -n vision -l app.kubernetes.io/managed-by=podtune,podtune.dev/experiment",
    ]
    assert cli.main(["disable", NAMESPACE]) == 0
    assert "vision is not enabled" in capsys.readouterr().out


def test_disable_of_an_empty_namespace_says_so(api: RbacApi, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["enable", NAMESPACE])
    cli.main(["disable", NAMESPACE])
    assert capsys.readouterr().out.endswith("nothing runs there\n")
