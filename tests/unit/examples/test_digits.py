import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from examples.digits import digits
from podtune.api.resources.experiment import ExperimentSpec

EXAMPLE = Path(digits.__file__).parent


@pytest.fixture(scope="module")
def data() -> digits.Data:
    whole = digits.load_data()
    return digits.Data(
        whole.train_images[:600], whole.train_digits[:600], whole.validation_images, whole.validation_digits
    )


def run(directory: Path | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PODTUNE_")}
    environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    if directory is not None:
        environ["PODTUNE_DIR"] = str(directory)
    command = [sys.executable, str(EXAMPLE / "digits.py"), "--lr=0.005", "--hidden=16", *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)


def results(directory: Path) -> list[dict[str, Any]]:
    lines = map(json.loads, (directory / "results.jsonl").read_text().splitlines())
    return [line for line in lines if "epoch" in line]


@pytest.mark.parametrize("activation", digits.ACTIVATIONS)
def test_a_restored_model_goes_on_exactly_where_it_was(data: digits.Data, tmp_path: Path, activation: str) -> None:
    whole = digits.Model(hidden=16, activation=activation, rate=0.01)
    curve = list(digits.train(whole, data, epochs=5))
    before = digits.Model(hidden=16, activation=activation, rate=0.01)
    list(digits.train(before, data, epochs=2))
    before.save(tmp_path)
    after = digits.Model(hidden=16, activation=activation, rate=0.01, seed=99)
    after.load(tmp_path)
    assert list(digits.train(after, data, epochs=5)) == curve[2:]
    assert all(np.array_equal(after.weights[name], whole.weights[name]) for name in whole.weights)


def test_a_good_configuration_recognises_the_digits() -> None:
    data = digits.load_data()
    model = digits.Model(hidden=128, activation="tanh", rate=0.005)
    assert max(result["accuracy"] for result in digits.train(model, data, epochs=15)) >= 0.97


def test_a_crashed_program_continues_the_same_curve(tmp_path: Path) -> None:
    whole, crashing = tmp_path / "whole", tmp_path / "crashing"
    whole.mkdir()
    crashing.mkdir()
    assert run(whole, "--epochs=3").returncode == 0
    crashed = run(crashing, "--epochs=3", "--crash-at-epoch=2")
    assert crashed.returncode == 1
    last = results(crashing)[-1]
    (crashing / "checkpoints" / last["_checkpoint"]).rename(crashing / "restored")
    (crashing / "restore.json").write_text('{"step": 1, "uri": "s3://b/1", "iteration": 1}')
    again = run(crashing, "--epochs=3", "--crash-at-epoch=2")
    assert again.returncode == 0, again.stderr
    curve = [{**result, "_checkpoint": ""} for result in results(whole)]
    assert [{**result, "_checkpoint": ""} for result in results(crashing)] == curve
    assert [result["epoch"] for result in curve] == [1, 2, 3]


def test_it_stops_when_it_is_asked_to(tmp_path: Path) -> None:
    (tmp_path / "control.json").write_text('{"shouldCheckpoint": false, "shouldStop": true}')
    assert run(tmp_path, "--epochs=3").returncode == 0
    assert [result["epoch"] for result in results(tmp_path)] == [1]


@pytest.mark.skipif(Path("/podtune").exists(), reason="this is a trial's pod")
def test_it_runs_alone(tmp_path: Path) -> None:
    output = run(None, "--epochs=1").stdout
    assert output.startswith("epoch 1  accuracy 0.")


def test_the_manifest_is_accepted_and_passes_on_its_parameters() -> None:
    spec = ExperimentSpec.model_validate(yaml.safe_load((EXAMPLE / "experiment.yaml").read_text())["spec"])
    command = " ".join(spec.trial_template.spec["containers"][0]["command"])
    assert all(f"$(PODTUNE_PARAM_{parameter.name})" in command for parameter in spec.parameters)
    assert spec.scheduler.asha.max_time == digits.EPOCHS
