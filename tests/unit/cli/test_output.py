"""`-o`: which commands have it, and what those that act on something print of it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable

import pytest
import yaml

from podtune import __version__
from podtune.cli import main as cli
from podtune.cli.client import api_client
from podtune.cli.client.api_client import Change
from podtune.cli.errors import ExitStatus
from podtune.kube import paths
from podtune.kube.manifests import Manifest
from tests.component.api.wrong_manifests import GOOD
from tests.unit.cli.cli_fakes import NAMESPACE, RUNNING, TRAINING, FakeApi, experiment, trial
from tests.unit.cli.test_command_table import COMMANDS

TRIAL, EXPERIMENT = "trial.podtune.dev/digits-7", "experiment.podtune.dev/digits"
WITHOUT = {"watch", "dashboard", "logs", "run", "completion", "checkpoints download", "disable"}
"""They follow something, write files, or leave nothing that they could print."""
TO_A_FILE = {"export"}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (api, namespace or NAMESPACE))
    item = experiment("digits", **RUNNING)
    item["spec"]["checkpoints"] = {"store": {"bucket": "b"}}
    item["metadata"] |= {"uid": "u", "resourceVersion": "7", "finalizers": ["podtune.dev/checkpoints"]}
    item["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    api.add_experiment(item)
    api.add_trial(trial(7, **TRAINING))
    ended = RUNNING | {"conditions": [{"type": "Complete", "status": "True", "message": "it is complete"}]}
    api.scripts[paths.experiments(NAMESPACE)] = [Change("RELISTED", {}), Change("ADDED", experiment(**ended))]
    return api


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    code = cli.main(list(words))
    written = capsys.readouterr()
    assert code == ExitStatus.DONE, written.err
    return written.out


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("pause digits-7", TRIAL),
        ("pause digits", EXPERIMENT),
        ("resume digits-7", TRIAL),
        ("resume digits", EXPERIMENT),
        ("stop digits-7", TRIAL),
        ("stop digits", EXPERIMENT),
        ("retry digits-7", TRIAL),
        ("checkpoint digits-7", TRIAL),
        ("release digits", EXPERIMENT),
        ("wait digits", EXPERIMENT),
        ("why digits-7", TRIAL),
    ],
)
def test_programs_get_what_a_command_has_acted_on(
    line: str, name: str, api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, *line.split(), "-o", "name") == f"{name}\n"
    read: dict[str, Callable[[str], Manifest]] = {"json": json.loads, "yaml": yaml.safe_load}
    for form, parse in read.items():
        item = parse(run(capsys, *line.split(), "-o", form))
        if not line.startswith("why"):
            assert item["metadata"]["name"] == name.partition("/")[2]
            assert "managedFields" not in item["metadata"]
            assert item["status"]["state"]


def test_what_is_said_of_the_wait_does_not_spoil_what_create_prints(
    api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    made = json.loads(run(capsys, "create", str(GOOD), "--name", "other", "--wait", "-o", "json"))
    assert made["metadata"]["name"] == "other"


def test_programs_get_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "version") == f"{__version__}\n"
    assert json.loads(run(capsys, "version", "-o", "json")) == {"version": __version__}
    assert yaml.safe_load(run(capsys, "version", "-o", "yaml")) == {"version": __version__}


def test_a_form_that_a_command_lacks_is_refused_with_those_that_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["pause", "digits", "-o", "wide"]) == ExitStatus.USAGE
    said = capsys.readouterr().err
    assert said.startswith("error: Invalid value for '--output' / '-o': 'wide' is not one of 'json', 'yaml', 'name'; ")


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - WITHOUT - TO_A_FILE))
def test_each_command_has_forms_for_programs(name: str) -> None:
    parameters = inspect.signature(COMMANDS[name].load()).parameters
    assert "output" in parameters, f"{name} has no -o: give it one, or say above why it can't have any"
