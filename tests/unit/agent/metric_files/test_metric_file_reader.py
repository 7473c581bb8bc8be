"""The agent beside a program that logs to TensorBoard."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e.programs.reporting.event_files import VERSION, encode_event, encode_simple, encode_tensor, frame
from podtune.agent.event_log import EventLog
from podtune.agent.metric_files import metric_file_reader
from podtune.agent.metric_files.file_kinds import EVENT_FILE_KIND
from podtune.agent.metric_files.file_search import MAX_METRIC_FILES
from podtune.agent.metric_files.metric_file_reader import MetricFileReader
from podtune.agent.results.result_reader import prepare_directory
from podtune.agent.settings import AgentSettingsError, Settings
from podtune.storage.directory import Directory
from tests.unit.agent.running_agent import StartAgent
from tests.unit.agent.stub_operator import StubOperator

FILE = "events.out.tfevents.1700000000.host.1.0"


class LogDirectory:
    """What a program logs, and the agent that reads it."""

    def __init__(self, path: Path, objective: str = "loss/val", pattern: str = "tensorboard") -> None:
        self.shared = path
        self.path = path / "tensorboard"
        self.log = io.StringIO()
        self._objective = objective
        self._pattern = pattern
        self._time = 0.0
        path.mkdir(exist_ok=True)
        prepare_directory(Directory(path))
        self.restart()

    def restart(self) -> None:
        """Has another process of the agent read from now on."""
        log = EventLog(lambda: 1.0, stream=self.log)
        self.reader = MetricFileReader(
            EVENT_FILE_KIND, self._pattern.split("/"), Directory(self.shared), self._objective, log
        )

    def add(self, step: int, run: str = "", /, file: str = FILE, **tags: float) -> None:
        """Logs values at a step, with underscores in the place of slashes."""
        values = [encode_simple(tag.replace("_", "/"), value) for tag, value in tags.items()]
        self._time += 1
        self.write(frame(encode_event(self._time, step, *values)), run, file)

    def write(self, data: bytes, run: str = "", file: str = FILE) -> None:
        path = self.path / run / file
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as written:
            written.write(data)

    def look(self) -> list[dict[str, Any]]:
        """Has the agent look once; returns all results so far."""
        self.reader.look()
        return self.read_results()

    def read_results(self) -> list[dict[str, Any]]:
        lines = filter(None, (self.shared / "results.jsonl").read_text().splitlines())
        return [{name: value for name, value in json.loads(line).items() if name != "_readFrom"} for line in lines]

    def list_messages(self) -> list[tuple[str, str]]:
        lines = [json.loads(line) for line in self.log.getvalue().splitlines()]
        return [(line["event"], line["message"]) for line in lines]


@pytest.fixture
def logs(tmp_path: Path) -> LogDirectory:
    return LogDirectory(tmp_path / "shared")


def test_values_become_results_as_they_are_written(logs: LogDirectory) -> None:
    assert logs.look() == []
    logs.write(VERSION)
    logs.add(1, lr=0.1)
    logs.add(1, loss_val=0.5)
    assert logs.look() == [{"loss/val": 0.5, "step": 1, "lr": 0.1}]
    logs.add(2, loss_val=0.25)
    logs.add(2, lr=0.2)
    logs.add(3, loss_val=0.125)
    assert logs.look()[1:] == [
        {"loss/val": 0.25, "step": 2, "lr": 0.2},
        {"loss/val": 0.125, "step": 3, "lr": 0.2},
    ]
    assert len(logs.look()) == 3
    assert logs.list_messages() == []


def test_directories_are_a_part_of_the_name_and_times_tell_the_order(tmp_path: Path) -> None:
    logs = LogDirectory(tmp_path / "shared", "validation/epoch_loss")
    for epoch in (0, 1):
        for run, value in (("train", 0.5), ("validation", 0.6)):
            event = encode_event(10 * epoch + len(run), epoch, encode_tensor("epoch_loss", value + epoch))
            logs.write(frame(event), run)
    assert logs.look() == [
        {"validation/epoch_loss": 0.6, "step": 0, "train/epoch_loss": 0.5},
        {"validation/epoch_loss": 1.6, "step": 1, "train/epoch_loss": 1.5},
    ]


def test_a_directory_that_is_named_after_the_time_is_no_part_of_it(tmp_path: Path) -> None:
    logs = LogDirectory(tmp_path / "shared", pattern="tensorboard/*/version_0")
    logs.add(1, "Nov26_13-00/version_0", loss_val=0.5)
    logs.add(1, "Nov26_13-00/version_1", loss_val=0.7)
    logs.add(1, "Nov26_13-00/version_0/deeper", loss_val=0.25)
    logs.write(b"no directory", file="version_0")
    assert logs.look() == [{"loss/val": 0.5, "step": 1, "deeper/loss/val": 0.25}]


def test_a_name_that_no_experiment_can_have_is_changed(tmp_path: Path) -> None:
    logs = LogDirectory(tmp_path / "shared", "my_run/loss_on_k_5")
    logs.write(frame(encode_event(1, 1, encode_simple("loss on k = 5", 0.5), encode_simple("x" * 129, 1))), "my run")
    logs.write(frame(encode_event(1, 1, encode_simple("_checkpoint", 1))))
    assert logs.look() == [{"my_run/loss_on_k_5": 0.5, "step": 1}]


def test_several_files_of_a_run_are_one(logs: LogDirectory) -> None:
    logs.add(1, loss_val=0.5)
    logs.add(2, file=f"{FILE}.v2", loss_val=0.25)
    logs.write(b"something else", file="checkpoint.pt")
    assert [result["step"] for result in logs.look()] == [1, 2]
    assert logs.list_messages() == []


def make_log() -> bytes:
    values = [
        encode_event(step, step, encode_simple("lr", step), encode_simple("loss/val", 1 / step)) for step in (1, 2, 3)
    ]
    return VERSION + b"".join(map(frame, values))


@pytest.mark.parametrize("is_restarted", [False, True])
def test_wherever_the_file_ends_for_now_nothing_is_lost_or_doubled(tmp_path: Path, is_restarted: bool) -> None:
    whole = make_log()
    for length in range(0, len(whole), 1 if is_restarted else 7):
        logs = LogDirectory(tmp_path / f"{length}")
        logs.write(whole[:length])
        logs.look()
        if is_restarted:
            logs.restart()
        logs.write(whole[length:])
        found = [(result["step"], result["lr"]) for result in logs.look()]
        assert found == [(1, 1), (2, 2), (3, 3)], length
        assert logs.list_messages() == []


def test_a_corrupt_file_is_told_once_and_others_are_read_on(logs: LogDirectory) -> None:
    logs.add(1, "a", loss_val=0.5)
    logs.write(b"\0" * 100, "a")
    logs.add(2, "a", loss_val=0.25)
    logs.add(1, loss_val=0.5)
    assert [result["step"] for result in logs.look()] == [1]
    logs.add(2, loss_val=0.25)
    assert [result["step"] for result in logs.look()] == [1, 2]
    ((event, message),) = logs.list_messages()
    assert event == "metric file is corrupt"
    assert "the checksum of a record's length is wrong; the rest of it is passed over" in message


def test_a_damaged_record_costs_no_other(logs: LogDirectory) -> None:
    damaged = bytearray(frame(encode_event(1, 1, encode_simple("loss/val", 0.5))))
    damaged[-6] ^= 1
    logs.write(bytes(damaged) + frame(b"\xff" * 20))
    logs.add(2, loss_val=0.25)
    assert [result["step"] for result in logs.look()] == [2]
    assert [event for event, _ in logs.list_messages()] == ["record is damaged", "record is damaged"]


def test_links_lead_nowhere(logs: LogDirectory, tmp_path: Path) -> None:
    elsewhere = LogDirectory(tmp_path / "elsewhere")
    elsewhere.add(1, loss_val=0.5)
    logs.path.mkdir()
    (logs.path / "run").symlink_to(elsewhere.path)
    (logs.path / FILE).symlink_to(elsewhere.path / FILE)
    assert logs.look() == []
    (logs.path / "run").unlink()
    logs.path.joinpath(FILE).unlink()
    logs.path.rmdir()
    logs.path.symlink_to(elsewhere.path)
    assert logs.look() == []
    assert logs.list_messages()[0][0] == "metric files can't be listed"


def test_a_file_that_takes_anothers_place_is_a_new_one(logs: LogDirectory) -> None:
    logs.add(1, loss_val=0.5)
    logs.add(2, loss_val=0.25)
    assert len(logs.look()) == 2
    (logs.path / FILE).rename(logs.path / "old")
    logs.add(1, loss_val=0.125)
    assert [result["loss/val"] for result in logs.look()] == [0.5, 0.25, 0.125]


def test_what_a_full_disk_refuses_is_written_later_and_once(
    logs: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.write(make_log())
    logs.add(4, "other", lr=0.1)
    write, calls = os.write, []

    def fill_up(file: int, data: bytes) -> int:
        calls.append(data)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return write(file, data)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", fill_up)
        assert [result["step"] for result in logs.look()] == [1]
    assert [result["step"] for result in logs.look()] == [1, 2, 3]
    assert logs.list_messages() == [("result can't be written", "[Errno 28] No space left on device")]


def test_more_files_than_can_be_read_are_told(logs: LogDirectory) -> None:
    for number in range(MAX_METRIC_FILES + 1):
        logs.add(number, f"{number:03}", lr=0.1)
    logs.look()
    assert logs.list_messages() == [
        ("metric file passed over", f"there are more than {MAX_METRIC_FILES}; log to fewer"),
    ]


# Beside the whole agent


def start(objective: str = "loss/val", **others: str) -> Mapping[str, str]:
    return {"PODTUNE_EVENT_FILES": "tensorboard", "PODTUNE_OBJECTIVE_METRIC": objective, **others}


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_file_reader, "METRIC_FILES_PERIOD", 0.01)


def test_results_reach_the_operator_while_the_program_logs(
    start_agent: StartAgent, operator: StubOperator, environ: dict[str, str]
) -> None:
    logs = LogDirectory(Path(environ["PODTUNE_DIR"]))
    agent = start_agent(start())
    logs.add(1, loss_val=0.5)
    operator.wait_for_results(1)
    logs.add(2, loss_val=0.25)
    operator.wait_for_results(2)
    assert agent.end().seq == 2
    result = dict(operator.results[2].metrics)
    assert (result["step"], result["loss/val"]) == (2, 0.25)
    assert not {"_readFrom", "_readFrom/file", "_readFrom/position"} & result.keys(), "that is the agent's own business"


def test_what_a_short_program_leaves_is_read_at_its_end(
    start_agent: StartAgent, operator: StubOperator, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metric_file_reader, "METRIC_FILES_PERIOD", 3600.0)
    logs = LogDirectory(Path(environ["PODTUNE_DIR"]), "accuracy")
    agent = start_agent(start("accuracy"))
    logs.add(7, loss_val=0.5)
    assert agent.end().seq == 1
    assert operator.results[1].metrics["loss/val"] == 0.5
    assert "accuracy" not in operator.results[1].metrics


def test_in_a_gang_rank_0_alone_is_read(start_agent: StartAgent, environ: dict[str, str]) -> None:
    logs = LogDirectory(Path(environ["PODTUNE_DIR"]))
    logs.add(1, loss_val=0.5)
    start_agent(start(PODTUNE_RANK="1", PODTUNE_REPLICAS="2")).end()
    assert logs.read_results() == []


def test_a_path_that_leads_elsewhere_is_refused(environ: dict[str, str]) -> None:
    for path in ("../x", "/x", "a//b", "a/./b"):
        with pytest.raises(
            AgentSettingsError, match=r"PODTUNE_EVENT_FILES is .*, not a path below the shared directory"
        ):
            Settings.from_environ({**environ, "PODTUNE_EVENT_FILES": path})
