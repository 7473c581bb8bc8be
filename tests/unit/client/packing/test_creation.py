from typing import Any

import pytest
import yaml

from podtune.client import (
    AlreadyExists,
    Client,
    ConnectionFailed,
    Experiment,
    InvalidArgument,
    NotPossible,
    PackingError,
)
from podtune.client.packing.creation import make_experiment_name
from podtune.kube import paths
from podtune.kube.errors import Unanswered
from podtune.kube.manifests import Manifest
from tests.unit.cli.cli_fakes import NAMESPACE
from tests.unit.client.conftest import ClusterApi
from tests.unit.client.packing import travelling


def make(name: str | None = "digits", function: Any = travelling.train, **arguments: Any) -> Experiment:
    return Experiment.from_function(
        function,
        name=name,
        metric="area",
        mode="max",
        parameters={"radius": {"float": {"min": 0, "max": 1}}},
        image="example/train:1",
        max_trials=4,
        **arguments,
    )


def config_map_of(made: Experiment) -> Manifest:
    config_map = made.config_map
    assert config_map is not None
    return config_map


def list_config_maps(api: ClusterApi) -> list[Manifest]:
    return [item for path, item in api.objects.items() if "/configmaps/" in path]


def test_container_runs_the_function_from_its_config_map() -> None:
    made = make()
    pod = made.manifest["spec"]["trialTemplate"]["spec"]
    [container] = pod["containers"]
    [mount] = container["volumeMounts"]
    [volume] = pod["volumes"]
    assert container["command"][-1].startswith(f"{mount['mountPath']}/")
    assert mount["name"] == volume["name"]
    assert volume["configMap"]["name"] == config_map_of(made)["metadata"]["name"]
    assert config_map_of(made)["immutable"] is True


def test_further_fields_of_the_pod_stay(api: ClusterApi) -> None:
    pod = {"nodeSelector": {"gpu": "a100"}, "volumes": [{"name": "data", "emptyDir": {}}]}
    made = make(spec={"trialTemplate": {"spec": pod}}, env={"A": "b"}).manifest["spec"]["trialTemplate"]["spec"]
    assert made["nodeSelector"] == {"gpu": "a100"}
    assert [volume["name"] for volume in made["volumes"]] == ["data", "function"]
    assert made["containers"][0]["env"] == [{"name": "A", "value": "b"}]


def test_each_experiment_has_a_config_map_of_its_own_and_a_name_that_its_function_gives() -> None:
    first, second = make(None), make(None)
    assert first.name.startswith("train-")
    assert first.name != second.name
    assert config_map_of(make())["metadata"]["name"] != config_map_of(make())["metadata"]["name"]
    assert make_experiment_name("_Train_" + "x" * 60, "abc") == f"train-{'x' * 42}-abc"


def test_created_config_map_belongs_to_the_experiment(api: ClusterApi, client: Client) -> None:
    client.create(make())
    [config_map] = list_config_maps(api)
    uid = api.objects[paths.experiment(NAMESPACE, "digits")]["metadata"]["uid"]
    [(path, change)] = api.patched
    assert path == paths.config_map(NAMESPACE, config_map["metadata"]["name"])
    [owner] = change["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Experiment", "digits", uid)


def test_refused_experiment_leaves_no_config_map(api: ClusterApi, client: Client) -> None:
    client.create(make())
    with pytest.raises(AlreadyExists, match="choose another name"):
        client.create(make())
    assert len(list_config_maps(api)) == 1


def test_config_map_stays_where_the_experiment_may_have_been_created(
    api: ClusterApi, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = api.create

    def lose_answer(path: str, item: Manifest) -> Manifest:
        made = create(path, item)
        if "experiments" in path:
            raise Unanswered("no answer")
        return made

    monkeypatch.setattr(api, "create", lose_answer)
    with pytest.raises(ConnectionFailed):
        client.create(make())
    assert len(list_config_maps(api)) == 1


def test_yaml_holds_both_and_makes_the_same_experiment_again(api: ClusterApi, client: Client) -> None:
    made = make()
    config_map, experiment = yaml.safe_load_all(made.to_yaml())
    again = Experiment.from_yaml(made.to_yaml())
    assert (again.config_map, again.manifest) == (made.config_map, made.manifest)
    client.create(again)
    assert len(list_config_maps(api)) == 1
    with pytest.raises(NotPossible, match=f"there is a ConfigMap {config_map['metadata']['name']} .* already"):
        client.create(made)
    assert (config_map["kind"], experiment["kind"]) == ("ConfigMap", "Experiment")
    [volume] = experiment["spec"]["trialTemplate"]["spec"]["volumes"]
    assert volume["configMap"]["name"] == config_map["metadata"]["name"]


def test_pod_without_the_training_container_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="has no container 'trial' that the function could run in"):
        make(spec={"trialTemplate": {"spec": {"containers": [{"name": "main", "image": "i"}]}}})


def test_function_that_can_not_travel_makes_no_experiment() -> None:
    with pytest.raises(PackingError, match="FACTOR"):
        make(function=travelling.train_with_constant)
