"""Experiments that are made without a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import pytest
import yaml

from podtune.client import Experiment, InvalidArgument, InvalidExperiment, NotCreated, PodtuneError
from tests.unit.client.conftest import MANIFEST

SPACE = {"learning_rate": {"float": {"min": 0.0001, "max": 0.1, "scale": "log"}}}


def build(**given: Any) -> Experiment:
    wanted: dict[str, Any] = {"metric": "accuracy", "mode": "max", "parameters": SPACE, "image": "example/digits:1"}
    return Experiment.build("digits", **{**wanted, "max_trials": 24, **given})


def test_a_file_the_yaml_itself_and_a_map_make_the_same_experiment(tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(f"{MANIFEST}---\nkind: Secret\n")
    found = [Experiment.from_yaml(file), Experiment.from_yaml(str(file)), Experiment.from_yaml(MANIFEST)]
    assert [experiment.manifest for experiment in found] == [yaml.safe_load(MANIFEST)] * 3
    assert [experiment.name for experiment in found] == ["digits"] * 3
    assert Experiment.from_yaml(found[0].to_yaml()).manifest == found[0].manifest


def test_what_a_test_changes_in_the_map_changes_no_experiment() -> None:
    manifest = yaml.safe_load(MANIFEST)
    experiment = Experiment.from_dict(manifest)
    manifest["spec"].clear()
    experiment.manifest["spec"].clear()
    assert experiment.manifest == yaml.safe_load(MANIFEST)


def test_arguments_make_the_manifest_that_a_person_would_write() -> None:
    made = build(
        parameters={**SPACE, "activation": ["relu", "tanh"], "layers": numpy.int64(3)},
        command=["python", "train.py"],
        env={"SEED": "7"},
        resources={"limits": {"nvidia.com/gpu": 1}},
        search={"algorithm": "tpe"},
        scheduler={"asha": {"maxTime": 27}},
        store={"bucket": "models"},
        max_concurrent_trials=4,
        namespace="vision",
        spec={"search": {"seed": 7}, "checkpoints": {"keep": {"count": 2}}},
    ).manifest
    assert made["metadata"] == {"name": "digits", "namespace": "vision"}
    container = {
        "name": "trial",
        "image": "example/digits:1",
        "command": ["python", "train.py"],
        "env": [{"name": "SEED", "value": "7"}],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    assert made["spec"] == {
        "objective": {"metric": "accuracy", "mode": "max"},
        "parameters": [
            {"name": "learning_rate", **SPACE["learning_rate"]},
            {"name": "activation", "choice": {"values": ["relu", "tanh"]}},
            {"name": "layers", "fixed": {"value": 3}},
        ],
        "search": {"algorithm": "tpe", "maxTrials": 24, "seed": 7},
        "scheduler": {"asha": {"maxTime": 27}},
        "checkpoints": {"store": {"bucket": "models"}, "keep": {"count": 2}},
        "maxConcurrentTrials": 4,
        "trialTemplate": {"spec": {"containers": [container]}},
    }


def test_all_mistakes_are_told_each_with_field_value_and_remedy() -> None:
    with pytest.raises(InvalidExperiment) as raised:
        build(mode="biggest", parameters={"rate": {"float": {"min": 2, "max": 1}}}, max_trials=-1)
    problems = dict(problem.split(": ", 1) for problem in raised.value.problems)
    assert set(problems) >= {"spec.objective.mode", "spec.search.maxTrials"}
    assert "'biggest' is not one of the choices" in problems["spec.objective.mode"]
    assert str(raised.value) == "\n".join(raised.value.problems)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"kind": "Job"}, "kind: 'Job' is not what is made here; write Experiment"),
        ({"apiVersion": None}, "apiVersion: None is not what is made here; write podtune.dev/v1alpha1"),
        ({"metadata": {}}, "metadata.name: is missing; give the experiment a name"),
        ({"metadata": "digits"}, "metadata.name: is missing; give the experiment a name"),
        ({"metadata": {"name": "Digits"}}, "metadata.name: 'Digits' is not a valid Kubernetes name"),
        ({"spec": None}, "spec: "),
    ],
)
def test_what_is_no_experiment_is_refused_by_field(change: Mapping[str, Any], told: str) -> None:
    with pytest.raises(InvalidExperiment) as raised:
        Experiment.from_dict({**yaml.safe_load(MANIFEST), **change})
    assert any(problem.startswith(told) for problem in raised.value.problems), raised.value


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    refused: list[tuple[Any, str]] = [
        (lambda: Experiment.from_yaml(tmp_path / "none.yaml"), "source: .*none.yaml: No such file"),
        (lambda: Experiment.from_yaml(""), "source: '' is neither a path nor YAML"),
        (lambda: Experiment.from_yaml(7), "source: 7 is neither"),  # type: ignore[arg-type]
        (lambda: Experiment.from_yaml("a: [\n"), "source: the given text: not valid YAML"),
        (lambda: Experiment.from_yaml("a: 1\n"), "source: the given text must contain one Experiment .* it has none"),
        (lambda: Experiment.from_yaml(f"{MANIFEST}---\n{MANIFEST}"), "it has 2 of them"),
        (lambda: Experiment.from_dict([]), r"manifest: \[\] is no map"),  # type: ignore[arg-type]
        (lambda: Experiment.from_dict({"spec": {1, 2}}), "manifest: .* is of type set, which a manifest can't hold"),
        (lambda: build(parameters=["rate"]), r"parameters: \['rate'\] is no map"),
        (lambda: build(command="python train.py"), "command: 'python train.py' is no list"),
        (lambda: build(spec="more"), "spec: 'more' is no map"),
        (lambda: build(search=["tpe"]), "search: .* is no map"),
    ]
    for make, told in refused:
        with pytest.raises(InvalidArgument, match=told):
            make()


def test_an_experiment_that_is_not_created_says_how_to_create_it() -> None:
    experiment = build()
    asked: list[Any] = [
        lambda: experiment.state,
        lambda: experiment.best,
        lambda: experiment.trials,
        lambda: experiment.trial(0),
        experiment.read,
        experiment.watch,
        experiment.wait,
        experiment.pause,
        experiment.resume,
        experiment.stop,
        experiment.retry,
    ]
    for ask in asked:
        with pytest.raises(NotCreated, match=r"experiment digits is not in a cluster yet: client\.create"):
            ask()
    assert repr(experiment) == "<Experiment 'digits', not created>"
    assert issubclass(NotCreated, PodtuneError)
