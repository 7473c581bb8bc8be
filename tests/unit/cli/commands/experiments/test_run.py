"""`podtune run` on the command line: what it refuses before anything starts, and what it says at the end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from podtune.cli.commands.experiments import live_dashboard, run
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
    assert "everything is in podtune-runs/tiny; `podtune dashboard podtune-runs/tiny` shows it" in printed.err
    assert main(["run", "tiny.yaml"]) == 1
    assert "go on with it by --resume" in capsys.readouterr().err
    assert main(["run", "tiny.yaml", "--overwrite", "--", "sh", "-c", report.replace("0.5", "0.75")]) == 0
    assert "score 0.75 by tiny-0" in capsys.readouterr().out


@pytest.mark.parametrize("attended", [True, False])
def test_in_a_terminal_the_dashboard_stays_until_somebody_has_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], attended: bool
) -> None:
    happened: list[str] = []

    @contextmanager
    def serve(path: Path, port: int) -> Iterator[str]:
        assert (path, port) == (tmp_path / "podtune-runs" / "tiny", 8480)
        yield "http://127.0.0.1:8480/"
        happened.append("dashboard gone")

    def press_enter(prompt: str) -> str:
        happened.append(prompt)
        return ""

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(live_dashboard, "show_run", serve)
    monkeypatch.setattr(run, "_is_attended", lambda: attended)
    monkeypatch.setattr("builtins.input", press_enter)
    Path("tiny.yaml").write_text(json.dumps(make_manifest(trials=1)))
    assert main(["run", "tiny.yaml", "--dashboard", "8480"]) == 0
    stays = ["the dashboard stays at http://127.0.0.1:8480/ until you press Enter "] if attended else []
    assert happened == [*stays, "dashboard gone"]
    assert "the dashboard is at http://127.0.0.1:8480/" in capsys.readouterr().err
