"""Credentials that a bucket's policy confines to one prefix are enough for agents, and to restore an experiment."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from e2e.bench.sync.sync_server import ACCESS_KEY, BUCKET, SECRET_KEY, find_versitygw, running_server
from podtune.api.resources.trial import TrialSpec
from podtune.cli import main as cli
from podtune.cli.client import api_client
from podtune.kube import paths
from podtune.protocol.messages import Result, encode_result
from podtune.protocol.snapshot import SnapshotRecord
from podtune.runner.trial.parameters import compute_configuration_digest
from podtune.storage.address import S3Address
from podtune.storage.checkpoint.manifest import CheckpointManifest
from podtune.storage.errors import AccessDenied, NotFound
from podtune.storage.s3.store import S3Store
from podtune.storage.segments.segment import SegmentHeader, SegmentName, encode_header
from podtune.storage.snapshots.record_store import store_records
from tests.unit.cli.commands.test_transfer import MovingApi
from tests.unit.cluster.objects import experiment_body, trial_body

PREFIX = "team-a/digits"
OWN = f"{PREFIX}/e-1/"
URI = f"s3://{BUCKET}/{PREFIX}/e-1"
USER, USER_SECRET = "team-a", "team-a-secret"
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "use-your-own-bucket.md"


def read_policy() -> str:
    """The policy of the page on buckets, for this bucket and account."""
    (text,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    policy = json.loads(text.replace(":::models", f":::{BUCKET}"))
    for statement in policy["Statement"]:
        statement["Principal"] = {"AWS": [USER]}
    return json.dumps(policy)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a server with an account that may use no more of its bucket than one prefix."""
    accounts = tmp_path_factory.mktemp("accounts")
    with running_server(tmp_path_factory.mktemp("s3"), "--iam-dir", str(accounts)) as server:
        as_owner = ["--access", ACCESS_KEY, "--secret", SECRET_KEY, "--endpoint-url", server.url]
        user = ["create-user", "--access", USER, "--secret", USER_SECRET, "--role", "user"]
        subprocess.run([find_versitygw(), "admin", *as_owner, *user], check=True, capture_output=True, timeout=60)
        owner = boto3.client(
            "s3", endpoint_url=server.url, aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY,
            region_name="us-east-1",
        )  # fmt: skip
        owner.put_object(Bucket=BUCKET, Key="team-b/secret", Body=b"of others")
        owner.put_bucket_policy(Bucket=BUCKET, Policy=read_policy())
        yield server.url


@pytest.fixture
def store(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Store]:
    """The bucket as that account sees it; it is left without anything below the prefix."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", USER)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", USER_SECRET)
    made = S3Store(S3Address(BUCKET, PREFIX, server))
    yield made
    made.delete(list(made.list(f"{PREFIX}/")))


def test_the_account_may_use_its_prefix_and_nothing_else(store: S3Store) -> None:
    store.check()
    store.put_bytes(f"{OWN}a", b"mine")
    assert store.get_bytes(f"{OWN}a", 10) == b"mine"
    assert list(store.list_uploads(OWN)) == []
    with pytest.raises(NotFound):
        store.get_bytes(f"{OWN}b", 10)
    with pytest.raises(NotFound):
        list(store.get(f"{OWN}b"))
    assert not store.exists(f"{OWN}b")
    with pytest.raises(AccessDenied):
        store.get_bytes("team-b/secret", 10)
    for outside in ("", "team-b/", "team-a/"):
        with pytest.raises(AccessDenied):
            list(store.list(outside))


def put_checkpoint(store: S3Store, trial: str, step: int) -> dict[str, Any]:
    """Stores a checkpoint without files; returns what a status says of it."""
    digest = compute_configuration_digest(TrialSpec.model_validate(trial_body(0)["spec"]))
    manifest = CheckpointManifest("attempt.1", step, step, "0.5", "2026-01-01T00:00:00+00:00", (), configuration=digest)
    store.put_bytes(f"{OWN}{trial}/attempt.1/{step}/manifest.json", manifest.to_bytes())
    return {"step": step, "uri": f"{URI}/{trial}/attempt.1/{step}", "digest": f"sha256:{'ab' * 32}"}


def put_experiment(store: S3Store) -> None:
    """A trial that has ended, and one that runs: the checkpoint that its record names is gone, a newer one is there."""
    gone = {"step": 4, "uri": f"{URI}/digits-0/attempt.1/4", "digest": f"sha256:{'ab' * 32}"}
    running = trial_body(0, uid="t-0", state="RUNNING", iteration=5, checkpoints=[gone], checkpoint=gone)
    ended = trial_body(1, uid="t-1", state="TERMINATED", iteration=9)
    experiment = {**experiment_body(), "status": {"trials": {"total": 2}}}
    bodies = ((running, 7, "digits-0"), (ended, 8, "digits-1"), (experiment, 9, ""))
    store_records(store, OWN, [SnapshotRecord(trial, version, json.dumps(body)) for body, version, trial in bodies])
    put_checkpoint(store, "digits-0", 6)
    header = encode_header(SegmentHeader("team", "digits", "digits-0", "attempt.1", 1))
    results = [encode_result(Result(step, float(step), {"accuracy": 0.5}, step)) for step in range(1, 9)]
    segment = f"{OWN}digits-0/attempt.1/results/0/{SegmentName(1, 1000).format()}"
    store.put_bytes(segment, header + "".join(f"{result}\n" for result in results).encode())


@pytest.mark.parametrize("address", [URI, f"s3://{BUCKET}/{PREFIX}"])
def test_an_experiment_is_restored_by_who_may_read_nothing_but_its_prefix(
    server: str, store: S3Store, address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = MovingApi()
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (api, "here"))
    put_experiment(store)
    code = cli.main(["restore", address, "--endpoint", server])
    said = capsys.readouterr()
    assert code == 0, said.err
    assert "experiment digits is in namespace here, with 2 trials" in said.out
    assert "digits-0: a checkpoint of the snapshot is gone; it goes on from iteration 6" in said.err
    assert api.objects[paths.trial("here", "digits-0")]["status"]["checkpoint"]["step"] == 6
    assert said.out.splitlines()[-1].split() == ["digits-0", "5", "6", "8"], "what runs again is read from the results"


def test_who_may_not_read_below_the_address_is_told_which_rights_are_missing(
    server: str, store: S3Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (MovingApi(), "here"))
    assert cli.main(["restore", f"s3://{BUCKET}/team-b/e-1", "--endpoint", server]) != 0
    assert "does not allow listing team-b/e-1/_snapshot/" in capsys.readouterr().err
