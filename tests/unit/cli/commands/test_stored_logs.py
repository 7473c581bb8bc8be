"""`podtune logs --stored`, against a store in memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from podtune.cli import main as cli
from podtune.cli.client import api_client, store_access
from podtune.kube import paths
from podtune.storage.address import S3Address
from podtune.storage.errors import Unreachable
from podtune.storage.patience import Patience
from podtune.storage.segments.segment import LOG_STREAM, SegmentHeader
from podtune.storage.segments.segment_log import SMALLEST_SEGMENT
from podtune.storage.segments.segment_stream import SegmentStream
from tests.unit.cli.cli_fakes import NAMESPACE, FakeApi, experiment, trial
from tests.unit.storage.memory_store import MemoryStore

Podtune = Callable[..., str]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    store, opened = MemoryStore(), list[S3Address]()

    def open_store(address: S3Address, patience: Patience | None) -> MemoryStore:
        opened.append(address)
        return store

    monkeypatch.setattr(store_access, "make_store", open_store)
    monkeypatch.setattr(store, "opened", opened, raising=False)
    return store


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    fake = FakeApi()
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (fake, namespace or NAMESPACE))
    fake.add_trial(trial(7, folder="s3://models/demo/uid/digits-7/"))
    made = experiment()
    made["metadata"]["uid"] = "uid"
    made["spec"]["checkpoints"] = {"store": {"bucket": "models", "prefix": "demo", "endpoint": "http://s3:9000"}}
    fake.add_experiment(made)
    return fake


@pytest.fixture
def podtune(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> Podtune:
    def run(line: str, expect: int = 0) -> str:
        code = cli.main(line.split())
        written = capsys.readouterr()
        assert code == expect, written.err
        return written.err if expect else written.out

    return run


def keep(store: MemoryStore, *lines: str, number: int = 1, rank: int = 0, folder: str = "uid/digits-7") -> None:
    attempt = f"pod-{folder.partition('/')[0]}-{number}"
    header = SegmentHeader(NAMESPACE, "digits", "digits-7", attempt, number, rank)
    prefix = f"demo/{folder}/{attempt}/logs/{rank}/"
    stream = SegmentStream(store, prefix, header, 8 * SMALLEST_SEGMENT, LOG_STREAM)
    for place, line in enumerate(lines, 1):
        stream.append(place, number, f"2026-01-01T00:00:00Z {line}\n".encode())
        stream.store_changes(lambda: False)


def test_what_is_stored_of_all_attempts_and_ranks_is_printed(store: MemoryStore, podtune: Podtune) -> None:
    keep(store, "epoch 1", "Traceback")
    keep(store, "epoch 2", number=2)
    keep(store, "of a follower", number=2, rank=1)
    assert podtune("logs digits-7 --stored").splitlines() == [
        "==> attempt 1, rank 0 <==",
        "epoch 1",
        "Traceback",
        "==> attempt 2, rank 0 <==",
        "epoch 2",
        "==> attempt 2, rank 1 <==",
        "of a follower",
    ]
    assert podtune("logs digits-7 --stored --rank 1").splitlines() == ["==> attempt 2, rank 1 <==", "of a follower"]
    assert podtune("logs digits-7 --stored --endpoint http://localhost:9000 --region eu-1")
    assert getattr(store, "opened")[-1] == S3Address(  # noqa: B009
        "models", "demo", endpoint="http://localhost:9000", region="eu-1"
    )


def test_logs_of_attempts_from_before_a_restore_are_printed_too(
    store: MemoryStore, api: FakeApi, podtune: Podtune
) -> None:
    made = api.objects[paths.experiment(NAMESPACE, "digits")]
    made["metadata"]["annotations"] = {"podtune.dev/former": "lost/images"}
    keep(store, "before", folder="lost/images-7")
    keep(store, "of another trial", folder="lost/images-70")
    assert podtune("logs digits-7 --stored").splitlines() == ["==> attempt 1, rank 0 <==", "before"]
    keep(store, "after")
    titled = ["==> attempt 1, rank 0 <==", "before", "==> attempt 1, rank 0 <==", "after"]
    assert podtune("logs digits-7 --stored").splitlines() == titled
    made["metadata"]["annotations"] = {"podtune.dev/former": "../others"}
    said = podtune("logs digits-7 --stored", expect=1)
    assert "annotation podtune.dev/former has '../others', which is no <UID>/<name>; correct or remove it" in said


def test_what_was_dropped_is_said_where_it_was(store: MemoryStore, podtune: Podtune) -> None:
    keep(store, *(f"{n:01000}" for n in range(60)))
    lines = podtune("logs digits-7 --stored").splitlines()
    (note,) = [line for line in lines if "podtune" in line]
    kept = [int(line) for line in lines[1:] if line != note]
    assert note == f"[podtune: {60 - len(kept)} lines are not kept here]"
    assert kept[lines.index(note) - 1] == 60 - (len(lines) - lines.index(note) - 1)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--stored", "no log of digits-7 is stored; set logs.keep of digits, for pods that start later"),
        ("--stored --rank 3", "no log of rank 3 of digits-7 is stored"),
        ("--stored -f", "--stored prints what the program has printed so far; leave out --follow and --agent"),
        ("--stored --agent", "leave out --follow and --agent"),
        ("--region eu-1", "--own-credentials and --agent-image say how to read the store; add --stored"),
    ],
)
def test_what_can_not_be_printed_is_said(store: MemoryStore, podtune: Podtune, line: str, said: str) -> None:
    assert said in podtune(f"logs digits-7 {line}", expect=1)


def test_a_trial_that_never_had_a_pod_has_no_log(store: MemoryStore, api: FakeApi, podtune: Podtune) -> None:
    api.add_trial(trial(7))
    assert "no log of digits-7 is stored" in podtune("logs digits-7 --stored", expect=1)


def test_a_store_that_does_not_answer_is_an_error(store: MemoryStore, podtune: Podtune) -> None:
    store.failure = Unreachable("http://s3:9000 does not answer")
    said = podtune("logs digits-7 --stored", expect=1)
    assert "http://s3:9000 does not answer; if only the cluster knows that name, give --endpoint" in said


def test_an_experiment_without_a_store_has_no_logs(store: MemoryStore, api: FakeApi, podtune: Podtune) -> None:
    api.add_experiment(experiment())
    assert "has no checkpoints.store" in podtune("logs digits-7 --stored", expect=1)
