"""How-to "Use Podtune from Python": its examples are typed, and do what they say."""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import podtune.client
from docs.fenced_blocks import DOCS, find_blocks
from podtune.cli.client import api_client, store_access
from podtune.cli.client.api_client import Change
from podtune.kube import paths
from podtune.kube.manifests import Manifest
from podtune.protocol.checkpoint import CheckpointRef
from tests.unit.cli.cli_fakes import NAMESPACE, RUNNING, FakeApi, experiment, trial
from tests.unit.cli.commands.test_checkpoints import FILES, Bucket, contents
from tests.unit.cli.commands.test_results import store_results
from tests.unit.client.conftest import MANIFEST, condition

EXAMPLES = Path(__file__).parent / "use_python_examples.py"
HEADER = '"""The examples of docs/how-to/use-python.md, one after the other, so that mypy checks them."""\n\n'
COMPLETE = {**RUNNING, "state": "Complete", "conditions": [condition("Complete", "24 trials done")]}
POD = paths.pod(NAMESPACE, "digits-7-2")


def test_the_examples_that_are_checked_are_those_of_the_page() -> None:
    blocks = [block.text for block in find_blocks(DOCS / "how-to" / "use-python.md") if block.language == "python"]
    assert EXAMPLES.read_text(encoding="utf-8") == HEADER + "\n".join(blocks)


def test_type_checkers_read_the_types_of_the_package() -> None:
    assert (Path(podtune.client.__file__).parents[1] / "py.typed").exists()


def test_the_examples_do_what_the_page_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = Bucket(tmp_path / "shared")
    api = PagesCluster([bucket.upload(step) for step in (8, 9)])
    store_results(bucket.store, "digits-7", {1: {"accuracy": 0.25}, 2: {"accuracy": 0.75}}, start=100)
    monkeypatch.setattr(store_access, "make_store", bucket.open)
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (api, namespace or NAMESPACE))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiment.yaml").write_text(MANIFEST)
    runpy.run_path(str(EXAMPLES))
    printed = capsys.readouterr().out
    for text in ("0.9722", "name: digits-wide", "digits-7    0.75", "epoch 1", "trial digits-7 continues with"):
        assert text in printed
    assert contents(tmp_path / "best-model") == contents(tmp_path / "latest-of-7") == FILES


class PagesCluster(FakeApi):
    """A cluster in which an experiment runs as soon as it is created, and who follows it sees its end."""

    def __init__(self, kept: list[CheckpointRef]) -> None:
        super().__init__()
        entries = [{"step": ref.step, "uri": ref.uri, "digest": ref.digest, "metric": f"0.{ref.step}"} for ref in kept]
        pod = {"name": "digits-7-2", "node": "n2"}
        self._trial = trial(7, state="PAUSED", pod=pod, checkpoints=entries, checkpoint=entries[-1])
        self.objects[POD] = {"spec": {"containers": [{"name": "trial"}]}}
        self.logs[paths.log_of(POD)] = ["epoch 1"]

    def create(self, path: str, item: Mapping[str, Any], params: Mapping[str, str] | None = None) -> Manifest:
        made = super().create(path, item, params)
        best = {**RUNNING["best"], "trial": "digits-7"}
        running = experiment(**{**RUNNING, "best": best})
        running["metadata"]["uid"] = "uid"
        running["spec"]["checkpoints"] = {"store": {"bucket": "models", "prefix": "demo", "endpoint": "http://s3:9000"}}
        self.add_experiment(running)
        self.add_trial(self._trial)
        self.scripts[path] = [
            Change("RELISTED", {}),
            Change("ADDED", running),
            Change("SYNCED", {}),
            Change("MODIFIED", experiment(**COMPLETE)),
        ]
        self.scripts[paths.trials(NAMESPACE)] = [Change("RELISTED", {}), Change("SYNCED", {})]
        return made
