"""The definitions on a real API server: what it refuses, fills in and shows.

Needs the local cluster: `python -m e2e.devcluster up`, then pytest with `-m cluster` where KUBECONFIG points to it.
"""

from __future__ import annotations

import copy
import json
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.namespaces import run_label
from podtune.api.validation import InvalidSpec, find_problems, parse_experiment
from podtune.cli.client.experiment_file import read_experiment_file
from podtune.cli.client.kubeconfig import connect
from tests.component.api.definitions import install_definitions

pytestmark = [pytest.mark.cluster, pytest.mark.every_version]

HERE = Path(__file__).parent
BAD = sorted((HERE / "bad").glob("*.yaml"))
NAMESPACE = "podtune-component-api"

Kubectl = Callable[..., subprocess.CompletedProcess[str]]


def _kubectl(*arguments: str, manifest: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    given = None if manifest is None else yaml.safe_dump(manifest)
    return subprocess.run(["kubectl", *arguments], input=given, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def kubectl() -> Iterator[Kubectl]:
    install_definitions()
    metadata = {"name": NAMESPACE, "labels": run_label()}
    _kubectl("create", "-f", "-", manifest={"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    yield lambda *arguments, **kwargs: _kubectl("--namespace", NAMESPACE, *arguments, **kwargs)
    _kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture
def good() -> dict[str, Any]:
    manifest: dict[str, Any] = yaml.safe_load((HERE / "good.yaml").read_text())
    return manifest


def _replace_spec(kubectl: Kubectl, changed: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Tries a whole new spec; a patch, since an operator may write the status at the same time."""
    patch = json.dumps([{"op": "replace", "path": "/spec", "value": changed["spec"]}])
    name = changed["metadata"]["name"]
    return kubectl("patch", f"experiments.podtune.dev/{name}", "--type=json", "--dry-run=server", "-p", patch)


def _create(kubectl: Kubectl, manifest: dict[str, Any]) -> dict[str, Any]:
    made = kubectl("create", "-f", "-", "-o", "yaml", manifest=manifest)
    assert made.returncode == 0, made.stderr
    created: dict[str, Any] = yaml.safe_load(made.stdout)
    return created


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_manifest_is_refused_with_field_value_and_remedy(kubectl: Kubectl, path: Path) -> None:
    lines = path.read_text().splitlines()
    fragments = [line.removeprefix("# expect: ") for line in lines if line.startswith("# expect: ")]
    made = kubectl("create", "--dry-run=server", "-o", "yaml", "-f", str(path))
    if lines[0] == "# refused by: server":
        assert made.returncode != 0
        said = made.stderr
    else:
        assert made.returncode == 0, made.stderr
        with pytest.raises(InvalidSpec) as refused:
            parse_experiment(yaml.safe_load(made.stdout))
        said = str(refused.value)
    assert [fragment for fragment in fragments if fragment not in said] == [], said
    assert read_experiment_file(path).problems or path.stem == "service-account", "the plan has another verdict"


OF_THE_POD = [
    path
    for path in BAD
    if path.stem
    in (
        *("memory-in-mb", "gpu-in-words", "gpu-half", "gpu-in-requests-alone", "gpu-without-its-domain"),
        *("request-above-its-limit", "environment-of-numbers", "command-of-one-text", "sub-path-out-of-its-volume"),
        *("mount-of-no-volume", "container-name-with-capitals", "pull-policy-unknown", "no-containers"),
    )
]
"""Those whose pod the API server refuses for what the plan refuses the Experiment."""


def _try_pod(kubectl: Kubectl, manifest: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    spec = {"restartPolicy": "Never", **manifest["spec"]["trialTemplate"]["spec"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tried"}, "spec": spec}
    return kubectl("create", "--dry-run=server", "--validate=false", "-f", "-", manifest=pod)


@pytest.mark.parametrize("path", OF_THE_POD, ids=lambda path: path.stem)
def test_what_a_plan_refuses_of_a_pod_the_api_server_refuses(kubectl: Kubectl, path: Path) -> None:
    assert read_experiment_file(path).problems
    refused = _try_pod(kubectl, yaml.safe_load(path.read_text()))
    assert refused.returncode != 0


@pytest.mark.parametrize(
    "container",
    [
        {"resources": {"limits": {"nvidia.com/gpu": "2000m"}, "requests": {"nvidia.com/gpu": 2}}},
        {"resources": {"limits": {"memory": "1e9", "cpu": 0.5}, "requests": {"memory": "0.5G", "cpu": ".5"}}},
        {"resources": {"limits": {"memory": "5.Gi", "example.com/fpga": 1, "ephemeral-storage": "1E9"}}},
        {"command": ["sh", "-c"], "args": ["echo $(PODTUNE_PARAM_learning_rate) $$(HOME)"], "workingDir": "/tmp"},
        {"env": [{"name": "A", "value": "9"}, {"name": "B"}], "imagePullPolicy": "Never"},
        {"ports": [{"containerPort": 80, "protocol": "UDP"}], "securityContext": {"runAsUser": 1000}},
    ],
)
def test_what_a_plan_passes_of_a_pod_the_api_server_takes(
    kubectl: Kubectl, good: dict[str, Any], container: dict[str, Any]
) -> None:
    trial = good["spec"]["trialTemplate"]["spec"]["containers"][0]
    good["spec"]["trialTemplate"]["spec"]["containers"] = [trial | container]
    assert find_problems(good) == []
    taken = _try_pod(kubectl, good)
    assert taken.returncode == 0, taken.stderr


def _limits(amount: str) -> str:
    return (HERE / "good.yaml").read_text().replace("min: 0.0001", f"min: {amount}")


@pytest.mark.parametrize("amount", ["1e-4", ".0001", "1.0e-4", '"0.0001"', "1:30", "0x1", "1_0", "-.5", "+1"])
def test_a_plan_reads_numbers_as_kubectl_does(kubectl: Kubectl, tmp_path: Path, amount: str) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_text(_limits(amount).replace("max: 0.1, scale: log", "max: 100"))
    made = kubectl("create", "--dry-run=server", "-f", str(path))
    assert (made.returncode == 0) is (not read_experiment_file(path).problems), made.stderr


def test_a_field_that_does_not_exist_is_refused(kubectl: Kubectl, good: dict[str, Any]) -> None:
    good["spec"]["maxConcurentTrials"] = 4
    made = kubectl("create", "--dry-run=server", "-f", "-", manifest=good)
    assert made.returncode != 0
    assert 'unknown field "spec.maxConcurentTrials"' in made.stderr


def test_the_manifest_of_the_readme_is_taken_with_its_defaults_filled_in(
    kubectl: Kubectl, good: dict[str, Any]
) -> None:
    made = kubectl("create", "--dry-run=server", "-o", "yaml", "-f", "-", manifest=good)
    assert made.returncode == 0, made.stderr
    stored = yaml.safe_load(made.stdout)
    assert stored["spec"]["failures"]["maxDisruptions"] == 32
    assert stored["spec"]["failures"]["backoff"] == {"initial": "10s", "max": "6m"}
    assert stored["spec"]["scheduler"]["asha"]["brackets"] == 1
    assert stored["status"]["observedGeneration"] == -1
    # What the server fills in is what the models would have.
    assert parse_experiment(stored) == parse_experiment(good)


def test_the_smallest_manifest_gets_the_defaults_of_the_models(kubectl: Kubectl, good: dict[str, Any]) -> None:
    for optional in ("scheduler", "stop", "maxConcurrentTrials", "failures", "checkpoints"):
        del good["spec"][optional]
    made = kubectl("create", "--dry-run=server", "-o", "yaml", "-f", "-", manifest=good)
    stored = yaml.safe_load(made.stdout)
    assert stored["spec"]["scheduler"] == {"fifo": {}}
    assert stored["spec"]["checkpoints"] == {
        "keep": {"count": 2, "by": "latest"},
        "deletionPolicy": "Retain",
        "drain": "10m",
        "layout": "Plain",
        "ranks": "All",
        "requestTimeout": "1m",
        "reuseUnchanged": True,
        "sync": {"retries": 100, "timeout": "30m"},
    }
    assert parse_experiment(stored) == parse_experiment(good)


def _row(plural: str, name: str, status: dict[str, Any], *, wide: bool = False) -> dict[str, object]:
    """Writes a status; returns what `kubectl get` shows of it, by the same answer: an operator may run here too."""
    connection = connect()
    request = urllib.request.Request(
        f"{connection.server}/apis/podtune.dev/v1alpha1/namespaces/{NAMESPACE}/{plural}/{name}/status",
        method="PATCH",
        data=json.dumps({"status": status}).encode(),
        headers={
            "Content-Type": "application/merge-patch+json",
            "Accept": "application/json;as=Table;v=v1;g=meta.k8s.io",
            **connection.headers,
        },
    )
    with urllib.request.urlopen(request, context=connection.tls, timeout=30) as answer:
        table = json.load(answer)
    shown = [column["name"] for column in table["columnDefinitions"] if wide or column["priority"] == 0]
    return dict(zip(shown, table["rows"][0]["cells"], strict=False))


def test_kubectl_get_shows_progress_and_the_best_value(kubectl: Kubectl, good: dict[str, Any]) -> None:
    good["metadata"]["name"] = "shown"
    _create(kubectl, good)
    status = {
        "state": "Running",
        "trials": {"total": 9, "running": 3, "paused": 2, "terminated": 3, "error": 1},
        "best": {"trial": "shown-4", "value": "0.97222222222", "text": "0.9722"},
    }
    row = _row("experiments", "shown", status)
    assert list(row) == ["Name", "State", "Trials", "Running", "Paused", "Done", "Failed", "Best", "Age"]
    assert list(row.values())[:-1] == ["shown", "Running", 9, 3, 2, 3, 1, "0.9722"]
    assert _row("experiments", "shown", status, wide=True)["Best-Value"] == "0.97222222222"


def _trial(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "podtune.dev/v1alpha1",
        "kind": "Trial",
        "metadata": {"name": name},
        "spec": {"experiment": name.removesuffix("-7"), "index": 7, "parameters": {"learning_rate": "0.0042"}},
    }


ADDED = {"experiment": "digits", "parameters": {"learning_rate": "0.0042"}}
BAD_ADDED: dict[str, tuple[str, dict[str, Any], str]] = {
    "the number of a proposal": ("digits-7", {}, "with a number from 100000 on"),
    "no number": ("digits-mine", {}, "with a number from 100000 on"),
    "of another experiment": ("other-100000", {}, "with a number from 100000 on"),
    "too long a number": ("digits-100000000", {}, "with a number from 100000 on"),
    "an index": ("digits-100000", {"index": 7}, "spec.index is for the operator to set"),
    "an index beyond those of proposals": ("digits-100000", {"index": 100000}, "spec.index is for the operator to set"),
    "a seed": ("digits-100000", {"seed": 7}, "are for the operator to set"),
    "a proposal": ("digits-100000", {"proposal": {"number": 7}}, "are for the operator to set"),
    "a former trial": ("digits-100000", {"former": {"uid": "x"}}, "are for the operator to set"),
    "another experiment's checkpoint": (
        "digits-100000",
        {"restoreFrom": {"experiment": "other", "trial": "other-0"}},
        "restoreFrom names a trial of another experiment",
    ),
}


@pytest.mark.parametrize("case", BAD_ADDED)
def test_what_a_person_may_not_say_of_a_trial_is_refused(kubectl: Kubectl, case: str) -> None:
    name, fields, words = BAD_ADDED[case]
    manifest = {**_trial(name), "spec": {**ADDED, **fields}}
    made = kubectl("create", "--dry-run=server", "-f", "-", manifest=manifest)
    assert made.returncode != 0
    assert words in made.stderr


@pytest.mark.parametrize("fields", [{}, {"restoreFrom": {"trial": "digits-0", "step": 3}}])
def test_a_person_may_add_a_trial(kubectl: Kubectl, fields: dict[str, Any]) -> None:
    manifest = {**_trial("digits-100000"), "spec": {**ADDED, **fields}}
    made = kubectl("create", "--dry-run=server", "-o", "yaml", "-f", "-", manifest=manifest)
    assert made.returncode == 0, made.stderr
    assert "index" not in yaml.safe_load(made.stdout)["spec"]


def test_kubectl_get_shows_a_trials_state_and_best_value(kubectl: Kubectl) -> None:
    made = _create(kubectl, _trial("shown-7"))
    assert made["spec"]["desiredState"] == "Running"
    best = {"bestValue": "0.96444444444", "bestText": "0.9644"}
    status = {"state": "RUNNING", "reason": "Training", "attempt": 2, "failures": 1, **best}
    row = _row("trials", "shown-7", status)
    assert list(row) == ["Name", "State", "Reason", "Attempt", "Failures", "Best", "Age"]
    assert list(row.values())[:-1] == ["shown-7", "RUNNING", "Training", 2, 1, "0.9644"]
    assert _row("trials", "shown-7", status, wide=True)["Best-Value"] == "0.96444444444"
    assert "shown-7" in kubectl("get", "podtune").stdout


def test_of_a_trials_counters_the_api_server_fills_in_those_that_kubectl_get_shows(kubectl: Kubectl) -> None:
    _create(kubectl, _trial("lean-7"))
    row = _row("trials", "lean-7", {"state": "PENDING"})
    assert (row["Attempt"], row["Failures"]) == (0, 0)
    stored = json.loads(kubectl("get", "trials.podtune.dev/lean-7", "-o", "json").stdout)
    assert stored["status"].keys() - {"observedGeneration"} <= {"state", "attempt", "failures"}


FIXED = {
    "objective": lambda spec: spec["objective"].update(mode="min"),
    "parameters": lambda spec: spec["parameters"].reverse(),
    "algorithm": lambda spec: spec["search"].update(algorithm="random"),
    "seed": lambda spec: spec["search"].update(seed=8),
    "repeats": lambda spec: spec["search"].update(repeats=2),
    "warmStart": lambda spec: spec["search"].update(warmStart={"experiment": "earlier"}),
    "scheduler": lambda spec: spec["scheduler"]["asha"].update(reductionFactor=2),
    "replicas": lambda spec: spec["trialTemplate"].update(replicas=2),
    "reuse": lambda spec: spec["trialTemplate"].update(reuse=True),
    "bucket": lambda spec: spec["checkpoints"]["store"].update(bucket="another"),
    "prefix": lambda spec: spec["checkpoints"]["store"].update(prefix="another"),
    "endpoint": lambda spec: spec["checkpoints"]["store"].update(endpoint="https://another.example"),
}


@pytest.fixture(scope="module")
def stored(kubectl: Kubectl) -> dict[str, Any]:
    manifest = yaml.safe_load((HERE / "good.yaml").read_text())
    manifest["metadata"]["name"] = "changed"
    made = _create(kubectl, manifest)
    # Whatever an operator that runs here writes meanwhile.
    del made["metadata"]["resourceVersion"]
    return made


@pytest.mark.parametrize("field", FIXED)
def test_what_trials_are_compared_by_cant_be_changed(kubectl: Kubectl, stored: dict[str, Any], field: str) -> None:
    changed = copy.deepcopy(stored)
    FIXED[field](changed["spec"])
    replaced = _replace_spec(kubectl, changed)
    assert replaced.returncode != 0
    assert f"{field} can't be changed once the experiment exists; make a new Experiment" in replaced.stderr


INITIAL: list[dict[str, Any]] = [
    {"parameters": {"learning_rate": 0.01}},
    {"parameters": {"learning_rate": 0.02}, "results": {"accuracy": 1}},
]
NEW: dict[str, Any] = {"parameters": {"learning_rate": 0.03}, "restoreFrom": {"trial": "changed-0"}}
REFUSED_INITIAL: dict[str, tuple[list[Any], str]] = {
    "changed": ([NEW, INITIAL[1]], "can't be changed or removed"),
    "removed": (INITIAL[:1], "can't be changed or removed"),
    "all removed": ([], "can't be changed or removed"),
    "put in between": ([INITIAL[0], NEW, INITIAL[1]], "can't be changed or removed"),
    "in another order": ([*reversed(INITIAL)], "can't be changed or removed"),
    "given twice": ([*INITIAL, INITIAL[0]], "none is given twice"),
    "known": ([*INITIAL, {**INITIAL[1], "results": {"accuracy": 2}}], "an entry with results can't be appended"),
}


@pytest.fixture(scope="module")
def begun(kubectl: Kubectl) -> dict[str, Any]:
    manifest = yaml.safe_load((HERE / "good.yaml").read_text())
    manifest["metadata"]["name"] = "begun"
    manifest["spec"]["search"]["initial"] = INITIAL
    made = _create(kubectl, manifest)
    del made["metadata"]["resourceVersion"]
    return made


@pytest.mark.parametrize("change", REFUSED_INITIAL)
def test_what_the_search_began_with_cant_be_changed(kubectl: Kubectl, begun: dict[str, Any], change: str) -> None:
    changed = copy.deepcopy(begun)
    changed["spec"]["search"]["initial"], words = REFUSED_INITIAL[change]
    replaced = _replace_spec(kubectl, changed)
    assert replaced.returncode != 0
    assert words in replaced.stderr


@pytest.mark.parametrize("name", ["begun", "stored"])
def test_configurations_to_try_can_be_appended(
    kubectl: Kubectl, name: str, begun: dict[str, Any], stored: dict[str, Any]
) -> None:
    changed = copy.deepcopy({"begun": begun, "stored": stored}[name])
    changed["spec"]["search"]["initial"] = [*changed["spec"]["search"].get("initial", ()), NEW]
    replaced = _replace_spec(kubectl, changed)
    assert replaced.returncode == 0, replaced.stderr


ROLES_FIXED = {
    "name": lambda roles: roles[1].update(name="helper"),
    "replicas": lambda roles: roles[1].update(replicas=3),
    "order": lambda roles: roles.reverse(),
    "removal": lambda roles: roles.pop(),
}


@pytest.fixture(scope="module")
def stored_roles(kubectl: Kubectl) -> dict[str, Any]:
    manifest = yaml.safe_load((HERE / "good.yaml").read_text())
    manifest["metadata"]["name"] = "roles"
    pod = {"spec": manifest["spec"]["trialTemplate"]["spec"]}
    roles = [{"name": name, "template": copy.deepcopy(pod)} for name in ("driver", "worker", "evaluator")]
    manifest["spec"]["trialTemplate"] = {"roles": roles}
    made = _create(kubectl, manifest)
    del made["metadata"]["resourceVersion"]
    return made


def test_roles_have_one_replica_unless_it_is_said(stored_roles: dict[str, Any]) -> None:
    assert [role["replicas"] for role in stored_roles["spec"]["trialTemplate"]["roles"]] == [1, 1, 1]
    assert "spec" not in stored_roles["spec"]["trialTemplate"], "a spec was filled in"
    assert parse_experiment(stored_roles).trial_template.pod_count == 3


@pytest.mark.parametrize("change", ROLES_FIXED)
def test_what_ranks_follow_from_cant_be_changed(kubectl: Kubectl, stored_roles: dict[str, Any], change: str) -> None:
    changed = copy.deepcopy(stored_roles)
    ROLES_FIXED[change](changed["spec"]["trialTemplate"]["roles"])
    replaced = _replace_spec(kubectl, changed)
    assert replaced.returncode != 0
    assert "names, replicas and order of roles can't be changed once the experiment exists" in replaced.stderr


def test_one_template_cant_become_roles(kubectl: Kubectl, stored: dict[str, Any], stored_roles: dict[str, Any]) -> None:
    changed = copy.deepcopy(stored)
    changed["spec"]["trialTemplate"]["roles"] = stored_roles["spec"]["trialTemplate"]["roles"]
    del changed["spec"]["trialTemplate"]["spec"]
    replaced = _replace_spec(kubectl, changed)
    assert "names, replicas and order of roles can't be changed once the experiment exists" in replaced.stderr


def test_templates_of_roles_can_be_changed(kubectl: Kubectl, stored_roles: dict[str, Any]) -> None:
    changed = copy.deepcopy(stored_roles)
    for role in changed["spec"]["trialTemplate"]["roles"]:
        role["template"]["spec"]["containers"][0]["image"] = f"mended-{role['name']}"
        role["template"]["metadata"] = {"labels": {"tier": role["name"]}}
    replaced = _replace_spec(kubectl, changed)
    assert replaced.returncode == 0, replaced.stderr


def test_budget_and_patience_can_be_changed(kubectl: Kubectl, stored: dict[str, Any]) -> None:
    changed = copy.deepcopy(stored)
    changed["spec"]["search"]["maxTrials"] = 48
    changed["spec"]["maxConcurrentTrials"] = 8
    changed["spec"]["stop"] = {"totalTime": "2h"}
    changed["spec"]["failures"]["maxFailures"] = 5
    changed["spec"]["checkpoints"]["store"]["credentialsSecret"] = "rotated"
    replaced = _replace_spec(kubectl, changed)
    assert replaced.returncode == 0, replaced.stderr


def test_what_pods_are_made_from_can_be_changed(kubectl: Kubectl, stored: dict[str, Any]) -> None:
    changed = copy.deepcopy(stored)
    template = changed["spec"]["trialTemplate"]
    template["spec"]["containers"][0].update(image="other", command=["train"], env=[{"name": "A", "value": "1"}])
    template["spec"]["containers"][0]["resources"] = {"limits": {"memory": "2Gi"}}
    template |= {"metadata": {"labels": {"team": "a"}}, "placementTimeout": "1m"}
    template |= {"limits": {"cpu": 2, "memory": {"expression": "2 ** 31"}}, "displayName": "another"}
    replaced = _replace_spec(kubectl, changed)
    assert replaced.returncode == 0, replaced.stderr


def test_a_limit_can_be_taken_away_where_a_budget_ends_the_search(kubectl: Kubectl, stored: dict[str, Any]) -> None:
    changed = copy.deepcopy(stored)
    changed["spec"]["search"]["maxTrials"] = "unlimited"
    changed["spec"]["stop"] = {}
    assert "nothing in stop ends the experiment" in _replace_spec(kubectl, changed).stderr
    changed["spec"]["stop"] = {"totalTime": "2h"}
    replaced = _replace_spec(kubectl, changed)
    assert replaced.returncode == 0, replaced.stderr


def test_limits_of_a_trial_can_be_set_as_text_or_number(kubectl: Kubectl) -> None:
    kubectl("delete", "ptrial", "limited-7", "--ignore-not-found")
    _create(kubectl, _trial("limited-7"))
    for limits, is_accepted in (
        ({"memory": "16Gi", "nvidia.com/gpu": 2}, True),
        ({"memory": None}, True),
        ({"memory": [16]}, False),
        ({"memory": "1" * 33}, False),
        ({f"example.com/device-{n}": 1 for n in range(17)}, False),
    ):
        patch = json.dumps({"spec": {"limits": limits}})
        patched = kubectl("patch", "ptrial/limited-7", "--type=merge", "--dry-run=server", "-p", patch)
        assert (patched.returncode == 0) is is_accepted, patched.stderr


@pytest.mark.parametrize(("made_with", "changed_to"), [("lr 0.0042", "lr 0.1"), ("lr 0.0042", None), (None, "lr 0.1")])
def test_a_trials_display_name_cant_be_changed(kubectl: Kubectl, made_with: str | None, changed_to: str | None) -> None:
    name = "named-7" if made_with else "unnamed-7"
    manifest = _trial(name)
    if made_with:
        manifest["spec"]["displayName"] = made_with
    kubectl("delete", "ptrial", name, "--ignore-not-found")
    assert _create(kubectl, manifest)["spec"].get("displayName") == made_with
    patch = {"spec": {"displayName": changed_to}}
    patched = kubectl("patch", f"ptrial/{name}", "--type=merge", "-p", json.dumps(patch))
    assert patched.returncode != 0
    told = "displayName" if made_with and changed_to else "index, seed, displayName, restoreFrom, proposal and former"
    assert f"{told} of a trial can't be changed" in patched.stderr
    paused = kubectl("patch", f"ptrial/{name}", "--type=merge", "-p", json.dumps({"spec": {"desiredState": "Paused"}}))
    assert paused.returncode == 0, paused.stderr


def test_a_trial_can_be_stopped_but_not_changed_or_started_again(kubectl: Kubectl) -> None:
    trial = _create(kubectl, _trial("fixed-7"))
    del trial["metadata"]["resourceVersion"]
    trial["spec"]["parameters"]["learning_rate"] = "0.1"
    refused = kubectl("replace", "-f", "-", manifest=trial)
    changeable = "desiredState, overrides, limits, retry and checkpointRequest"
    assert f"parameters of a trial can't be changed; only {changeable} can" in refused.stderr
    for state, accepted in (("Paused", True), ("Stopped", True), ("Running", False)):
        patch = yaml.safe_dump({"spec": {"desiredState": state}})
        patched = kubectl("patch", "ptrial/fixed-7", "--type=merge", "-p", patch)
        assert (patched.returncode == 0) is accepted, patched.stderr
    assert "a stopped trial can't be started again" in patched.stderr
