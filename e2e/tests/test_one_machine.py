"""The digits example on the cluster, and by `podtune run` on one machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from e2e.experiments import EXAMPLES_IMAGE
from e2e.install import ROOT
from e2e.kubernetes import Kubernetes, Object
from e2e.trials import EXPERIMENTS

DIGITS = ROOT / "examples" / "digits"
LONGEST = 300


def _make_digits() -> Object:
    """The example with one trial at a time, and without what needs a bucket; most of its trials are modelled."""
    manifest: Object = yaml.safe_load((DIGITS / "experiment.yaml").read_text())
    del manifest["spec"]["checkpoints"]
    manifest["spec"]["maxConcurrentTrials"] = 1
    manifest["spec"]["search"] |= {"maxTrials": 8, "tpe": {"startupTrials": 2}}
    return manifest


def _list_proposals(printed: str) -> list[Object]:
    trials = sorted(json.loads(printed)["items"], key=lambda trial: int(trial["index"]))
    assert {trial["state"] for trial in trials} == {"TERMINATED"}
    return [trial["parameters"] for trial in trials]


@pytest.mark.long
def test_one_trial_at_a_time_is_proposed_the_same_on_one_machine(namespace: Kubernetes, tmp_path: Path) -> None:
    manifest = _make_digits()
    assert manifest["spec"]["trialTemplate"]["spec"]["containers"][0]["image"] == EXAMPLES_IMAGE
    namespace.apply(manifest)
    namespace.wait_for_condition(EXPERIMENTS, "digits", "Complete", deadline=LONGEST)
    on_cluster = _list_proposals(namespace.podtune("trials", "digits", "-o", "json"))

    file, run = tmp_path / "digits.yaml", tmp_path / "run"
    file.write_text(yaml.safe_dump(manifest))
    podtune = [sys.executable, "-m", "podtune.cli.main"]
    programs = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}  # python3 is this one
    started = [*podtune, "run", str(file), "--workdir", str(DIGITS), "--directory", str(run)]
    subprocess.run(started, env=programs, check=True, timeout=LONGEST)
    printed = subprocess.run([*podtune, "trials", str(run), "-o", "json"], check=True, stdout=subprocess.PIPE).stdout

    assert len(on_cluster) == 8
    assert _list_proposals(printed.decode()) == on_cluster
