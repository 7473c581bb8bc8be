"""`podtune export --layout`: results of a store in memory as files that Ray's and TensorBoard's users read."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from podtune.cli import main as cli
from podtune.cli.client import api_client, store_access
from podtune.kube.manifests import Manifest
from podtune.protocol.messages import MetricValue
from tests.unit.cli.cli_fakes import NAMESPACE, FakeApi, experiment, trial
from tests.unit.cli.commands.test_results import store_results
from tests.unit.storage.event_files.reading import read_events
from tests.unit.storage.memory_store import MemoryStore

ENDED = {"startTime": "1970-01-01T00:01:40Z", "completionTime": "1970-01-01T00:03:20Z"}
FIRST: dict[int, dict[str, MetricValue]] = {
    1: {"loss": 0.5, "training_iteration": 1, "time_this_iter_s": 2.0, "time_total_s": 2.0},
    2: {"loss": 0.25, "note": "late", "training_iteration": 2, "time_this_iter_s": 3.0, "time_total_s": 5.0},
}
SECOND: dict[int, dict[str, MetricValue]] = {
    1: {"loss": 0.125, "training_iteration": 3, "time_this_iter_s": 1.0, "time_total_s": 6.0},
}


def parameters(body: Manifest, **values: str) -> Manifest:
    body["spec"]["parameters"] = values
    return body


@pytest.fixture
def export(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    store, api = MemoryStore(), FakeApi()
    monkeypatch.setattr(store_access, "make_store", lambda address, patience: store)
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (api, namespace or NAMESPACE))
    made = experiment()
    made["metadata"]["uid"] = "uid"
    made["spec"]["checkpoints"] = {"store": {"bucket": "models", "prefix": "demo", "endpoint": "http://s3:9000"}}
    api.add_experiment(made)
    api.add_trial(parameters(trial(0, state="TERMINATED", **ENDED), learning_rate="0.01", hidden_units="32"))
    exploited: dict[str, Any] = {"parameters": {"learning_rate": "0.02", "activation": "tanh"}}
    api.add_trial(parameters(trial(1, state="RUNNING", **exploited), learning_rate="0.1"))
    api.add_trial(parameters(trial(2, state="PENDING"), activation="true"))
    store_results(store, "digits-0", FIRST, start=100)
    store_results(store, "digits-0", SECOND, start=150, number=2)
    store_results(store, "digits-1", {2: {"loss": 1.0, "date": "mine"}}, start=101)
    store_results(store, "digits-9", {1: {"loss": 9.0}}, start=101)  # its Trial was deleted

    def run(layout: str, expect: int = 0) -> tuple[Path, str]:
        code = cli.main(["export", "digits", "--layout", layout, "-o", str(tmp_path / "out")])
        said = capsys.readouterr().err
        assert code == expect, said
        return tmp_path / "out", said

    return run


def read_rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "result.json").read_text().splitlines()]


def test_ray_finds_each_trials_parameters_and_results_where_it_looks_for_them(export: Any) -> None:
    out, said = export("ray")
    assert said == (
        f"{out}: 5 results of 3 trials of digits, as ray lays them out; 1 more are not kept, results.keep says how "
        "much is\n"
    )
    assert json.loads((out / "digits-0" / "params.json").read_text()) == {"hidden_units": 32, "learning_rate": 0.01}
    rows = read_rows(out / "digits-0")
    assert [(row["loss"], row["training_iteration"], row["done"]) for row in rows] == [
        (0.5, 1, False),
        (0.25, 2, False),
        (0.125, 3, True),
    ]
    assert rows[2] == {
        **SECOND[1],
        "done": True,
        "trial_id": "digits-0",
        "timestamp": 151,
        "date": "1970-01-01_00-02-31",
        "iterations_since_restore": 1,
        "time_since_restore": 1.0,
        "config": {"hidden_units": 32, "learning_rate": 0.01},
    }
    assert [row["time_since_restore"] for row in rows] == [2.0, 5.0, 1.0]


def test_the_table_has_a_column_for_each_metric_also_for_one_that_comes_late(export: Any) -> None:
    out, _ = export("ray")
    rows = list(csv.DictReader((out / "digits-0" / "progress.csv").read_text().splitlines()))
    assert [(row["loss"], row["note"], row["done"]) for row in rows] == [
        ("0.5", "", "False"),
        ("0.25", "late", "False"),
        ("0.125", "", "True"),
    ]
    assert "config" not in rows[0]


def test_what_is_not_known_for_certain_is_left_out(export: Any) -> None:
    out, _ = export("ray")
    (row,) = read_rows(out / "digits-1")
    assert "config" not in row, "it began with another one"
    assert "time_since_restore" not in row, "the attempt's first result is missing"
    assert (row["date"], row["done"]) == ("mine", False)
    assert json.loads((out / "digits-1" / "params.json").read_text()) == {"activation": "tanh", "learning_rate": 0.02}
    assert read_rows(out / "digits-2") == []
    assert json.loads((out / "digits-2" / "params.json").read_text()) == {"activation": True}
    assert sorted(path.name for path in out.iterdir()) == ["digits-0", "digits-1", "digits-2"]


def test_event_files_have_each_number_of_each_result(export: Any) -> None:
    out, _ = export("tensorboard")
    (file,) = (out / "digits-0").iterdir()
    assert file.name == "events.out.tfevents.0000000100.podtune"
    events = read_events(file.read_bytes())
    assert events[0].version == "brain.Event:2"
    assert [(event.time, event.step, event.scalars.get("loss")) for event in events if event.scalars] == [
        (101.0, 1, 0.5),
        (102.0, 2, 0.25),
        (151.0, 1, 0.125),
    ]
    assert "note" not in events[-2].scalars
    tags = [tag for event in events for tag in event.plugin_tags]
    assert tags == ["_hparams_/session_start_info", "_hparams_/session_end_info"]
    (running,) = (out / "digits-1").iterdir()
    assert [tag for event in read_events(running.read_bytes()) for tag in event.plugin_tags] == tags[:1]


def test_a_directory_that_is_there_stays_as_it_is(export: Any, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    _, said = export("ray", 1)
    assert said == f"error: {tmp_path / 'out'} exists; name another directory, or delete it first\n"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "nothing is left beside it"


def test_what_belongs_to_the_file_of_an_import_is_refused(
    export: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["export", "digits", "--layout", "ray", "--anyway", "-o", str(tmp_path / "x")]) == 1
    said = "error: --layout writes results into a directory; leave out --anyway and --decisions, and name one\n"
    assert capsys.readouterr().err == said
    assert cli.main(["export", "digits", "--layout", "ray", "-o", "-"]) == 1
