"""`podtune checkpoints download`, `list` and `verify`, against a store in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from podtune.cli import main as cli
from podtune.cli.client import api_client, store_access
from podtune.cli.commands import checkpoints
from podtune.kube.manifests import Manifest
from podtune.protocol.checkpoint import CheckpointRef
from podtune.storage.address import S3Address
from podtune.storage.checkpoint.address import CheckpointAddress, TrialAddress, parse_checkpoint_uri
from podtune.storage.checkpoint.content_index import ContentIndex
from podtune.storage.checkpoint.local_tree import open_tree
from podtune.storage.checkpoint.syncer import DEFAULTS, CheckpointInfo, Options, upload_checkpoint
from podtune.storage.cleanup.export import Exporter
from podtune.storage.directory import Directory
from podtune.storage.errors import AccessDenied, Unreachable
from podtune.storage.patience import Patience
from tests.unit.cli.cli_fakes import NAMESPACE, FakeApi, experiment, trial
from tests.unit.storage.memory_store import MemoryStore

STORE = S3Address("models", "demo", endpoint="http://s3:9000")
TRIAL = TrialAddress(STORE, "uid", "digits-7")
FILES = {"weights": Random(1).randbytes(3 << 20), "many/a": b"a", "many/b": b"b" * 100, "empty": b""}

Podtune = Callable[..., str]


class Bucket:
    """A store in memory, and how the command has opened it."""

    def __init__(self, shared: Path) -> None:
        self.store = MemoryStore()
        self._shared = shared
        self.opened: list[S3Address] = []
        self.content_index = ContentIndex(TRIAL.prefix)

    def open(self, address: S3Address, patience: Patience | None = None) -> MemoryStore:
        self.opened.append(address)
        return self.store

    def upload(self, step: int, options: Options = DEFAULTS) -> CheckpointRef:
        """Stores the same files for each step: those of the second refer to those of the first."""
        tree = self._shared / str(step)
        for path, content in FILES.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_bytes(content)
        address, info = TRIAL.checkpoint("pod-1", str(step)), CheckpointInfo("pod-1", step, step, f"0.{step}")
        with open_tree(Directory(tree.parent), (tree.name,)) as opened:
            digest = upload_checkpoint(
                self.store, opened, address, info, options=options, content_index=self.content_index
            )
        return CheckpointRef(address.uri, digest, step)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bucket:
    made = Bucket(tmp_path / "shared")
    monkeypatch.setattr(store_access, "make_store", made.open)
    return made


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeApi:
    fake = FakeApi()
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (fake, namespace or NAMESPACE))
    monkeypatch.chdir(tmp_path)
    return fake


@pytest.fixture
def podtune(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> Podtune:
    def run(line: str, expect: int = 0) -> str:
        code = cli.main(line.split())
        written = capsys.readouterr()
        assert code == expect, written.err
        return written.err if expect else written.out

    return run


def record(api: FakeApi, *refs: CheckpointRef) -> None:
    """Has the cluster hold what an operator records of these checkpoints."""
    kept: list[Manifest] = [
        {"step": ref.step, "uri": ref.uri, "digest": ref.digest, "metric": f"0.{ref.step}"} for ref in refs
    ]
    api.add_trial(trial(7, checkpoints=kept, checkpoint=kept[-1]))
    made = experiment(best={"trial": "digits-7", "value": "0.9", "parameters": {}, "checkpoint": refs[0].uri})
    made["spec"]["checkpoints"] = {"store": {"bucket": "models", "prefix": "demo", "endpoint": "http://s3:9000"}}
    api.add_experiment(made)


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("options", [Options(), Options(packs=True)], ids=["plain", "packed"])
def test_a_whole_folder_comes_of_each_layout_and_of_what_lies_in_earlier_checkpoints(
    api: FakeApi, bucket: Bucket, podtune: Podtune, tmp_path: Path, options: Options
) -> None:
    record(api, bucket.upload(9, options), bucket.upload(8, options))
    said = podtune("checkpoints download digits-7")
    assert said == f"digits-7-8: iteration 8 of digits-7, 4 files, {3 * 2**20 + 101:,} bytes\n"
    assert contents(tmp_path / "digits-7-8") == FILES
    assert bucket.opened == [STORE]


@pytest.mark.parametrize(
    ("words", "step"),
    [("digits-7", 8), ("digits-7 --best", 9), ("digits-7 --step 9", 9), ("digits", 9), ("digits --step 8", 8)],
)
def test_the_latest_comes_of_a_trial_and_the_best_one_of_an_experiment(
    api: FakeApi, bucket: Bucket, podtune: Podtune, words: str, step: int
) -> None:
    record(api, bucket.upload(9), bucket.upload(8))
    assert podtune(f"checkpoints download {words}").startswith(f"digits-7-{step}: iteration {step} ")


def test_it_comes_to_the_directory_that_is_named(
    api: FakeApi, bucket: Bucket, podtune: Podtune, tmp_path: Path
) -> None:
    (tmp_path / ".best").mkdir()
    (tmp_path / ".best" / "of mine").touch()
    record(api, bucket.upload(9))
    podtune("checkpoints download digits-7 best")
    assert contents(tmp_path / "best") == FILES
    assert contents(tmp_path / ".best") == {"of mine": b""}
    assert sorted(path.name for path in tmp_path.iterdir()) == [".best", "best", "shared"]


def test_a_directory_that_is_there_stays_as_it_is(
    api: FakeApi, bucket: Bucket, podtune: Podtune, tmp_path: Path
) -> None:
    record(api, bucket.upload(9))
    (tmp_path / "digits-7-9").mkdir()
    said = podtune("checkpoints download digits-7", expect=1)
    assert said == "error: digits-7-9 exists; name another directory, or delete it first\n"
    assert contents(tmp_path / "digits-7-9") == {}


def test_a_damaged_one_leaves_nothing_and_names_the_file_and_the_others(
    api: FakeApi, bucket: Bucket, podtune: Podtune, tmp_path: Path
) -> None:
    record(api, bucket.upload(9), bucket.upload(12, Options(reuses=False)))
    key = "demo/uid/digits-7/pod-1/12/data/weights"
    bucket.store.objects[key] = b"x" + bucket.store.objects[key][1:]
    said = podtune("checkpoints download digits-7", expect=1)
    assert said.splitlines()[1:] == [
        "error: step 12 was not restored: weights is damaged: its size or its SHA-256 is not what the manifest says; "
        "digits-7 also keeps iteration 9 (--step)"
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shared"]


def test_a_manifest_that_is_not_the_committed_one_is_refused(api: FakeApi, bucket: Bucket, podtune: Podtune) -> None:
    record(api, bucket.upload(9))
    key = "demo/uid/digits-7/pod-1/9/manifest.json"
    bucket.store.objects[key] = bucket.store.objects[key].replace(b"many/a", b"many/z")
    assert "its manifest is not the one that was committed" in podtune("checkpoints download digits-7", expect=1)


def test_an_uri_needs_no_cluster(bucket: Bucket, podtune: Podtune, api: FakeApi, tmp_path: Path) -> None:
    ref = bucket.upload(9)
    said = podtune(f"checkpoints download {ref.uri} --endpoint http://localhost:9000/ --region eu-1")
    assert said.startswith("digits-7-9: iteration 9 of digits-7, 4 files")
    assert said.endswith("no Trial was asked whether its manifest is the one that was committed\n")
    assert contents(tmp_path / "digits-7-9") == FILES
    assert bucket.opened == [S3Address("models", endpoint="http://localhost:9000", region="eu-1")]
    assert api.asked == []


def test_an_export_is_a_checkpoint(bucket: Bucket, podtune: Podtune, tmp_path: Path) -> None:
    ref = bucket.upload(9, Options(packs=True))
    source, target = parse_checkpoint_uri(STORE, ref.uri), CheckpointAddress(STORE.uri, "demo/exports/digits/best")
    Exporter(bucket.store, bucket.store, same_store=True).export(source, ref.digest, target, {"experiment": {}})
    assert podtune(f"checkpoints download {target.uri}").startswith("digits-best: ")
    assert contents(tmp_path / "digits-best") == FILES


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("digits-7 --step 5", "digits-7 keeps no checkpoint of iteration 5; it keeps iterations 8, 9"),
        ("digits-7 --step 8 --best", "--step and --best each choose a checkpoint; give one of them"),
        ("s3://models/demo/x --best", "s3://models/demo/x is one checkpoint; leave out --step and --best"),
        ("s3://models/demo/x/9", "there is no checkpoint at s3://models/demo/x/9; it was deleted, or never was one"),
        ("ftp://models/demo", "'ftp://models/demo' is not an address in a bucket; write it like s3://bucket/path"),
        (
            "volume://weights/demo/x/9",
            "there is no experiment to say which image reads claim weights; name the agent's with --agent-image",
        ),
        ("digits-7 no/such/place", "no/such/place: No such file or directory; name a directory that can be written"),
    ],
)
def test_what_it_refuses(api: FakeApi, bucket: Bucket, podtune: Podtune, line: str, said: str) -> None:
    record(api, bucket.upload(9), bucket.upload(8))
    assert podtune(f"checkpoints download {line}", expect=1).splitlines()[-1] == f"error: {said}"


def test_a_trial_without_a_checkpoint_says_why(api: FakeApi, podtune: Podtune) -> None:
    api.add_experiment(experiment())
    api.add_trial(trial(7, message="it waits for its turn"))
    assert podtune("checkpoints download digits-7", expect=1) == (
        "error: digits-7 has no checkpoint: it waits for its turn\n"
    )
    assert podtune("checkpoints download experiment/digits", expect=1) == (
        "error: experiment digits has no best trial yet; name a Trial\n"
    )


def test_a_store_that_does_not_answer_is_waited_for_and_then_named(
    api: FakeApi, bucket: Bucket, podtune: Podtune, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(api, bucket.upload(9))
    monkeypatch.setattr(checkpoints, "REQUEST_PATIENCE", 0.0)
    bucket.store.failure = Unreachable("http://s3:9000 does not answer")
    assert podtune("checkpoints download digits-7", expect=1).splitlines()[-1] == (
        "error: http://s3:9000 does not answer; if only the cluster knows that name, give --endpoint"
    )
    bucket.store.failure = AccessDenied("no, thanks")
    assert "no, thanks" in podtune("checkpoints download digits-7", expect=1)


def test_a_list_names_the_latest_and_the_best(api: FakeApi, bucket: Bucket, podtune: Podtune) -> None:
    record(api, bucket.upload(9), bucket.upload(8))
    header, first, second = (line.split() for line in podtune("checkpoints list digits-7").splitlines())
    assert header == ["TRIAL", "ITERATION", "VALUE", "NOTE", "URI"]
    assert first[:4] == ["digits-7", "9", "0.9", "best"]
    assert second[:4] == ["digits-7", "8", "0.8", "latest"]
    items = json.loads(podtune("checkpoints list digits -o json"))["items"]
    assert [(item["step"], item["value"], item["notes"]) for item in items] == [
        (9, 0.9, ["best"]),
        (8, 0.8, ["latest"]),
    ]
    assert bucket.opened == []


@pytest.mark.parametrize("options", [Options(), Options(packs=True)], ids=["plain", "packed"])
def test_every_hash_is_checked_and_nothing_is_kept(
    api: FakeApi, bucket: Bucket, podtune: Podtune, tmp_path: Path, options: Options
) -> None:
    record(api, bucket.upload(9, options), bucket.upload(8, options))
    before = set(tmp_path.rglob("*"))
    size = f"{3 * 2**20 + 101:,} bytes"
    assert podtune("checkpoints verify digits").splitlines() == [
        f"digits-7 iteration {step}: whole, 4 files, {size}" for step in (9, 8)
    ]
    assert podtune("checkpoints verify digits-7 --step 8").startswith("digits-7 iteration 8: whole")
    assert set(tmp_path.rglob("*")) == before


def find_verdict(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert cli.main(["checkpoints", "verify", "digits-7", "-o", "json"]) == 1
    (item,) = json.loads(capsys.readouterr().out)["items"]
    return dict(item)


def flip(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (flip, "weights is damaged: its size or its SHA-256"),
        (lambda data: data[:-1], "weights is damaged"),
        (lambda data: data + b"x", "weights is damaged"),
        (lambda data: None, "weights is missing"),
    ],
)
def test_what_is_damaged_is_told_and_ends_with_1(
    damage: Callable[[bytes], bytes | None],
    words: str,
    api: FakeApi,
    bucket: Bucket,
    capsys: pytest.CaptureFixture[str],
) -> None:
    record(api, bucket.upload(9))
    key = next(key for key in bucket.store.objects if key.endswith("weights"))
    changed = damage(bucket.store.objects[key])
    if changed is None:
        del bucket.store.objects[key]
    else:
        bucket.store.objects[key] = changed
    item = find_verdict(capsys)
    assert (item["whole"], item["step"]) == (False, 9)
    assert words in item["problems"][0]


def test_a_manifest_that_is_another_one_is_told(
    api: FakeApi, bucket: Bucket, podtune: Podtune, capsys: pytest.CaptureFixture[str]
) -> None:
    ref = bucket.upload(9)
    record(api, CheckpointRef(ref.uri, "sha256:" + "0" * 64, 9))
    assert find_verdict(capsys)["problems"] == ["its manifest is not the one that was committed"]
    assert "1 of 1 checkpoints can't be restored" in podtune("checkpoints verify digits-7", expect=1)
