"""The agent beside a program that logs to Weights & Biases."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from podtune.agent.event_log import EventLog
from podtune.agent.metric_files import metric_file_reader
from podtune.agent.metric_files.file_kinds import WANDB_FILE_KIND
from podtune.agent.metric_files.metric_file_reader import MetricFileReader
from podtune.agent.results.result_reader import prepare_directory
from podtune.storage.directory import Directory
from tests.unit.agent.running_agent import StartAgent
from tests.unit.agent.stub_operator import StubOperator
from tests.unit.agent.wandb_files.wandb_writer import frame, make_row, make_run

RUN = "offline-run-20261126_130000-abc"


class WandbDirectory:
    """What a program logs, and the agent that reads it."""

    def __init__(self, path: Path) -> None:
        self.shared = path
        self.log = io.StringIO()
        self._time = 0.0
        path.mkdir(exist_ok=True)
        prepare_directory(Directory(path))
        self.restart()

    def restart(self) -> None:
        """Has another process of the agent read from now on."""
        log = EventLog(lambda: 1.0, stream=self.log)
        self.reader = MetricFileReader(WANDB_FILE_KIND, ("wandb", "*"), Directory(self.shared), "loss", log)

    def find_file(self, run: str = RUN) -> Path:
        return self.shared / "wandb" / run / f"run-{run[-3:]}.wandb"

    def write(self, data: bytes, run: str = RUN) -> None:
        """Writes the whole of a run's file."""
        self.find_file(run).parent.mkdir(parents=True, exist_ok=True)
        self.find_file(run).write_bytes(data)

    def add(self, values: Mapping[str, Any], step: int | None = None, run: str = RUN) -> None:
        """Logs a row."""
        self._time += 1
        before = self.find_file(run).read_bytes() if self.find_file(run).exists() else frame(make_run())
        self.write(frame(make_row({**values, "_timestamp": self._time}, step), begin=before), run)

    def look(self) -> list[dict[str, Any]]:
        """Has the agent look once; returns all results so far."""
        self.reader.look()
        lines = filter(None, (self.shared / "results.jsonl").read_text().splitlines())
        return [{name: value for name, value in json.loads(line).items() if name != "_readFrom"} for line in lines]

    def list_messages(self) -> list[tuple[str, str]]:
        lines = [json.loads(line) for line in self.log.getvalue().splitlines()]
        return [(line["event"], line["message"]) for line in lines]


@pytest.fixture
def runs(tmp_path: Path) -> WandbDirectory:
    return WandbDirectory(tmp_path / "shared")


def test_rows_become_results_as_they_are_written(runs: WandbDirectory) -> None:
    assert runs.look() == []
    runs.write(b"")
    assert runs.look() == [], "the file is there before anything is in it"
    runs.write(frame(make_run()))
    runs.add({"loss": 0.5, "epoch": 1}, 0)
    assert runs.look() == [{"loss": 0.5, "step": 0, "epoch": 1}]
    runs.add({"lr": 0.1}, 1)
    runs.add({"loss": 0.25, "epoch": 2}, 2)
    assert runs.look()[1:] == [{"loss": 0.25, "step": 2, "epoch": 2, "lr": 0.1}]
    assert len(runs.look()) == 2
    assert runs.list_messages() == []


def test_wherever_the_file_ends_for_now_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    whole = frame(make_run(), *(make_row({"loss": 1 / step, "lr": step}, step) for step in (1, 2, 3)))
    for length in range(0, len(whole), 3):
        runs = WandbDirectory(tmp_path / f"{length}")
        runs.write(whole[:length])
        runs.look()
        if length % 2:
            runs.restart()
        with runs.find_file().open("ab") as file:
            file.write(whole[length:])
        assert [(result["step"], result["lr"]) for result in runs.look()] == [(1, 1), (2, 2), (3, 3)], length
        assert runs.list_messages() == []


def test_runs_one_after_the_other_count_in_the_order_of_their_times(runs: WandbDirectory) -> None:
    later = "run-20261126_140000-xyz"  # online, it has another name
    for step in (0, 1):
        runs.add({"loss": 0.5 - step / 10}, step)
    runs.add({"loss": 0.1}, 0, later)
    (runs.shared / "wandb" / "latest-run").symlink_to(later)
    (runs.shared / "wandb" / "debug.log").write_text("no run\n")
    runs.find_file().with_suffix(".wandb.synced").touch()
    assert [(result["loss"], result["step"]) for result in runs.look()] == [(0.5, 0), (0.4, 1), (0.1, 0)]
    assert runs.list_messages() == []


def test_a_file_that_is_damaged_is_told_once_and_what_was_before_counts(runs: WandbDirectory) -> None:
    runs.add({"loss": 0.5}, 0)
    with runs.find_file().open("ab") as file:
        file.write(b"\x09" * 30)
    assert runs.look() == [{"loss": 0.5, "step": 0}]
    runs.add({"loss": 0.25}, 1)
    assert len(runs.look()) == 1
    ((event, message),) = runs.list_messages()
    assert event == "metric file is corrupt"
    assert "there is no part of a record; the rest of it is passed over" in message


def test_a_file_of_a_release_that_nobody_knows_yet_is_told(runs: WandbDirectory) -> None:
    runs.write(b":W&B\xe1\xbe\x01" + bytes(50))
    assert runs.look() == []
    assert runs.list_messages() == [
        (
            "metric file is corrupt",
            "it begins with b':W&B\\xe1\\xbe\\x01', as no file does that this agent knows; the rest of it is passed "
            "over",
        )
    ]


# Beside the whole agent


def test_results_reach_the_operator_and_what_is_flushed_at_the_end_too(
    start_agent: StartAgent, operator: StubOperator, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metric_file_reader, "METRIC_FILES_PERIOD", 0.01)
    runs = WandbDirectory(Path(environ["PODTUNE_DIR"]))
    agent = start_agent({"PODTUNE_WANDB_FILES": "wandb/*", "PODTUNE_OBJECTIVE_METRIC": "loss"})
    runs.add({"loss": 0.5}, 0)
    operator.wait_for_results(1)
    runs.add({"loss": 0.25}, 1)
    assert agent.end().seq == 2
    assert (operator.results[2].metrics["loss"], operator.results[2].metrics["step"]) == (0.25, 1)


def test_an_agent_reads_what_training_and_evaluation_log_by_different_means(
    start_agent: StartAgent, environ: dict[str, str]
) -> None:
    runs = WandbDirectory(Path(environ["PODTUNE_DIR"]))
    runs.add({"loss": 0.5}, 0)
    both = {"PODTUNE_EVENT_FILES": "tensorboard", "PODTUNE_WANDB_FILES": "wandb/*"}
    assert start_agent({**both, "PODTUNE_OBJECTIVE_METRIC": "loss"}).end().seq == 1
