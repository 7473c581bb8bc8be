"""`podtune export --decisions`, against a store in memory, and what the dashboard makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from podtune.cli import main as cli
from podtune.cli.archives.archive import read_archive
from podtune.cli.client import api_client, store_access
from podtune.dashboard.sources import open_archive
from podtune.kube import paths
from podtune.protocol.messages import LedgerLine, encode_ledger
from podtune.storage.address import S3Address
from podtune.storage.errors import Unreachable
from podtune.storage.patience import Patience
from tests.unit.cli.cli_fakes import FakeApi
from tests.unit.cluster.objects import experiment_body, trial_body
from tests.unit.storage.memory_store import MemoryStore

NAMESPACE = "team"
PREFIX = "demo/uid/digits-0"


def line(number: int, action: str = "CONTINUE", **inputs: str) -> LedgerLine:
    return LedgerLine(number, f"2026-01-01T10:{number:02}:00Z", 1, number, action, f"decision {number}", inputs)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    made = MemoryStore()

    def open_store(address: S3Address, patience: Patience | None) -> MemoryStore:
        assert address.bucket == "models"
        return made

    monkeypatch.setattr(store_access, "make_store", open_store)
    return made


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    fake = FakeApi()
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (fake, namespace or NAMESPACE))
    made = experiment_body(checkpoints={"store": {"bucket": "models", "prefix": "demo", "endpoint": "http://s3:9000"}})
    made["metadata"]["uid"] = "uid"
    fake.objects[paths.experiment(NAMESPACE, "digits")] = made
    for number in (0, 1):
        latest = {"number": 3, "time": "2026-01-01T10:03:00Z", "action": "STOP", "message": "decision 3"}
        body = trial_body(number, uid=f"t-{number}", ledger=[latest])
        body["metadata"]["labels"] = {"podtune.dev/experiment": "digits"}
        body["metadata"]["ownerReferences"][0]["uid"] = "uid"
        fake.objects[paths.trial(NAMESPACE, f"digits-{number}")] = body
    return fake


def export(tmp_path: Path, expect: int = 0) -> Path:
    file = tmp_path / "digits.yaml"
    assert cli.main(["export", "digits", "--anyway", "--decisions", "-o", str(file)]) == expect
    return file


def list_ledger(file: Path, number: int = 0) -> list[tuple[int, str]]:
    trials = open_archive(file).list_trials(NAMESPACE, "digits")
    return [(entry.number, entry.action) for entry in trials[number].status.ledger]


def test_the_file_has_all_decisions_of_all_attempts_each_once(api: FakeApi, store: MemoryStore, tmp_path: Path) -> None:
    store.put_bytes(f"{PREFIX}/pod-1/ledger.jsonl", encode_ledger([line(1), line(2, "EXPLOIT", donor="digits-1")]))
    store.put_bytes(f"{PREFIX}/pod-2/ledger.jsonl", encode_ledger([line(2, "EXPLOIT", donor="digits-1")]))
    store.put_bytes(f"{PREFIX}/ledger.jsonl", encode_ledger([line(3, "STOP")]))
    store.put_bytes(f"{PREFIX}/pod-1/5/data/ledger.jsonl", b"a file of the program's own")
    store.put_bytes("demo/uid/other-0/pod-1/ledger.jsonl", encode_ledger([line(1)]))
    file = export(tmp_path)
    archive = read_archive(file)
    assert list(archive.decisions) == ["digits-0"]
    assert [entry["number"] for entry in archive.decisions["digits-0"]] == [1, 2, 3]
    assert list_ledger(file) == [(1, "CONTINUE"), (2, "EXPLOIT"), (3, "STOP")]
    assert list_ledger(file, 1) == [(3, "STOP")]


def test_decisions_from_before_a_restore_are_in_it_up_to_the_first_own_one(
    api: FakeApi, store: MemoryStore, tmp_path: Path
) -> None:
    made = api.objects[paths.experiment(NAMESPACE, "digits")]
    made["metadata"]["annotations"] = {"podtune.dev/former": "lost/images"}
    before = [line(1), line(2, "EXPLOIT", donor="images-1"), line(3), line(4)]
    store.put_bytes("demo/lost/images-0/pod-1/ledger.jsonl", encode_ledger(before))
    store.put_bytes("demo/lost/images-1/pod-1/ledger.jsonl", encode_ledger([line(1, "STOP")]))
    again = LedgerLine(3, "2026-01-01T11:00:00Z", 2, 3, "PAUSE", "it decided otherwise", {})
    store.put_bytes(f"{PREFIX}/pod-2/ledger.jsonl", encode_ledger([line(2, "EXPLOIT", donor="digits-1"), again]))
    found = read_archive(export(tmp_path)).decisions
    assert [(each["number"], each["action"]) for each in found["digits-0"]] == [
        (1, "CONTINUE"),
        (2, "EXPLOIT"),
        (3, "PAUSE"),
    ]
    assert found["digits-0"][1]["inputs"] == {"donor": "digits-1"}
    assert [each["action"] for each in found["digits-1"]] == ["STOP"]


def test_under_another_name_the_decisions_name_the_other_trials(
    api: FakeApi, store: MemoryStore, tmp_path: Path
) -> None:
    store.put_bytes(f"{PREFIX}/pod-1/ledger.jsonl", encode_ledger([line(1, "EXPLOIT", donor="digits-1")]))
    renamed = read_archive(export(tmp_path)).rename("again")
    assert renamed.decisions["again-0"][0]["inputs"] == {"donor": "again-1"}


def test_a_ledger_that_can_not_be_read_is_named_and_left_out(
    api: FakeApi, store: MemoryStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store.put_bytes(f"{PREFIX}/pod-1/ledger.jsonl", b"{broken")
    store.put_bytes(f"{PREFIX}/pod-2/ledger.jsonl", encode_ledger([line(1)]))
    file = export(tmp_path)
    assert "demo/uid/digits-0/pod-1/ledger.jsonl: its decisions can't be read" in capsys.readouterr().err
    assert list_ledger(file) == [(1, "CONTINUE"), (3, "STOP")]


def test_a_store_without_decisions_is_told(
    api: FakeApi, store: MemoryStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list_ledger(export(tmp_path)) == [(3, "STOP")]
    assert "the store has no decisions on the trials of digits" in capsys.readouterr().err


def test_a_store_that_is_not_reached_ends_the_export(
    api: FakeApi,
    store: MemoryStore,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(prefix: str) -> Any:
        raise Unreachable(f"{prefix}: no route")

    monkeypatch.setattr(store, "list", fail)
    assert not export(tmp_path, expect=1).exists()
    assert "give --endpoint" in capsys.readouterr().err
