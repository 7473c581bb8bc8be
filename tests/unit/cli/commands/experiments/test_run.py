"""`podtune run` on the command line: what it refuses before anything starts, and what it says at the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from podtune.cli.main import main
from tests.unit.local.experiments import make_manifest


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name the manifest of an Experiment, or a run to go on with by --resume"),
        (("--resume", "nowhere"), "run.json: No such file or directory; name the directory of a run"),
        (("tiny.yaml", "--resume", "nowhere"), "leave out all else but --gpus"),
        (("tiny.yaml", "--workdir", "nowhere"), "--workdir nowhere: it is no directory"),
        (("gang.yaml",), "spec.trialTemplate.replicas: 2 pods need a cluster"),
        (("wrong.yaml",), "spec.search.maxTrials"),
    ],
)
def test_what_cant_be_run_is_said_before_anything_starts(
    words: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    gang, wrong = make_manifest(), make_manifest()
    gang["spec"]["trialTemplate"]["replicas"] = 2
    del wrong["spec"]["search"]["maxTrials"]
    for name, manifest in (("tiny", make_manifest()), ("gang", gang), ("wrong", wrong)):
        Path(f"{name}.yaml").write_text(json.dumps(manifest))
    assert main(["run", *words]) == 1
    assert said in capsys.readouterr().err
    assert not Path("podtune-runs").exists()


def test_the_best_configuration_and_the_directory_are_named_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(json.dumps(make_manifest(trials=1)))
    report = 'echo "{\\"score\\": 0.5}" >> "$PODTUNE_DIR/results.jsonl"'
    assert main(["run", "tiny.yaml", "--", "sh", "-c", report]) == 0
    printed = capsys.readouterr()
    assert "score 0.5 by tiny-0" in printed.out
    assert f"everything is in {tmp_path}/podtune-runs/tiny" in printed.err
    assert main(["run", "tiny.yaml"]) == 1
    assert "go on with it by --resume" in capsys.readouterr().err
    assert main(["run", "tiny.yaml", "--overwrite", "--", "sh", "-c", report.replace("0.5", "0.75")]) == 0
    assert "score 0.75 by tiny-0" in capsys.readouterr().out
