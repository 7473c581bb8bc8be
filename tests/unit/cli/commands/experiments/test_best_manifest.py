"""`podtune best --export-manifest`: what trains with the best configuration."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from podtune.api.validation import find_problems
from podtune.cli import main as cli
from podtune.cli.client import api_client
from podtune.cli.errors import ExitStatus
from podtune.kube.manifests import Manifest
from tests.component.api.wrong_manifests import GOOD
from tests.unit.cli.cli_fakes import NAMESPACE, FakeApi

BEST = {
    "trial": "digits-4",
    "value": "0.97",
    "parameters": {"learning_rate": "0.004", "hidden_units": "144", "activation": "relu"},
}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (api, namespace or NAMESPACE))
    return api


def ended(**spec: Any) -> Manifest:
    item: Manifest = yaml.safe_load(GOOD.read_text())
    item["metadata"]["namespace"] = NAMESPACE
    item["spec"] |= spec
    item["status"] = {"state": "Complete", "best": BEST}
    return item


def export(capsys: pytest.CaptureFixture[str], *options: str, expect: int = 0) -> Any:
    assert cli.main(["best", "digits", "--export-manifest", *options]) == expect
    written = capsys.readouterr()
    return written.err if expect else yaml.safe_load(written.out)


def test_a_job_has_the_image_the_command_and_the_best_parameters(
    api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.add_experiment(ended())
    job = export(capsys)
    assert (job["kind"], job["metadata"]) == ("Job", {"name": "digits-best", "namespace": NAMESPACE})
    template = job["spec"]["template"]
    assert template["metadata"]["labels"] == {"activation": "relu"}
    (container,) = template["spec"]["containers"]
    assert container["image"] == "podtune-examples:dev"
    assert container["command"][2] == "--lr=$(PODTUNE_PARAM_learning_rate)"
    assert {entry["name"]: entry["value"] for entry in container["env"]} == {
        "PODTUNE_PARAM_learning_rate": "0.004",
        "PODTUNE_PARAM_hidden_units": "144",
        "PODTUNE_PARAM_activation": "relu",
        "PODTUNE_SEED": "7",
    }
    # A limit that is computed from parameters is the best trial's.
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 1, "memory": "2Gi", "cpu": "500m"}
    assert template["spec"]["restartPolicy"] == "Never"


def test_an_experiment_has_one_trial_with_the_best_parameters(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.add_experiment(ended(stop={"totalTime": "1h", "metrics": {"epoch": 27}, "experiment": [{"target": 0.99}]}))
    made = export(capsys, "--as", "experiment")
    assert find_problems(made) == []
    assert made["metadata"]["name"] == "digits-best"
    assert "status" not in made
    spec = made["spec"]
    assert spec["search"]["initial"] == [
        {"parameters": {"learning_rate": 0.004, "hidden_units": 144, "activation": "relu"}}
    ]
    assert spec["search"]["maxTrials"] == 1
    assert "scheduler" not in spec
    assert spec["stop"] == {"totalTime": "1h", "metrics": {"epoch": 27}}


def test_programs_get_json(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.add_experiment(ended())
    assert cli.main(["best", "digits", "--export-manifest", "-o", "json"]) == ExitStatus.DONE
    assert json.loads(capsys.readouterr().out)["kind"] == "Job"


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({}, ["--as", "pod"], "'pod' is neither job nor experiment"),
        ({"replicas": 2}, [], "gangs of pods"),
        ({"spec": None}, [], "the Experiment can't be used"),
    ],
)
def test_what_no_manifest_can_be_made_of_is_said(
    change: dict[str, Any], options: list[str], words: str, api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    item = ended()
    item["spec"]["trialTemplate"] |= change
    api.add_experiment(item)
    assert words in export(capsys, *options, expect=ExitStatus.FAILED)


def test_without_a_result_there_is_no_manifest(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    item = ended()
    del item["status"]["best"]
    api.add_experiment(item)
    export(capsys, expect=ExitStatus.FAILED)
