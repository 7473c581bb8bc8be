"""Scripts that report in different ways, run for a moment."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from podtune.api.document_checks import check_document
from podtune.api.pods.template_policy import DEFAULT_POLICY
from podtune.local.detection import detection
from podtune.local.detection.detection import DetectionReport, detect_results

HERE = Path(__file__).resolve().parent
ROOT = Path.cwd()
PROGRAMS = Path("e2e/programs/reporting").resolve()
MLFLOW = HERE / "mlflow_like.py"
TRAINER = """
import os
from tests.unit.agent.endpoint.trainer_callback import TrainerCallback
callback = TrainerCallback(os.environ, max_steps=20)
callback.begin()
for step in (10, 20):
    callback.log(loss=0.5, eval_loss=3 / step, eval_accuracy=step / 30, eval_runtime=step)
    callback.step(step, step / 10)
callback.end()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary directories are made; none may be left."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def detect(*command: str | Path, seconds: float = 60, early: bool = True, wanted: str = "") -> DetectionReport:
    return detect_results(
        [str(word) for word in command],
        environ={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'operator'}"},
        seconds=seconds,
        may_end_early=early,
        wanted=wanted,
        echo=lambda data: None,
    )


def shell(text: str, **options: Any) -> DetectionReport:
    return detect("sh", "-c", text, **options)


def test_each_way_that_works_is_found_and_the_best_comes_first(temporary: Path) -> None:
    report = detect(sys.executable, MLFLOW)
    (source,) = report.sources
    assert source.path == "results.mlflow"
    assert [metric.name for metric in source.list_metrics()] == ["val_accuracy", "step", "loss"]
    assert next((metric.count, metric.first, metric.last) for metric in source.list_metrics()) == (3, 0.25, 0.75)
    assert source.spec == {"objective": {"metric": "val_accuracy", "mode": "max"}, "results": {"mlflow": {}}}
    assert source.time_attribute == "step"
    assert (report.exit_code, report.interrupted) == (0, False)
    assert list(temporary.iterdir()) == [], "nothing is left"


def test_a_trainer_of_transformers_is_found() -> None:
    (source,) = detect(sys.executable, "-c", TRAINER).sources
    assert source.spec == {"objective": {"metric": "eval_accuracy", "mode": "max"}, "results": {"huggingFace": {}}}
    assert source.time_attribute == "current_step"
    assert [result["current_step"] for result in source.results] == [10, 20]


def test_what_is_printed_is_found_beside_what_is_sent() -> None:
    report = shell(f"{sys.executable} {MLFLOW}; for e in 1 2; do echo epoch=$e loss=0.$e; done")
    assert [source.path for source in report.sources] == ["results.mlflow", "results.stdout"]
    printed = report.sources[1]
    assert printed.results == [{"epoch": 1, "loss": 0.1}, {"epoch": 2, "loss": 0.2}]
    assert (printed.objective.mode, printed.time_attribute) == ("min", "epoch")


def test_what_reports_by_itself_needs_nothing() -> None:
    (source,) = shell("""for e in 1 2; do echo "{\\"loss\\": 0.$e}" >> $PODTUNE_DIR/results.jsonl; done""").sources
    assert (source.path, source.spec) == ("results.jsonl", {"objective": {"metric": "loss", "mode": "min"}})


def test_another_objective_can_be_asked_for() -> None:
    (source,) = detect(sys.executable, MLFLOW, wanted="loss").sources
    assert source.objective.metric == "loss"
    assert source.objective.mode == "min"
    assert detect(sys.executable, MLFLOW, wanted="f1").sources == []


def test_it_runs_no_longer_than_it_takes_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "_SOONEST", 0.1)
    report = detect(sys.executable, MLFLOW, "600")
    assert report.exit_code is None
    assert report.seconds < 60
    assert len(report.sources[0].results) == 3


def test_it_runs_as_long_as_it_was_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "_SOONEST", 0.1)
    report = shell("for e in 1 2 3 4; do echo epoch=$e loss=0.$e; done; sleep 600", seconds=1, early=False)
    assert report.seconds >= 1
    assert report.exit_code is None


def test_a_script_that_fails_says_why() -> None:
    report = shell("echo loading; echo no such file >&2; exit 3")
    assert (report.sources, report.exit_code, report.last_line) == ([], 3, "no such file")


def test_proxies_do_not_stand_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert detect(sys.executable, MLFLOW).sources


@pytest.mark.parametrize("script", [f"{sys.executable} {MLFLOW}", "for e in 1 2; do echo epoch=$e loss=0.$e; done"])
def test_what_is_proposed_is_taken_in_a_manifest(script: str) -> None:
    source = shell(script).sources[0]
    container = {"name": "trial", "image": "registry.example/train:1"}
    manifest = {
        "apiVersion": "podtune.dev/v1alpha1",
        "kind": "Experiment",
        "metadata": {"name": "digits"},
        "spec": {
            "parameters": [{"name": "lr", "float": {"min": 0.1, "max": 1}}],
            "search": {"maxTrials": 4},
            "scheduler": {"asha": {"timeAttribute": source.time_attribute, "maxTime": 9}},
            "trialTemplate": {"spec": {"containers": [container]}},
            **source.spec,
        },
    }
    assert check_document(manifest, DEFAULT_POLICY, {}) == []


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="only here systems tell of processes' ports")
def test_metrics_are_found_at_whichever_port_they_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "_LOOK", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    report = shell(f"PORT={port} BASE=1 {sys.executable} {PROGRAMS / 'scraped.py'}")
    (source,) = report.sources
    assert source.spec["results"] == {"scrape": {"port": port, "timeAttribute": "epoch"}}
    assert source.objective.metric == "value/split/val"
    assert [result["epoch"] for result in source.results] == [1, 2, 3]


@pytest.mark.parametrize("directory", ["", "WANDB_DIR=$PWD "], ids=["as it is told", "as it likes"])
def test_runs_of_weights_and_biases_are_found_offline(
    directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wandb" / "offline-run-from-before").mkdir(parents=True)
    before = tmp_path / "wandb" / "offline-run-from-before" / "run-old.wandb"
    before.write_bytes(b":W&B")
    os.utime(before, (1e9, 1e9))
    report = shell(f"{directory}{sys.executable} {ROOT / 'e2e/unchanged/scripts/wandb_offline_file.py'} 0.5")
    (source,) = report.sources
    assert source.spec == {"objective": {"metric": "val/loss", "mode": "min"}, "results": {"wandb": {}}}
    assert source.time_attribute == "epoch"
    assert [result["val/loss"] for result in source.results] == [0.5, 0.25, 0.125, 0.0625]


@pytest.mark.parametrize(
    ("directory", "field"),
    [
        ("tensorboard", {}),
        ("runs/Nov26_13-00_host", {"directory": "runs/*"}),
        ("$PODTUNE_DIR/logs", {"directory": "logs"}),
        ("../elsewhere", {}),
    ],
)
def test_event_files_are_found_where_they_are_written(
    directory: str, field: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    script = f"mkdir -p {directory} && BASE=1 {sys.executable} {PROGRAMS / 'event_files.py'} {directory}"
    words = ["sh", "-c", script, *([directory] if directory.startswith("..") else [])]
    (source,) = detect(*words).sources
    assert source.spec["results"] == {"tensorBoard": field}
    assert [result["step"] for result in source.results] == [0, 1, 2]
    assert sorted(path.name for path in here.rglob("results.jsonl")) == [], "nothing is written there"
