"""`podtune release`, and what `podtune best` says of an export."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.cli import main as cli
from podtune.cli.client import api_client
from podtune.kube import paths
from tests.unit.cli.cli_fakes import NAMESPACE, RUNNING, FakeApi, experiment

PATH = paths.experiment(NAMESPACE, "digits")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    fake = FakeApi()
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (fake, namespace or NAMESPACE))
    return fake


def held(**metadata: Any) -> dict[str, Any]:
    body = experiment("digits", **RUNNING)
    finalizers = ["somebody.example/else", "podtune.dev/checkpoints"]
    body["metadata"] |= {"uid": "u-1", "resourceVersion": "7", "finalizers": finalizers, **metadata}
    return body


def test_only_our_finalizer_is_taken_off_and_only_from_what_was_read(
    api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.add_experiment(held(deletionTimestamp="2026-01-01T12:00:00Z"))
    assert cli.main(["release", "digits"]) == 0
    assert api.patched == [(PATH, {"metadata": {"finalizers": ["somebody.example/else"], "resourceVersion": "7"}})]
    assert capsys.readouterr().out == ("experiment digits goes; what it has stored stays in the bucket, below u-1/\n")


def test_one_that_is_not_held_is_left_as_it_is(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.add_experiment(held(finalizers=[]))
    assert cli.main(["release", "digits"]) == 0
    assert api.patched == []
    assert "is not held" in capsys.readouterr().out


def test_one_that_is_not_there_is_said_to_be_missing(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["release", "digits"]) == 1
    assert "no Experiment 'digits' in namespace 'vision'" in capsys.readouterr().err


def test_best_says_where_the_export_is(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    best = {**RUNNING["best"], "exported": "s3://models/digits/best"}
    api.add_experiment(experiment("digits", **{**RUNNING, "best": best}))
    assert cli.main(["best", "digits"]) == 0
    assert "exported:   s3://models/digits/best" in capsys.readouterr().out.splitlines()
