"""What GitOps tools do with our files, done with kubectl on a real API server on which no operator runs.

The status is written by hand, as the operator's, and the finalizer, too: a difference must not come of either.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from integrations.install_manifest import build_install_manifest, find_helm
from podtune.api.names import FINALIZER
from podtune.cli.client.api_client import HttpApi
from podtune.cli.client.kubeconfig import connect
from podtune.kube import paths
from release.charts import CHARTS, ELSEWHERE, pack_chart
from tests.component.own_api_server import find_programs, running_api_server
from tests.gitops import argo_cd, states
from tests.gitops.kstatus import Kstatus, compute_kstatus

pytestmark = [pytest.mark.cluster]

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/experiment.yaml"))
OVERLAYS = [ROOT / "integrations" / "kustomize" / name for name in ("try", "full")]
APPLY: dict[str, tuple[str, ...]] = {"server-side": ("--server-side", "--field-manager=gitops"), "client-side": ()}
Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    binaries = find_programs()
    with running_api_server(binaries, tmp_path_factory.mktemp("api-server")) as written:
        yield written


@pytest.fixture(scope="module")
def kubectl(kubeconfig: Path) -> Kubectl:
    def run(*words: str, stdin: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = ["kubectl", f"--kubeconfig={kubeconfig}", *words]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done

    return run


@pytest.fixture(scope="module")
def installed(kubectl: Kubectl) -> str:
    """The manifest that installs Podtune without Helm, after it was applied."""
    manifest = build_install_manifest(find_helm())
    kubectl("apply", "--server-side", "-f", "-", stdin=manifest)
    kubectl("wait", "--for=condition=Established", "crd/experiments.podtune.dev", "crd/trials.podtune.dev")
    return manifest


@pytest.fixture
def api(kubeconfig: Path, installed: str) -> HttpApi:
    return HttpApi(connect(kubeconfig))


@pytest.fixture(params=APPLY)
def options(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return APPLY[request.param]


def test_the_manifest_of_a_release_is_that_of_the_charts_with_its_images(installed: str, tmp_path: Path) -> None:
    registry, repository = "registry.example.com/team", "https://git.example.com/team/tuning"
    packed = {
        name: pack_chart(ROOT / "charts" / name, tmp_path, epoch=0, registry=registry, repository=repository)
        for name in CHARTS
    }
    here = re.sub(r"(?<![-/\w])podtune-(operator|agent|dashboard):", rf"{registry}/podtune-\1:", installed)
    assert build_install_manifest(find_helm(), charts=packed) == here.replace(ELSEWHERE, repository)
    assert f"image: {registry}/podtune-operator:" in here


def render(kubectl: Kubectl, folder: Path) -> str:
    """What a folder holds, as a GitOps tool makes it."""
    if (folder / "kustomization.yaml").exists():
        return kubectl("kustomize", str(folder)).stdout
    return (folder / "experiment.yaml").read_text(encoding="utf-8")


def find_experiments(manifest: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(manifest) if document["kind"] == "Experiment"]


def work_as_the_operator(api: HttpApi, namespace: str, name: str) -> None:
    """Writes a finalizer and a status, as it does."""
    path = paths.experiment(namespace, name)
    api.patch(path, {"metadata": {"finalizers": [FINALIZER]}})
    api.patch(paths.status_of(path), {"status": states.EXPERIMENTS["running"]()["status"]})


@pytest.mark.parametrize("folder", [*EXAMPLES, *OVERLAYS], ids=lambda folder: folder.name)
def test_what_was_applied_does_not_differ(
    kubectl: Kubectl, api: HttpApi, folder: Path, options: tuple[str, ...]
) -> None:
    namespace = f"{folder.name}-{'server' if options else 'client'}"
    kubectl("create", "namespace", namespace)
    manifest = render(kubectl, folder)
    [experiment] = find_experiments(manifest)
    name = experiment["metadata"]["name"]
    kubectl("apply", "-n", namespace, *options, "-f", "-", stdin=manifest)
    assert compute_kstatus(api.get(paths.experiment(namespace, name))) is Kstatus.IN_PROGRESS, "nobody has seen it yet"
    kubectl("diff", "-n", namespace, *options, "-f", "-", stdin=manifest)
    work_as_the_operator(api, namespace, name)
    for words in ((), APPLY["server-side"]):
        compared = kubectl("diff", "-n", namespace, *words, "-f", "-", stdin=manifest, check=False)
        assert (compared.returncode, compared.stdout) == (0, ""), compared.stderr


def test_the_manifest_without_helm_does_not_differ_from_what_it_has_made(kubectl: Kubectl, installed: str) -> None:
    compared = kubectl("diff", "--server-side", "-f", "-", stdin=installed, check=False)
    assert (compared.returncode, compared.stdout) == (0, ""), compared.stderr
    kinds = [document["kind"] for document in yaml.safe_load_all(installed) if document]
    assert kinds[:3] == ["Namespace", "CustomResourceDefinition", "CustomResourceDefinition"]
    assert kinds.count("Deployment") == 1
    assert "helm.sh/hook" not in installed


def test_argo_cds_config_map_keeps_what_it_held(kubectl: Kubectl, installed: str) -> None:
    kubectl("create", "namespace", "argocd")
    kubectl("create", "configmap", "argocd-cm", "-n", "argocd", "--from-literal=url=https://argo.example.com")
    file = argo_cd.ROOT / "argocd-cm.yaml"
    kubectl("patch", "configmap", "argocd-cm", "-n", "argocd", "--patch-file", str(file))
    data = json.loads(kubectl("get", "configmap", "argocd-cm", "-n", "argocd", "-o", "json").stdout)["data"]
    assert data.pop("url") == "https://argo.example.com"
    assert data == argo_cd.read_yaml(file)["data"]


def test_a_change_of_what_trials_are_compared_by_is_refused_in_words(kubectl: Kubectl, api: HttpApi) -> None:
    """As Argo CD and Flux show it: both apply on the server."""
    kubectl("create", "namespace", "edited")
    manifest = render(kubectl, ROOT / "integrations" / "kustomize" / "try")
    kubectl("apply", "-n", "edited", *APPLY["server-side"], "-f", "-", stdin=manifest)
    [experiment] = find_experiments(manifest)
    experiment["spec"]["parameters"][0]["float"]["max"] = 10
    refused = kubectl(
        "apply", "-n", "edited", *APPLY["server-side"], "-f", "-", stdin=json.dumps(experiment), check=False
    )
    assert refused.returncode != 0
    assert "parameters can't be changed once the experiment exists; make a new Experiment" in refused.stderr
    experiment["spec"]["parameters"][0]["float"]["max"] = 1
    experiment["spec"]["search"]["maxTrials"] = 12
    kubectl("apply", "-n", "edited", *APPLY["server-side"], "-f", "-", stdin=json.dumps(experiment))


def test_a_script_that_changes_reaches_the_template(kubectl: Kubectl, tmp_path: Path) -> None:
    """The overlays' ConfigMap bears a hash of its content, and the Experiment follows it."""
    rendered = list(yaml.safe_load_all(kubectl("kustomize", str(OVERLAYS[0])).stdout))
    [config_map] = [one for one in rendered if one["kind"] == "ConfigMap"]
    [experiment] = [one for one in rendered if one["kind"] == "Experiment"]
    pod = experiment["spec"]["trialTemplate"]["spec"]
    assert config_map["metadata"]["name"].startswith("script-try-")
    assert pod["volumes"][0]["configMap"]["name"] == config_map["metadata"]["name"]
    assert pod["containers"][0]["image"] == "busybox:1"


