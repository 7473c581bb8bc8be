"""What of a manifest can't be had on one machine, and what takes the place of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.pods.template_policy import UNKNOWN_POLICY
from podtune.api.validation import parse_experiment
from podtune.local.adaptation import NotLocal, adapt, find_missing_variables
from tests.unit.local.experiments import STORE, make_manifest

CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
CODE = {"name": "code", "configMap": {"name": "code"}}
SECRET = {"name": "API_KEY", "valueFrom": {"secretKeyRef": {"name": "wandb", "key": "key"}}}


def _change(manifest: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    *way, last = path.split("/")
    place: Any = manifest["spec"]
    for word in way:
        place = place[int(word) if word.isdigit() else word]
    place[last] = value
    return manifest


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("suspend", True, "spec.suspend: is true, so nothing would start; remove it"),
        ("search/warmStart", {"experiment": "old"}, "spec.search.warmStart: the earlier experiment is in the cluster"),
        ("search/initial", [{"values": {"x": 1}, "restoreFrom": {"trial": "a-1"}}], "initial[0].restoreFrom"),
        ("trialTemplate/replicas", 2, "spec.trialTemplate.replicas: 2 pods need a cluster"),
        ("trialTemplate/spec/volumes", [CLAIM], "volumes[0]: 'data' can't be mounted here"),
        ("trialTemplate/spec/volumes", [CODE], "volumes[0]: ConfigMap 'code' isn't known here; put it into the same"),
        ("trialTemplate/spec/initContainers", [{"name": "fetch"}], "initContainers[0]: 'fetch' can't run here"),
        ("trialTemplate/spec/containers/0/command", None, "containers[0].command: is missing"),
        ("trialTemplate/spec/containers/0/envFrom", [{}], "containers[0].envFrom: can't be read here"),
        ("trialTemplate/spec/containers/0/env", [SECRET], "env[0].valueFrom.secretKeyRef: API_KEY can't be looked up"),
        (
            "trialTemplate/spec/containers/0/env",
            [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}}],
            "use one of metadata.name",
        ),
    ],
)
def test_what_only_a_cluster_has_is_refused_by_its_field(path: str, value: Any, words: str) -> None:
    with pytest.raises(NotLocal) as refused:
        adapt(_change(make_manifest(), path, value), (), {})
    assert len(refused.value.problems) == 1
    assert words in refused.value.problems[0]
    assert words in str(refused.value)


def test_all_that_is_missing_is_told_at_once() -> None:
    manifest = _change(make_manifest(), "trialTemplate/spec/volumes", [CLAIM])
    manifest["spec"]["trialTemplate"]["spec"]["containers"].append({"name": "logger"})
    with pytest.raises(NotLocal) as refused:
        adapt(manifest, (), {})
    assert ["'data'" in problem or "'logger'" in problem for problem in refused.value.problems] == [True, True]


def test_a_command_of_the_users_own_needs_nothing_of_the_image() -> None:
    manifest = _change(make_manifest(), "trialTemplate/spec/volumes", [CLAIM])
    pod = manifest["spec"]["trialTemplate"]["spec"]
    pod["containers"][0] |= {"args": ["--fast"], "env": [SECRET, {"name": "A", "value": "1"}], "volumeMounts": [{}]}
    pod["containers"].append({"name": "logger"})
    adapted = adapt(manifest, ("python", "train.py"), {})
    container = {"name": "trial", "image": "train:1", "command": ["python", "train.py"]}
    changed = adapted.resource["spec"]["trialTemplate"]["spec"]
    assert changed["containers"] == [{**container, "env": [{"name": "A", "value": "1"}]}]
    assert "volumes" not in changed
    assert [note for note in adapted.notes if "logger" in note or "volumes" in note or "API_KEY" in note]
    assert "volumes" in pod, "the manifest itself stays as it is"


def test_a_container_has_what_belongs_to_its_image() -> None:
    manifest = _change(make_manifest(), "trialTemplate/spec/volumes", [CODE, {"name": "cache", "emptyDir": {}}])
    container = manifest["spec"]["trialTemplate"]["spec"]["containers"][0]
    del container["command"]
    container |= {"args": ["--fast"], "volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}
    config_maps: dict[str, Any] = {"code": {}}
    assert adapt(manifest, (), {}, config_maps, in_containers=True).resource["spec"] == manifest["spec"]
    changed = adapt(manifest, ("train",), {}, config_maps, in_containers=True).resource["spec"]["trialTemplate"]["spec"]
    assert len(changed["volumes"]) == 2
    assert changed["containers"][0]["command"] == ["train"]
    assert "args" not in changed["containers"][0]
    with pytest.raises(NotLocal, match=r"containers\[0\]\.command: is missing; .*--container"):
        adapt(manifest, (), {}, config_maps)


def test_a_secret_is_taken_from_the_callers_environment_and_never_written_down() -> None:
    manifest = _change(make_manifest(), "trialTemplate/spec/containers/0/env", [SECRET])
    adapted = adapt(manifest, (), {"API_KEY": "hunter2"})
    assert "hunter2" not in str(adapted.resource)
    assert find_missing_variables(adapted.resource, {"API_KEY": "hunter2"}) == []
    assert "export API_KEY" in find_missing_variables(adapted.resource, {})[0]


def test_a_folder_takes_the_place_of_the_store() -> None:
    checkpoints = {
        **STORE,
        "export": {"to": "s3://models/best"},
        "scratch": {"size": "1Gi"},
        "deletionPolicy": "Delete",
    }
    adapted = adapt(make_manifest(checkpoints=checkpoints), (), {})
    spec = parse_experiment(adapted.resource, UNKNOWN_POLICY)
    assert spec.checkpoints.store is not None
    assert spec.checkpoints.store.uri == "volume://local"
    assert spec.checkpoints.export is not None
    assert (spec.checkpoints.export.to, spec.checkpoints.scratch) == (None, None)
    assert any("checkpoints.export.to" in note for note in adapted.notes)
    assert parse_experiment(adapt(make_manifest(), (), {}).resource, UNKNOWN_POLICY).checkpoints.store is None


def test_a_container_is_not_told_of_an_endpoint_that_it_cannot_reach() -> None:
    manifest = make_manifest(results={"huggingFace": {}})
    assert adapt(manifest, (), {}).resource["spec"]["results"] == {"huggingFace": {}}
    with pytest.raises(NotLocal, match="leave out --container"):
        adapt(manifest, (), {}, in_containers=True)


def test_a_port_belongs_to_one_trial_at_a_time() -> None:
    manifest = make_manifest(results={"scrape": {"port": 8000}})
    assert adapt(manifest, (), {}).resource["spec"]["results"] == {"scrape": {"port": 8000}}
    with pytest.raises(
        NotLocal, match=r"spec\.results\.scrape: the agent on this machine can't reach into a container"
    ):
        adapt(manifest, (), {}, in_containers=True)
    for concurrent in (2, None):
        _change(manifest, "maxConcurrentTrials", concurrent)
        if concurrent is None:
            del manifest["spec"]["maxConcurrentTrials"]
        with pytest.raises(NotLocal, match=r"scrape\.port: [23] trials at a time can't share port 8000 .*; set max"):
            adapt(manifest, (), {})
