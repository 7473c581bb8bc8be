"""`podtune restore`, against a store in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from podtune.api.resources.trial import TrialSpec
from podtune.cli import main as cli
from podtune.cli.client import api_client, store_access
from podtune.client.packing.packed import PackedFunction
from podtune.kube import paths
from podtune.protocol.messages import Result, encode_result
from podtune.protocol.snapshot import WARM_START, SnapshotRecord
from podtune.runner.trial.parameters import compute_configuration_digest
from podtune.storage.checkpoint.manifest import CheckpointManifest
from podtune.storage.segments.segment import SegmentHeader, SegmentName, encode_header
from podtune.storage.snapshots.function_store import store_function
from podtune.storage.snapshots.record_store import RecordName, format_key, store_record, store_records
from podtune.tuning.randomness import derive_trial_seed
from tests.unit.cli.commands.test_transfer import MovingApi
from tests.unit.cluster.objects import experiment_body, trial_body
from tests.unit.storage.memory_store import MemoryStore

ADDRESS = "s3://models/demo/e-1"
PREFIX = "demo/e-1/"
HERE = "elsewhere"

Podtune = Callable[..., str]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    made = MemoryStore()
    monkeypatch.setattr(store_access, "make_store", lambda address, _: made)
    return made


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> MovingApi:
    fake = MovingApi()
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (fake, namespace or HERE))
    return fake


@pytest.fixture
def podtune(api: MovingApi, store: MemoryStore, capsys: pytest.CaptureFixture[str]) -> Podtune:
    def run(line: str, expect: int = 0) -> str:
        code = cli.main(line.split())
        written = capsys.readouterr()
        assert code == expect, written.err
        return written.out + written.err

    return run


def record(body: dict[str, Any], version: int, trial: str = "") -> SnapshotRecord:
    return SnapshotRecord(trial, version, json.dumps(body))


def checkpoint(step: int, trial: str = "digits-0") -> dict[str, Any]:
    return {"step": step, "uri": f"{ADDRESS}/{trial}/attempt.1/{step}", "digest": f"sha256:{'ab' * 32}"}


def put_checkpoint(store: MemoryStore, step: int, trial: str = "digits-0") -> None:
    store.put_bytes(f"{PREFIX}{trial}/attempt.1/{step}/manifest.json", b"{}")


def put_results(store: MemoryStore, trial: str, last: int) -> None:
    header = encode_header(SegmentHeader("team", "digits", trial, "attempt.1", 1))
    lines = [encode_result(Result(step, float(step), {"accuracy": 0.5}, step)) for step in range(1, last + 1)]
    name = SegmentName(1, 1000).format()
    store.put_bytes(f"{PREFIX}{trial}/attempt.1/results/0/{name}", header + "\n".join(lines).encode() + b'\n{"cut')


def put_snapshot(store: MemoryStore, **spec: Any) -> None:
    """Two trials: one that runs, with a checkpoint of iteration 4, and one that has ended."""
    body = experiment_body(**spec)
    body["metadata"] |= {"generation": 3, "labels": {"team": "a"}, "annotations": {"example.com/a": "b"}}
    job = {"purpose": "Snapshot", "trigger": "0-0-9-1", "state": "Done", "pod": 1, "tries": 1, "startTime": "x"}
    body["status"] = {"observedGeneration": 3, "trials": {"total": 3}, "storage": {"pods": 1, "jobs": [job]}}
    known = [checkpoint(4)]
    running = trial_body(
        0,
        uid="t-0",
        state="RUNNING",
        iteration=5,
        checkpoints=known,
        checkpoint=known[0],
        pod={"name": "p", "uid": "u"},
    )
    ended = trial_body(1, uid="t-1", state="TERMINATED", iteration=9)
    records = [record(running, 7, "digits-0"), record(ended, 8, "digits-1"), record(body, 9)]
    assert store_records(store, PREFIX, records) == 3
    put_checkpoint(store, 4)


def find(api: MovingApi, trial: str) -> dict[str, Any]:
    found: dict[str, Any] = api.objects[paths.trial(HERE, trial)]
    return found


def test_an_experiment_is_made_from_its_store_alone(podtune: Podtune, api: MovingApi, store: MemoryStore) -> None:
    put_snapshot(store)
    said = podtune(f"restore {ADDRESS}")
    assert "experiment digits is in namespace elsewhere, with 2 trials" in said
    made = api.objects[paths.experiment(HERE, "digits")]
    assert made["spec"] == experiment_body()["spec"]
    assert made["metadata"]["labels"] == {"team": "a"}
    former = {"podtune.dev/former": "e-1/digits"}
    assert made["metadata"]["annotations"] == {"example.com/a": "b", "podtune.dev/imported": "2", **former}
    assert made["status"]["storage"] == {"pods": 1, "jobs": []}, "what its jobs have stored is of another cluster"
    assert made["status"]["trials"]["total"] == 2, "none was deleted: a third one had no record yet"


def test_a_trial_that_was_running_goes_on_from_its_checkpoint(
    podtune: Podtune, api: MovingApi, store: MemoryStore
) -> None:
    put_snapshot(store)
    podtune(f"restore {ADDRESS}/")
    status = find(api, "digits-0")["status"]
    assert (status["state"], status["checkpoint"]) == ("PENDING", checkpoint(4))
    assert "pod" not in status
    assert find(api, "digits-1")["status"]["state"] == "TERMINATED"


def test_what_was_lost_is_listed(podtune: Podtune, store: MemoryStore) -> None:
    put_snapshot(store)
    put_results(store, "digits-0", 7)
    put_results(store, "digits-1", 9)
    put_results(store, "digits-2", 2)
    lines = podtune(f"restore {ADDRESS}").splitlines()
    assert [line.split() for line in lines[-3:]] == [
        ["TRIAL", "RECORDED", "GOES", "ON", "FROM", "LAST", "RESULT"],
        ["digits-0", "5", "4", "7"],
        ["digits-2", "none", "0", "2"],
    ]


def test_what_was_lost_is_told_apart_from_the_object_that_programs_get(
    api: MovingApi, store: MemoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    put_snapshot(store)
    put_results(store, "digits-0", 7)
    assert cli.main(["restore", ADDRESS, "-o", "json"]) == 0
    written = capsys.readouterr()
    assert json.loads(written.out)["metadata"]["name"] == "digits"
    assert written.err.splitlines()[-1].split() == ["digits-0", "5", "4", "7"]


def test_what_was_recorded_after_the_checkpoint_is_listed_where_no_results_are_kept(
    podtune: Podtune, store: MemoryStore
) -> None:
    put_snapshot(store, results={"keep": "0"})
    assert podtune(f"restore {ADDRESS}").splitlines()[-1].split() == ["digits-0", "5", "4", "5"]


def test_where_nothing_was_lost_that_is_said(podtune: Podtune, store: MemoryStore) -> None:
    put_snapshot(store)
    known = checkpoint(4)
    body = trial_body(0, uid="t-0", state="RUNNING", iteration=4, checkpoints=[known], checkpoint=known)
    store_record(store, PREFIX, record(body, 10, "digits-0"))
    put_results(store, "digits-0", 4)
    assert "nothing was lost" in podtune(f"restore {ADDRESS}")


def test_of_several_records_the_newest_counts(podtune: Podtune, api: MovingApi, store: MemoryStore) -> None:
    put_snapshot(store)
    late = json.dumps(trial_body(1, uid="t-1", state="PENDING")).encode()
    store.put_bytes(format_key(PREFIX, RecordName("digits-1", 6)), late)
    podtune(f"restore {ADDRESS}")
    assert find(api, "digits-1")["status"]["state"] == "TERMINATED"


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"metadata": {}}', b"\xff", b"x" * (3 << 20)])
def test_a_damaged_record_is_named_and_the_one_before_it_counts(
    podtune: Podtune, api: MovingApi, store: MemoryStore, damage: bytes
) -> None:
    put_snapshot(store)
    key = format_key(PREFIX, RecordName("digits-1", 20))
    store.put_bytes(key, damage)
    assert f"the record {key} is damaged" in podtune(f"restore {ADDRESS}")
    assert find(api, "digits-1")["status"]["state"] == "TERMINATED"


def test_without_a_usable_record_of_a_trial_the_others_go_on(
    podtune: Podtune, api: MovingApi, store: MemoryStore
) -> None:
    put_snapshot(store)
    stranger = json.dumps(trial_body(5, uid="t-5", state="PENDING")).encode()
    store.put_bytes(format_key(PREFIX, RecordName("digits-1", 8)), stranger)
    assert "it is not the Trial digits-1" in podtune(f"restore {ADDRESS}")
    assert paths.trial(HERE, "digits-1") not in api.objects
    assert find(api, "digits-0")["status"]["state"] == "PENDING"


def test_without_the_experiments_record_nothing_is_made(podtune: Podtune, api: MovingApi, store: MemoryStore) -> None:
    put_snapshot(store)
    store.put_bytes(format_key(PREFIX, RecordName("", 9)), b"{}")
    assert "has no record of the Experiment that can be read" in podtune(f"restore {ADDRESS}", expect=1)
    assert api.objects == {}


def test_a_checkpoint_that_is_gone_is_replaced_by_a_later_one(
    podtune: Podtune, api: MovingApi, store: MemoryStore
) -> None:
    put_snapshot(store)
    store.delete([f"{PREFIX}digits-0/attempt.1/4/manifest.json"])
    digest = compute_configuration_digest(TrialSpec.model_validate(trial_body(0)["spec"]))
    for step in (9, 7):
        manifest = CheckpointManifest("attempt.1", step, step, "0.5", "2026-01-01T00:00:00Z", (), configuration=digest)
        store.put_bytes(f"{PREFIX}digits-0/attempt.1/{step}/manifest.json", manifest.to_bytes())
    assert "digits-0: a checkpoint of the snapshot is gone; it goes on from iteration 7" in podtune(
        f"restore {ADDRESS}"
    )
    found = find(api, "digits-0")["status"]["checkpoint"]
    assert (found["step"], found["uri"]) == (7, f"{ADDRESS}/digits-0/attempt.1/7")


def test_a_trial_that_a_person_has_added_is_restored_with_its_author_and_checkpoint(
    podtune: Podtune, api: MovingApi, store: MemoryStore
) -> None:
    """Its checkpoints carry the digest of the whole configuration, of which its spec holds but a part."""
    fixed = [*experiment_body()["spec"]["parameters"], {"name": "depth", "fixed": {"value": 3}}]
    put_snapshot(store, parameters=fixed)
    trial, given = "digits-100000", {"experiment": "digits", "parameters": {"lr": "0.01", "units": "32"}}
    known = checkpoint(4, trial)
    body = trial_body(uid="t-a", state="RUNNING", iteration=5, checkpoints=[known], checkpoint=known)
    body["metadata"] |= {"name": trial, "annotations": {"podtune.dev/author": "ada"}}
    body["spec"] = given
    assert store_records(store, PREFIX, [record(body, 10, trial)]) == 1
    whole = TrialSpec(
        experiment="digits", parameters={"lr": "0.01", "units": "32", "depth": "3"}, seed=derive_trial_seed(7, 0)
    )
    digest = compute_configuration_digest(whole)
    manifest = CheckpointManifest("attempt.1", 7, 7, "0.5", "2026-01-01T00:00:00Z", (), configuration=digest)
    store.put_bytes(f"{PREFIX}{trial}/attempt.1/7/manifest.json", manifest.to_bytes())
    said = podtune(f"restore {ADDRESS}")
    assert f"{trial}: a checkpoint of the snapshot is gone; it goes on from iteration 7" in said
    made = find(api, trial)
    assert (made["spec"], made["metadata"]["annotations"]) == (given, {"podtune.dev/author": "ada"})
    assert made["status"]["checkpoint"]["uri"] == f"{ADDRESS}/{trial}/attempt.1/7"


def test_where_no_checkpoint_is_left_a_trial_begins_anew(podtune: Podtune, api: MovingApi, store: MemoryStore) -> None:
    put_snapshot(store)
    store.delete([f"{PREFIX}digits-0/attempt.1/4/manifest.json"])
    assert "digits-0: a checkpoint of the snapshot is gone; it goes on from the beginning" in podtune(
        f"restore {ADDRESS}"
    )
    assert "checkpoint" not in find(api, "digits-0")["status"]


def test_secrets_that_are_missing_are_named(podtune: Podtune, api: MovingApi, store: MemoryStore) -> None:
    secret = {"bucket": "models", "prefix": "demo", "credentialsSecret": "s3-keys"}
    put_snapshot(store, checkpoints={"store": secret})
    assert "namespace elsewhere lacks what the experiment needs: Secrets s3-keys;" in podtune(
        f"restore {ADDRESS}", expect=1
    )
    assert api.objects == {}
    assert "warning: namespace elsewhere lacks what the experiment needs: Secrets s3-keys;" in podtune(
        f"restore {ADDRESS} --anyway"
    )
    assert paths.experiment(HERE, "digits") in api.objects


def test_a_secret_that_evaluations_need_is_named(podtune: Podtune, store: MemoryStore) -> None:
    source = {"secretRef": {"name": "scorer-token"}}
    scorer = {"name": "scorer", "image": "none", "envFrom": [source]}
    evaluation = {"template": {"spec": {"containers": [scorer]}}}
    put_snapshot(store, checkpoints={"store": {"bucket": "models", "prefix": "demo"}}, evaluation=evaluation)
    assert "lacks what the experiment needs: Secrets scorer-token;" in podtune(f"restore {ADDRESS}", expect=1)


def test_config_maps_that_are_missing_are_named_beside_secrets(
    podtune: Podtune, api: MovingApi, store: MemoryStore
) -> None:
    """Those of functions go with their Experiment: whoever loses the one loses the other."""
    volumes = [
        {"name": "code", "configMap": {"name": "train-code"}},
        {"name": "mixed", "projected": {"sources": [{"configMap": {"name": "lists"}}, {"secret": {"name": "keys"}}]}},
    ]
    variables = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "values", "key": "a"}}}]
    container = {"name": "trial", "image": "none", "env": variables, "envFrom": [{"configMapRef": {"name": "values"}}]}
    bucket = {"bucket": "models", "prefix": "demo", "caBundle": {"name": "authorities"}}
    template = {"spec": {"containers": [container], "volumes": volumes}}
    put_snapshot(store, checkpoints={"store": bucket}, trialTemplate=template)
    api.objects[paths.config_map(HERE, "lists")] = {"metadata": {"name": "lists"}}
    lacking = "lacks what the experiment needs: Secrets keys and ConfigMaps authorities, values, train-code;"
    assert lacking in podtune(f"restore {ADDRESS}", expect=1)
    assert paths.experiment(HERE, "digits") not in api.objects


FUNCTION = PackedFunction("train", {"function.py": "def train(config): ...", "mine/__init__.py": "A = 1"})


def put_function_snapshot(store: MemoryStore) -> None:
    """An experiment whose trials run a function."""
    container = {"name": "trial", "image": "none", "volumeMounts": [FUNCTION.make_mount()]}
    template = {"spec": {"containers": [container], "volumes": [FUNCTION.make_volume("train-1")]}}
    put_snapshot(store, checkpoints={"store": {"bucket": "models", "prefix": "demo"}}, trialTemplate=template)


def test_a_function_is_restored_with_its_experiment(podtune: Podtune, api: MovingApi, store: MemoryStore) -> None:
    put_function_snapshot(store)
    store_function(store, PREFIX, "train-1", FUNCTION.files)
    assert "warning" not in podtune(f"restore {ADDRESS} --name numbers")
    made = api.objects[paths.config_map(HERE, "train-1")]
    assert (made["data"], made["immutable"]) == (FUNCTION.make_config_map("train-1")["data"], True)
    [owner] = made["metadata"]["ownerReferences"]
    assert owner["uid"] == api.objects[paths.experiment(HERE, "numbers")]["metadata"]["uid"], "it is deleted with it"


def test_a_function_that_is_there_already_stays(podtune: Podtune, api: MovingApi, store: MemoryStore) -> None:
    put_function_snapshot(store)
    store_function(store, PREFIX, "train-1", FUNCTION.files)
    there = api.objects[paths.config_map(HERE, "train-1")] = {"metadata": {"name": "train-1"}}
    podtune(f"restore {ADDRESS}")
    assert api.objects[paths.config_map(HERE, "train-1")] == there


@pytest.mark.parametrize("files", [None, {"function.py": ""}, {"function.py": 3}])
def test_a_function_whose_source_is_lost_is_named(
    podtune: Podtune, api: MovingApi, store: MemoryStore, files: dict[str, str] | None
) -> None:
    put_function_snapshot(store)
    if files is not None:
        store_function(store, PREFIX, "train-1", files)
    said = podtune(f"restore {ADDRESS}", expect=1)
    assert "lacks what the experiment needs: ConfigMaps train-1; the snapshot does not hold them" in said
    assert ("the function's source" in said) == (files == {"function.py": 3})
    assert api.objects == {}


def test_secrets_that_are_there_need_no_word(podtune: Podtune, api: MovingApi, store: MemoryStore) -> None:
    put_snapshot(store, checkpoints={"store": {"bucket": "models", "credentialsSecret": "s3-keys"}})
    api.objects[paths.secret(HERE, "s3-keys")] = {"metadata": {"name": "s3-keys"}}
    assert "Secret" not in podtune(f"restore {ADDRESS}")


WARM = {"search": {"algorithm": "tpe", "maxTrials": 3, "warmStart": {"experiment": "coarse"}}}


def test_what_the_search_had_learnt_from_an_earlier_experiment_is_restored(
    podtune: Podtune, api: MovingApi, store: MemoryStore
) -> None:
    put_snapshot(store, **WARM)
    data = {"experiment": "coarse", "results.jsonl": '{"parameters": {}, "values": [0.5], "step": 3}\n'}
    store_record(store, PREFIX, record({"kind": "ConfigMap", "data": data}, 1, WARM_START))
    assert "warmStart" not in podtune(f"restore {ADDRESS} --name again")
    assert api.objects[paths.config_map(HERE, "again-warm-start")]["data"] == data


@pytest.mark.parametrize("body", [None, b'{"kind": "ConfigMap", "data": {"results.jsonl": 3}}'])
def test_where_that_is_missing_or_damaged_the_remedy_is_told(
    podtune: Podtune, store: MemoryStore, body: bytes | None
) -> None:
    put_snapshot(store, **WARM)
    if body is not None:
        store.put_bytes(format_key(PREFIX, RecordName(WARM_START, 1)), body)
    said = podtune(f"restore {ADDRESS}")
    assert "what the search had learnt from experiment coarse (search.warmStart)" in said
    assert "import or restore that one, too" in said
    assert ("is damaged: data is no map of texts" in said) == (body is not None)


def test_under_another_name(podtune: Podtune, api: MovingApi, store: MemoryStore) -> None:
    put_snapshot(store)
    podtune(f"restore {ADDRESS} --name numbers")
    assert find(api, "numbers-0")["status"]["checkpoint"] == checkpoint(4), "it stays where it is"


def test_the_folder_above_will_do_where_it_holds_but_one(podtune: Podtune, api: MovingApi, store: MemoryStore) -> None:
    put_snapshot(store)
    podtune("restore s3://models/demo")
    assert find(api, "digits-0")["status"]["state"] == "PENDING"


def test_of_several_experiments_one_has_to_be_named(podtune: Podtune, api: MovingApi, store: MemoryStore) -> None:
    put_snapshot(store)
    store_records(store, "demo/e-2/", [record(experiment_body(), 3)])
    said = podtune("restore s3://models/demo", expect=1)
    assert "s3://models/demo/e-1 (digits); s3://models/demo/e-2 (" in said
    assert api.objects == {}


def put_record(store: MemoryStore, prefix: str, name: str, namespace: str, *, former: str = "") -> None:
    """The Experiment's own record alone."""
    body = experiment_body(checkpoints={"store": {"bucket": "models", "credentialsSecret": "s3-keys"}})
    body["metadata"] |= {"name": name, "namespace": namespace, "annotations": {"podtune.dev/former": former}}
    body["status"] = {"state": "Running", "trials": {"total": 8, "terminated": 3, "error": 1}}
    assert store_records(store, prefix, [record(body, 3)]) == 1


