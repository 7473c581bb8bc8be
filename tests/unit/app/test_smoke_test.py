"""What `helm test` runs, on a cluster of dictionaries; e2e/tests/disruptions/test_helm_release.py has a real one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from podtune.api.pods.pod_template import AGENT_UID
from podtune.app.smoke_test import SMOKE_PROGRAM, SmokeTest, SmokeTestFailed, run_smoke_test
from podtune.cli import main as cli
from podtune.kube import paths
from podtune.kube.manifests import Manifest
from tests.unit.cli.cli_fakes import FakeApi

OPERATOR = Path(__file__).parents[3] / "operator"
TEST = SmokeTest("podtune-test", "tuning", "podtune-agent:1", "Always", ("registry",))
COMPLETE = {
    "state": "Complete",
    "conditions": [{"type": "Complete", "status": "True", "message": "2 of 2"}],
    "trials": {"terminated": 2},
    "best": {"trial": "podtune-test-2", "value": 0.9},
}
FAILED = {"state": "Failed", "conditions": [{"type": "Failed", "status": "True", "message": "both failed"}]}


class Cluster(FakeApi):
    """Its operator writes a status after a while; its clock goes as far as somebody sleeps."""

    def __init__(self, status: Manifest, after: float = 3.0) -> None:
        super().__init__()
        self.now = 0.0
        self._written, self._after = status, after

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def get(self, path: str, params: Mapping[str, str] | None = None) -> Manifest:
        found = super().get(path, params)
        return {**found, "status": self._written} if self.now >= self._after else found

    def run(self, say: Callable[[str], None] = lambda text: None) -> None:
        run_smoke_test(TEST, self, 20.0, say=say, clock=lambda: self.now, sleep=self.sleep)

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.objects.values()]


def test_an_experiment_that_completes_is_told_of_and_deleted() -> None:
    said: list[str] = []
    cluster = Cluster(COMPLETE)
    cluster.run(said.append)
    assert said == ["created Experiment tuning/podtune-test", "Complete: ", "best: podtune-test-2 with 0.9"]
    assert cluster.names == []


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (FAILED, "Failed=True: both failed"),
        ({"state": "Stalled", "conditions": [{"type": "Stalled", "status": "True", "message": "PodRefused"}]}, "PodR"),
        ({}, "is one up that serves namespace tuning?"),
        ({**COMPLETE, "trials": {"terminated": 1}}, "without its best trial"),
    ],
)
def test_one_that_does_not_succeed_stays_and_says_what_is_known(status: Manifest, said: str) -> None:
    cluster = Cluster(status)
    cluster.objects[paths.trial("tuning", "podtune-test-1")] = {
        "metadata": {"name": "podtune-test-1"},
        "status": {"state": "ERROR", "reason": "PodFailed", "message": "no such image"},
    }
    with pytest.raises(SmokeTestFailed, match="no such image") as error:
        cluster.run()
    assert said in str(error.value)
    assert TEST.name in cluster.names


def test_what_an_earlier_test_has_left_is_deleted_first() -> None:
    cluster = Cluster(COMPLETE)
    former = cluster.create(paths.experiments("tuning"), TEST.manifest)
    cluster.run()
    assert len(cluster.deleted) == 2
    assert former["metadata"]["uid"]


def test_its_experiment_is_one_that_api_server_and_operator_take(tmp_path: Path) -> None:
    manifest = TEST.manifest
    file = tmp_path / "experiment.json"
    file.write_text(json.dumps(manifest))
    assert cli.main(["validate", str(file)]) == 0
    pod: dict[str, Any] = manifest["spec"]["trialTemplate"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["containers"][0]["imagePullPolicy"] == "Always"
    assert pod["securityContext"]["runAsUser"] != AGENT_UID
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True


def test_its_program_reports_three_results(tmp_path: Path) -> None:
    environment = {"PODTUNE_PARAM_x": "0.3", "PYTHONPATH": str(OPERATOR), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-c", SMOKE_PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split("\n") == ["value 1", "value 1", "value 1", ""]
