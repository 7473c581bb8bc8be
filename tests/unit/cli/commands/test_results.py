"""`podtune results`, against a store in memory."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping

import pytest
import yaml

from podtune.cli import main as cli
from podtune.cli.client import api_client, store_access
from podtune.protocol.messages import MetricValue, Result, encode_result
from podtune.storage.address import S3Address
from podtune.storage.errors import Unreachable
from podtune.storage.patience import Patience
from podtune.storage.segments.segment import SegmentHeader
from podtune.storage.segments.segment_stream import SegmentStream
from tests.unit.cli.cli_fakes import NAMESPACE, FakeApi, experiment, trial
from tests.unit.storage.memory_store import MemoryStore

Podtune = Callable[..., tuple[str, str]]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    made = MemoryStore()

    def open_store(address: S3Address, patience: Patience | None) -> MemoryStore:
        assert address == S3Address("models", "demo", endpoint="http://s3:9000")
        return made

    monkeypatch.setattr(store_access, "make_store", open_store)
    return made


@pytest.fixture
def podtune(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Podtune:
    fake = FakeApi()
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (fake, namespace or NAMESPACE))
    made = experiment()
    made["metadata"]["uid"] = "uid"
    made["spec"]["checkpoints"] = {"store": {"bucket": "models", "prefix": "demo", "endpoint": "http://s3:9000"}}
    fake.add_experiment(made)
    for number in (0, 1, 2):
        fake.add_trial(trial(number))

    def run(line: str, expect: int = 0) -> tuple[str, str]:
        code = cli.main(line.split())
        written = capsys.readouterr()
        assert code == expect, written.err
        return written.out, written.err

    return run


def store_results(
    store: MemoryStore,
    trial: str,
    results: Mapping[int, Mapping[str, MetricValue]],
    *,
    start: float,
    number: int = 1,
    rank: int = 0,
) -> None:
    """Has an attempt store results by their numbers, one each second."""
    attempt = f"pod-{number}"
    header = SegmentHeader(NAMESPACE, "digits", trial, attempt, number, rank)
    stream = SegmentStream(store, f"demo/uid/{trial}/{attempt}/results/{rank}/", header, 1 << 20)
    for seq, metrics in results.items():
        result = Result(seq, start + seq, metrics, seq)
        stream.append(seq, result.time, f"{encode_result(result)}\n".encode())
    stream.store_changes(lambda: False)


@pytest.fixture
def stored(store: MemoryStore) -> None:
    store_results(store, "digits-0", {1: {"loss": 0.5}, 3: {"loss": 0.25, "note": "best, so far"}}, start=100)
    store_results(store, "digits-1", {1: {"loss": 0.75, "rank": 4}}, start=101)
    store_results(store, "digits-1", {1: {"loss": 9.0}}, start=101, rank=1)


def test_results_of_an_experiment_come_in_order_of_time_with_a_column_for_each_metric(
    podtune: Podtune, stored: None
) -> None:
    printed, said = podtune("results digits")
    assert list(csv.reader(printed.splitlines())) == [
        ["time", "trial", "attempt", "rank", "loss", "rank (result)", "note"],
        ["1970-01-01T00:01:41.000Z", "digits-0", "1", "0", "0.5", "", ""],
        ["1970-01-01T00:01:42.000Z", "digits-1", "1", "0", "0.75", "4", ""],
        ["1970-01-01T00:01:43.000Z", "digits-0", "1", "0", "0.25", "", "best, so far"],
    ]
    assert said == ("digits-0, attempt 1: 1 result is missing before iteration 3; results.keep says how much is kept\n")


def test_results_of_one_trial_are_an_object_each_for_programs(podtune: Podtune, stored: None) -> None:
    printed, _ = podtune("results digits-1 -o json")
    place = {"time": "1970-01-01T00:01:42.000Z", "trial": "digits-1", "attempt": 1, "rank": 0}
    assert [json.loads(line) for line in printed.splitlines()] == [{**place, "metrics": {"loss": 0.75, "rank": 4}}]


def test_results_of_all_attempts_of_a_trial_are_shown_also_as_yaml(podtune: Podtune, store: MemoryStore) -> None:
    store_results(store, "digits-0", {1: {"loss": 0.5}}, start=100)
    store_results(store, "digits-0", {1: {"loss": 0.123456789}}, start=200, number=2)
    found = yaml.safe_load(podtune("results digits-0 -o yaml")[0])
    assert [(each["attempt"], each["metrics"]) for each in found] == [(1, {"loss": 0.5}), (2, {"loss": 0.123456789})]


def test_a_rank_is_chosen(podtune: Podtune, stored: None) -> None:
    printed, _ = podtune("results digits-1 --rank 1 -o json")
    assert json.loads(printed)["metrics"] == {"loss": 9.0}


def test_that_there_are_none_is_said(podtune: Podtune, stored: None) -> None:
    assert podtune("results digits-2") == ("", "digits-2 has stored no results\n")
    assert podtune("results digits-1 --rank 2") == ("", "digits-1 has stored no results of rank 2\n")


def test_a_store_that_is_not_reached_is_named_with_the_way_to_it(podtune: Podtune, store: MemoryStore) -> None:
    store.failure = Unreachable("bucket 'models' at http://s3:9000 does not answer")
    _, said = podtune("results digits", 1)
    assert said == (
        "error: bucket 'models' at http://s3:9000 does not answer; if only the cluster knows that name, give "
        "--endpoint\n"
    )