def test_kustomize_follows_each_name_that_it_is_told_of(kubectl: Kubectl, tmp_path: Path) -> None:
    """In all pods of an Experiment: of trials, of roles, of evaluations; and in its store."""
    configuration = ROOT / "integrations" / "kustomize" / "base" / "podtune.yaml"
    (tmp_path / "podtune.yaml").write_text(configuration.read_text(encoding="utf-8"), encoding="utf-8")
    kinds = [entry["kind"] for entry in argo_cd.read_yaml(configuration)["nameReference"]]
    documents: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": kind.lower()}} for kind in kinds
    ]
    experiment: dict[str, Any] = {"apiVersion": "podtune.dev/v1alpha1", "kind": "Experiment", "metadata": {"name": "e"}}
    expected = 0
    for entry in argo_cd.read_yaml(configuration)["nameReference"]:
        for field in entry["fieldSpecs"]:
            put(experiment, field["path"].split("/"), entry["kind"].lower())
            expected += 1
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([*documents, experiment]), encoding="utf-8")
    kustomization = {"resources": ["all.yaml"], "namePrefix": "team-", "configurations": ["podtune.yaml"]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
    [rendered] = find_experiments(kubectl("kustomize", str(tmp_path)).stdout)
    found = json.dumps(rendered["spec"])
    assert found.count('"team-') == expected > 40


LISTS = frozenset({"volumes", "sources", "imagePullSecrets", "env", "envFrom", "containers", "initContainers", "roles"})


def put(there: dict[str, Any], way: list[str], value: str) -> None:
    """Puts a value at the end of a way of fields; lists on it get an entry of their own."""
    first, *rest = way
    if not rest:
        there[first] = value
    elif first in LISTS:
        entry: dict[str, Any] = {}
        there.setdefault(first, []).append(entry)
        put(entry, rest, value)
    else:
        put(there.setdefault(first, {}), rest, value)