def test_all_experiments_of_a_bucket_are_listed_without_a_cluster(
    podtune: Podtune, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_record(store, "team/e-2/", "numbers", "speech")
    put_record(store, "demo/e-1/", "digits", "vision")
    monkeypatch.setattr(api_client, "open_api", lambda *_: pytest.fail("a cluster was asked"))
    lines = podtune("restore --list s3://models/").splitlines()
    assert [line.split() for line in lines] == [
        ["NAMESPACE", "NAME", "STATE", "TRIALS", "ADDRESS"],
        ["speech", "numbers", "Running", "4/8", "s3://models/team/e-2"],
        ["vision", "digits", "Running", "4/8", "s3://models/demo/e-1"],
    ]
    (item,) = json.loads(podtune("restore --list s3://models/demo -o json"))["items"]
    assert (item["address"], item["secrets"], item["configMaps"]) == ("s3://models/demo/e-1", ["s3-keys"], [])


def test_what_was_restored_since_is_not_listed_again_and_what_is_damaged_is_told(
    podtune: Podtune, store: MemoryStore
) -> None:
    put_record(store, "demo/e-1/", "digits", "vision")
    put_record(store, "demo/e-2/", "digits", "vision", former="e-0/digits,e-1/digits")
    store.put_bytes(format_key("demo/e-3/", RecordName("", 1)), b"{")
    said = podtune("restore --list s3://models")
    assert [line.split()[-1] for line in said.splitlines() if line.startswith("vision")] == ["s3://models/demo/e-2"]
    assert "1 older snapshot left out" in said
    assert "warning: s3://models/demo/e-3 has an experiment that can't be restored: the record " in said


def test_where_nothing_is_to_be_listed_that_is_said(podtune: Podtune) -> None:
    said = podtune("restore --list s3://models/x", expect=1)
    assert "there is no snapshot of an experiment below s3://models/x" in said


def test_where_there_is_no_snapshot_that_is_said(podtune: Podtune) -> None:
    assert "there is no snapshot of an experiment below s3://models/x" in podtune("restore s3://models/x", expect=1)


def test_a_restore_that_was_broken_off_is_taken_up_again(podtune: Podtune, api: MovingApi, store: MemoryStore) -> None:
    put_snapshot(store)
    api.fails_at = paths.trial(HERE, "digits-1")
    podtune(f"restore {ADDRESS}", expect=1)
    api.fails_at = ""
    podtune(f"restore {ADDRESS}")
    assert find(api, "digits-1")["status"]["state"] == "TERMINATED"


@pytest.mark.parametrize(
    ("bucket", "is_told"), [("models", False), ("lost", True), ("model", True)], ids=["its own", "another", "a part"]
)
def test_where_a_copy_is_restored_that_is_said(
    bucket: str, is_told: bool, podtune: Podtune, store: MemoryStore
) -> None:
    put_snapshot(store, checkpoints={"store": {"bucket": bucket}})
    warning = f"this is read from {ADDRESS}, but trials go on from s3://{bucket}, as the spec says"
    assert (warning in podtune(f"restore {ADDRESS}")) is is_told


def test_an_address_has_to_be_one(podtune: Podtune, tmp_path: Path) -> None:
    assert "write it like s3://bucket/path" in podtune(f"restore {tmp_path}", expect=1)


def report(store: MemoryStore, folder: str, trial: str, steps: range, *, number: int, time: float) -> None:
    """Results of one attempt, one a second."""
    attempt = f"pod-{folder}-{number}"
    header = encode_header(SegmentHeader("team", "digits", trial, attempt, number))
    results = [Result(seq, time + seq, {"accuracy": 0.5}, step) for seq, step in enumerate(steps, 1)]
    key = f"demo/{folder}/{trial}/{attempt}/results/0/{SegmentName(1, int(1000 * time)).format()}"
    store.put_bytes(key, header + b"".join(f"{encode_result(result)}\n".encode() for result in results))


def tell_results(podtune: Podtune, name: str) -> list[tuple[str, int, float]]:
    found = [json.loads(line) for line in podtune(f"results {name} -o json").splitlines()]
    return [(each["trial"], each["attempt"], float(each["time"][-7:-1])) for each in found]


def test_results_from_before_are_shown_once_also_after_two_losses_and_under_another_name(
    podtune: Podtune, api: MovingApi, store: MemoryStore
) -> None:
    bucket = {"checkpoints": {"store": {"bucket": "models", "prefix": "demo"}}}
    put_snapshot(store, **bucket)
    report(store, "e-1", "digits-0", range(1, 8), number=1, time=0)
    report(store, "e-1", "digits-1", range(1, 3), number=1, time=10)
    podtune(f"restore {ADDRESS}")
    before = [("digits-0", 1, float(at)) for at in range(1, 8)]
    ended = [("digits-1", 1, 11.0), ("digits-1", 1, 12.0)]
    assert tell_results(podtune, "digits") == before + ended, "nothing has run again yet"

    made = api.objects[paths.experiment(HERE, "digits")]
    folder = made["metadata"]["uid"]
    report(store, folder, "digits-0", range(5, 7), number=2, time=20)
    again = [("digits-0", 2, 21.0), ("digits-0", 2, 22.0)]
    assert tell_results(podtune, "digits") == before[:4] + ended + again, "it went on from iteration 4"

    for number, name in enumerate(("", "digits-0", "digits-1"), 1):
        body = find(api, name) if name else made
        body = {**body, "metadata": {**body["metadata"], "namespace": HERE}}
        store_records(store, f"demo/{folder}/", [record(body, number, name)])
    podtune(f"restore s3://models/demo/{folder} --name numbers")
    third = api.objects[paths.experiment(HERE, "numbers")]
    assert third["metadata"]["annotations"]["podtune.dev/former"] == f"e-1/digits,{folder}/digits"
    report(store, third["metadata"]["uid"], "numbers-0", range(6, 7), number=3, time=30)
    assert tell_results(podtune, "numbers-0") == [
        *(("numbers-0", number, at) for _, number, at in before[:4]),
        ("numbers-0", 2, 21.0),
        ("numbers-0", 3, 31.0),
    ]
    assert tell_results(podtune, "numbers-1") == [("numbers-1", number, at) for _, number, at in ended]
