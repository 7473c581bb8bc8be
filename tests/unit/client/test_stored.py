"""Results, checkpoints and logs of Trials, against a store in memory."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from podtune.cli.client import store_access
from podtune.client import (
    Client,
    Experiment,
    IncompleteResults,
    InvalidArgument,
    MissingPackage,
    NotPossible,
    StoreFailed,
    StoreOptions,
    Trial,
)
from podtune.kube import paths
from podtune.storage.errors import InvalidCredentials
from tests.unit.cli.cli_fakes import NAMESPACE, TRAINING, experiment, trial
from tests.unit.cli.commands.test_checkpoints import FILES, Bucket, contents
from tests.unit.cli.commands.test_results import store_results
from tests.unit.cli.commands.test_stored_logs import keep
from tests.unit.client.conftest import ClusterApi

CURVE = {"results": 2, "every": 1, "steps": [1, 2], "seconds": [0.5, 1], "values": [[0.25, 0.75]]}
POD = paths.pod(NAMESPACE, "digits-7-2")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bucket:
    made = Bucket(tmp_path / "shared")
    monkeypatch.setattr(store_access, "make_store", made.open)
    monkeypatch.chdir(tmp_path)
    return made


@pytest.fixture
def digits(api: ClusterApi, client: Client, bucket: Bucket) -> Experiment:
    made = experiment(best={"trial": "digits-7", "value": "0.9", "parameters": {}})
    made["metadata"]["uid"] = "uid"
    made["spec"]["checkpoints"] = {"store": {"bucket": "models", "prefix": "demo", "endpoint": "http://s3:9000"}}
    api.add_experiment(made)
    api.add_trial(trial(7, **TRAINING, curve=CURVE, folder="s3://models/demo/uid/digits-7/"))
    store_results(bucket.store, "digits-7", {1: {"accuracy": 0.25}, 3: {"accuracy": 0.75}}, start=100)
    return client.get("digits")


@pytest.fixture
def running(digits: Experiment) -> Trial:
    return digits.trial(7)


def keep_checkpoints(api: ClusterApi, bucket: Bucket) -> None:
    kept = [bucket.upload(step) for step in (9, 8)]
    entries = [{"step": ref.step, "uri": ref.uri, "digest": ref.digest, "metric": f"0.{ref.step}"} for ref in kept]
    api.add_trial(trial(7, checkpoints=entries, checkpoint=entries[-1]))


def test_the_stores_results_are_what_the_command_prints_and_gaps_are_told(digits: Experiment, running: Trial) -> None:
    with pytest.warns(IncompleteResults, match=r"1 results of digits are not kept; results\.keep"):
        rows = digits.results()
    place = {"trial": "digits-7", "attempt": 1, "rank": 0}
    assert rows == [
        {"time": "1970-01-01T00:01:41.000Z", **place, "accuracy": 0.25},
        {"time": "1970-01-01T00:01:43.000Z", **place, "accuracy": 0.75},
    ]
    with pytest.warns(IncompleteResults, match="1 results of digits-7"):
        assert running.results(source="store") == rows
    assert running.results(rank=1) == []


def test_the_statuses_curves_are_a_table_of_the_same_kind(digits: Experiment, running: Trial) -> None:
    rows = [
        {"trial": "digits-7", "training_iteration": 1, "time_total_s": 0.5, "accuracy": 0.25},
        {"trial": "digits-7", "training_iteration": 2, "time_total_s": 1.0, "accuracy": 0.75},
    ]
    assert digits.results(source="status") == running.results(source="status") == rows
    frame = digits.results_df(source="status")
    assert list(frame.columns) == ["trial", "training_iteration", "time_total_s", "accuracy"]
    assert frame["accuracy"].max() == 0.75
    with pytest.warns(IncompleteResults):
        assert running.results_df()["time"].dt.second.tolist() == [41, 43]


def test_a_store_that_cant_be_read_leaves_the_curves_and_is_told(
    digits: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing:
        def list(self, _: str) -> None:
            raise InvalidCredentials("bucket models: the credentials are wrong; correct them")

    monkeypatch.setattr(store_access, "make_store", lambda *_: Refusing())
    with pytest.warns(IncompleteResults, match="learning curves alone.*the credentials are wrong"):
        assert [row["accuracy"] for row in digits.results()] == [0.25, 0.75]
    with pytest.raises(StoreFailed, match="the credentials are wrong; correct them"):
        digits.results(source="store")


def test_without_a_store_there_are_the_curves_and_no_warning(api: ClusterApi, digits: Experiment) -> None:
    api.add_experiment(experiment())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(digits.results()) == 2
    with pytest.raises(NotPossible, match=r"experiment digits has no checkpoints\.store"):
        digits.results(source="store")


def test_without_pandas_the_error_names_it(digits: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingPackage, match="pip install pandas, or use `results`"):
        digits.results_df(source="status")


def test_checkpoints_come_whole_and_checked(
    api: ClusterApi, bucket: Bucket, digits: Experiment, tmp_path: Path
) -> None:
    keep_checkpoints(api, bucket)
    latest = digits.trial(7).checkpoint
    assert latest is not None
    assert (latest.step, latest.uri) == (8, f"s3://models/demo/uid/digits-7/pod-1/{8}")
    assert latest.download() == Path("digits-7-8")
    assert contents(tmp_path / "digits-7-8") == FILES
    assert digits.download_checkpoint(tmp_path / "best") == tmp_path / "best"
    assert contents(tmp_path / "best") == FILES
    assert digits.download_checkpoint(step=8, directory="other").name == "other"
    key = next(key for key in bucket.store.objects if key.endswith("weights"))
    bucket.store.objects[key] = b"damaged"
    with pytest.raises(NotPossible, match="digits-7"):
        latest.download("damaged")
    assert not (tmp_path / "damaged").exists()


def test_results_become_files_of_other_programs(digits: Experiment, tmp_path: Path) -> None:
    assert digits.export_results(tmp_path / "ray") == tmp_path / "ray"
    assert sorted(contents(tmp_path / "ray" / "digits-7")) == ["params.json", "progress.csv", "result.json"]
    digits.export_results("events", layout="tensorboard")
    assert list(contents(tmp_path / "events" / "digits-7")) == ["events.out.tfevents.0000000000.podtune"]
    with pytest.raises(NotPossible, match="events exists"):
        digits.export_results("events")
    with pytest.raises(InvalidArgument, match="layout: 'csv' is none; use ray, tensorboard"):
        digits.export_results("other", layout="csv")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="directory: '' is no path"):
        digits.export_results("")


def test_how_the_store_is_reached_is_the_clients(
    api: ClusterApi, bucket: Bucket, digits: Experiment, tmp_path: Path
) -> None:
    keep_checkpoints(api, bucket)
    client = Client(store=StoreOptions(endpoint="http://localhost:9000"))
    client.get("digits").download_checkpoint()
    assert [address.endpoint for address in bucket.opened] == ["http://localhost:9000"]


def test_logs_come_from_the_pod_and_from_the_store(api: ClusterApi, bucket: Bucket, running: Trial) -> None:
    api.objects[POD] = {"spec": {"containers": [{"name": "trial"}, {"name": "podtune-agent"}]}}
    api.logs[paths.log_of(POD)] = ["epoch 1", "epoch 2"]
    assert running.logs() == "epoch 1\nepoch 2\n"
    assert list(running.follow_logs()) == ["epoch 1", "epoch 2"]
    assert api.asked[-1][1] == {"container": "trial", "follow": "true"}
    running.logs(agent=True)
    assert api.asked[-1][1] == {"container": "podtune-agent"}
    keep(bucket.store, "epoch 0")
    assert running.logs(stored=True) == "==> attempt 1, rank 0 <==\nepoch 0\n"


def test_wrong_arguments_are_refused_by_name(api: ClusterApi, bucket: Bucket, digits: Experiment) -> None:
    bare = digits.trial(7)
    assert (bare.checkpoint, bare.checkpoints) == (None, ())
    keep_checkpoints(api, bucket)
    running = digits.trial(7)
    checkpoint = running.checkpoint
    assert checkpoint is not None
    Path("taken").mkdir()
    refused: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: digits.results(source="all"), InvalidArgument, "source: 'all' is none; use auto, store, status"),  # type: ignore[arg-type]
        (lambda: running.results_df(source="all"), InvalidArgument, "source: 'all' is none"),  # type: ignore[arg-type]
        (lambda: running.results(rank=-1), InvalidArgument, "rank: -1 is no rank"),
        (lambda: running.logs(rank=True), InvalidArgument, "rank: True is no rank"),
        (lambda: running.logs(agent=True, stored=True), InvalidArgument, "agent: True, and the agent's log is not"),
        (lambda: running.logs(stored=True), NotPossible, "no log of digits-7 is stored; set logs.keep"),
        (running.logs, NotPossible, "digits-7 has no pod"),
        (lambda: running.follow_logs(rank=-1), InvalidArgument, "rank: -1 is no rank"),
        (lambda: list(bare.follow_logs(rank=1)), NotPossible, "digits-7 has only one pod"),
        (lambda: checkpoint.download("taken"), NotPossible, "taken exists; name another directory"),
        (lambda: checkpoint.download(7), InvalidArgument, "directory: 7 is no path"),  # type: ignore[arg-type]
        (lambda: digits.download_checkpoint(step=-1), InvalidArgument, "step: -1 is no iteration"),
        (lambda: digits.download_checkpoint(step=5), NotPossible, "digits-7 keeps no checkpoint of iteration 5"),
    ]
    for ask, kind, told in refused:
        with pytest.raises(kind, match=told):
            ask()
