"""`podtune create`: the Experiment of a file, under the name that it is to have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from podtune.cli import main as cli
from podtune.cli.client import api_client
from podtune.cli.client.api_client import Change
from podtune.cli.errors import ExitStatus
from podtune.kube import paths
from tests.component.api.wrong_manifests import GOOD
from tests.unit.cli.cli_fakes import NAMESPACE, FakeApi, experiment


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (api, namespace or NAMESPACE))
    return api


@pytest.mark.parametrize(
    ("options", "name"),
    [([], "digits"), (["--name", "other"], "other"), (["--generate-name", "run-"], "run-x7k2p")],
)
def test_it_has_the_name_that_is_asked_for(
    options: list[str], name: str, api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["create", str(GOOD), *options]) == ExitStatus.DONE
    assert capsys.readouterr().out.startswith(f"experiment {name} is created")
    assert api.get(paths.experiment(NAMESPACE, name))["spec"]["search"]["maxTrials"] == 24


def test_programs_get_the_object(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["create", str(GOOD), "-o", "json"]) == ExitStatus.DONE
    assert json.loads(capsys.readouterr().out)["metadata"]["uid"]
    assert cli.main(["create", str(GOOD), "--generate-name", "again-", "-o", "name"]) == ExitStatus.DONE
    assert capsys.readouterr().out.startswith("experiment.podtune.dev/again-")


def test_nothing_is_created_of_a_wrong_manifest(
    api: FakeApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(GOOD.read_text().replace("mode: max", "mode: best"))
    assert cli.main(["create", str(file)]) == ExitStatus.FAILED
    assert f"{file}:5: spec.objective.mode: 'best' is not one of the choices" in capsys.readouterr().err
    assert cli.main(["create", str(GOOD), "--name", "Digits"]) == ExitStatus.FAILED
    assert "metadata.name: 'Digits' is not a valid Kubernetes name" in capsys.readouterr().err
    assert api.objects == {}


def test_a_name_that_is_taken_is_refused(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.add_experiment(experiment("digits"))
    assert cli.main(["create", str(GOOD)]) == ExitStatus.FAILED
    assert "choose another --name" in capsys.readouterr().err


def test_other_resources_of_the_file_are_named(
    api: FakeApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(f"{GOOD.read_text()}---\nkind: Secret\napiVersion: v1\nmetadata: {{name: podtune-s3}}\n")
    assert cli.main(["create", str(file)]) == ExitStatus.DONE
    assert "1 other resource is not created; use `kubectl apply`" in capsys.readouterr().err


@pytest.mark.parametrize(("type_", "code"), [("Complete", ExitStatus.DONE), ("Failed", ExitStatus.FAILED)])
def test_it_waits_for_the_end_if_asked_to(
    type_: str, code: int, api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = experiment("digits", conditions=[{"type": type_, "status": "True", "message": "it has ended"}])
    api.scripts[paths.experiments(NAMESPACE)] = [Change("RELISTED", {}), Change("ADDED", ended)]
    assert cli.main(["create", str(GOOD), "--wait"]) == code
    assert "it has ended" in "".join(capsys.readouterr())
