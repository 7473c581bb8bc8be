"""What an agent's pod is told of the bucket."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from podtune.agent.sync_settings import ArtifactSettings, SyncSettings
from podtune.api.pods.pod_template import AGENT_UID
from podtune.api.pods.quantities import parse_size
from podtune.api.resources.checkpoints import Checkpoints, CheckpointStore
from podtune.api.resources.experiment import KeptLogs, Snapshot
from podtune.api.resources.results import Results
from podtune.cluster.pods.manifest import AgentSettings, make_pod
from podtune.cluster.pods.store_access import (
    encode_store,
    encode_sync,
    make_credentials_env,
    make_store_mounts,
    make_store_volumes,
)
from podtune.storage.address import (
    AzureAddress,
    GcsAddress,
    PluginAddress,
    S3Address,
    VolumeAddress,
    parse_store_address,
)
from podtune.storage.checkpoint.address import TrialAddress
from tests.unit.cluster.objects import experiment_record
from tests.unit.cluster.pods.test_scratch import CREATE


def checkpoints(**fields: Any) -> Checkpoints:
    return Checkpoints.model_validate({"store": {"bucket": "models"}} | fields)


def test_the_agent_reads_the_store_as_it_was_meant() -> None:
    store = checkpoints(
        store={
            "bucket": "models",
            "endpoint": "https://s3:9000",
            "addressing": "VirtualHost",
            "kmsKeyID": "key",
            "wireChecksums": "whenSupported",
            "caBundle": {"name": "ca"},
            "credentialsSecret": "podtune-s3",
        }
    ).store
    assert store is not None
    assert parse_store_address(encode_store(store)) == S3Address(
        "models",
        endpoint="https://s3:9000",
        addressing="VirtualHost",
        kms_key="key",
        wire_checksums="whenSupported",
        ca_file="/etc/podtune/ca/ca.crt",
        credentials="/etc/podtune/credentials/podtune-s3",
    )


@pytest.mark.parametrize(
    ("kind", "address", "items"),
    [
        ({"gcs": {"bucket": "models"}}, GcsAddress("models", "team"), ["serviceAccountKey"]),
        (
            {"azure": {"account": "lab", "container": "models"}},
            AzureAddress("models", "lab", "team"),
            ["accountKey", "sasToken", "tenantID", "clientID", "clientSecret"],
        ),
        (
            {"plugin": {"name": "shelf", "settings": {"room": 3}}},
            PluginAddress("shelf", "team", '{"room": 3}'),
            None,
        ),
    ],
)
def test_agents_of_other_stores_are_told_of_them_and_mount_their_secrets(
    kind: dict[str, Any], address: GcsAddress | AzureAddress | PluginAddress, items: list[str] | None
) -> None:
    store = checkpoints(store=kind | {"prefix": "team", "credentialsSecret": "key"}).store
    assert store is not None
    told = parse_store_address(encode_store(store))
    assert told == replace(address, credentials="/etc/podtune/credentials/key")
    (volume,) = make_store_volumes(store)
    assert [item["key"] for item in volume["secret"].get("items", [])] == (items or [])
    assert volume["secret"]["optional"]
    (mount,) = make_store_mounts(store)
    assert (mount["mountPath"], mount["readOnly"]) == ("/etc/podtune/credentials/key", True)
    assert make_credentials_env(store) == [], "none of these keys is public"


def test_server_and_authorities_are_those_of_the_manifest() -> None:
    store = checkpoints(
        store={"gcs": {"bucket": "models"}, "endpoint": "https://gcs:1", "caBundle": {"name": "ca"}}
    ).store
    assert store is not None
    assert parse_store_address(encode_store(store)) == GcsAddress(
        "models", endpoint="https://gcs:1", ca_file="/etc/podtune/ca/ca.crt"
    )


@pytest.mark.parametrize("prefix", ["", "team/digits"])
@pytest.mark.parametrize(
    "kind",
    [
        {"bucket": "models"},
        {"gcs": {"bucket": "models"}},
        {"azure": {"account": "lab", "container": "models"}},
        {"volume": {"claimName": "models"}},
        {"plugin": {"name": "shelf"}},
    ],
)
def test_operator_and_agent_make_the_same_uris(kind: dict[str, Any], prefix: str) -> None:
    store = checkpoints(store=kind | {"prefix": prefix}).store
    assert store is not None
    address = parse_store_address(encode_store(store))
    assert store.uri == address.uri
    assert store.build_prefix("uid") == f"{address.uri}/{address.experiment_prefix('uid')}"
    assert store.build_prefix("uid", "e-1") == f"{address.uri}/{TrialAddress(address, 'uid', 'e-1').prefix}"


def test_the_agent_reads_how_to_store_as_it_was_meant() -> None:
    found = SyncSettings.from_json(
        encode_sync(
            checkpoints(
                layout="Packed",
                reuseUnchanged=False,
                exclude=["*.tmp"],
                sync={"timeout": "1m", "retries": 3},
                artifacts={"include": ["logs/*"], "period": "10s", "onCheckpoint": False},
            ),
            Results(keep="1Gi"),
            KeptLogs(keep="8Mi"),
            Snapshot(period="1m"),
        )
    )
    assert (found.options.packs, found.options.reuses, found.options.exclude) == (True, False, ("*.tmp",))
    assert (found.timeout, found.retries) == (60, 3)
    assert found.artifacts == ArtifactSettings(("logs/*",), (), 10, False)
    assert (found.results, found.logs) == (1 << 30, 8 << 20)
    assert found.snapshot_period == 60


def test_defaults_take_no_room_in_the_pod_and_are_the_agents_own() -> None:
    assert encode_sync(checkpoints(), Results(), KeptLogs(), Snapshot()) == ""
    assert SyncSettings.from_json("") == SyncSettings(results=parse_size(Results().keep))
    store = checkpoints().store
    assert store is not None
    assert json.loads(encode_store(store)) == {"bucket": "models"}


def test_the_agent_is_told_where_the_volume_is() -> None:
    store = CheckpointStore.model_validate({"volume": {"claimName": "models"}, "prefix": "team"})
    assert parse_store_address(encode_store(store)) == VolumeAddress("models", "team", "/podtune-store")


def test_the_volume_is_mounted_by_the_agent_and_never_by_the_program() -> None:
    record = experiment_record(checkpoints={"store": {"volume": {"claimName": "models"}}})
    action = replace(CREATE, find=True)
    spec = make_pod(record, action, AgentSettings("agent:1", "Always", "http://r"))["spec"]
    assert {"name": "podtune-store", "persistentVolumeClaim": {"claimName": "models"}} in spec["volumes"]
    mounts = {
        container["name"]: [mount for mount in container["volumeMounts"] if mount["name"] == "podtune-store"]
        for container in [*spec["initContainers"], *spec["containers"]]
    }
    assert mounts.pop("podtune-agent") == [{"name": "podtune-store", "mountPath": "/podtune-store"}]
    assert mounts.pop("podtune-restore") == [{"name": "podtune-store", "mountPath": "/podtune-store", "readOnly": True}]
    assert list(mounts.values()) == [[]]
    assert spec["securityContext"]["fsGroup"] == AGENT_UID
    assert spec["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"


def test_a_template_with_volumes_or_a_group_of_its_own_keeps_them_as_they_are() -> None:
    for own in (
        {"securityContext": {"fsGroup": 7}},
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
    ):
        whole = {"containers": [{"name": "main", "image": "i"}]} | own
        record = experiment_record(
            checkpoints={"store": {"volume": {"claimName": "models"}}}, trialTemplate={"spec": whole}
        )
        spec = make_pod(record, CREATE, AgentSettings("agent:1", "Always", "http://r"))["spec"]
        assert spec["securityContext"].get("fsGroup") == own.get("securityContext", {}).get("fsGroup")


def test_certificates_reach_the_agent_and_nobody_else() -> None:
    for kind, source in (("ConfigMap", "configMap"), ("Secret", "secret")):
        bundle = {"kind": kind, "name": "ca", "key": "bundle.pem"}
        store = checkpoints(store={"bucket": "models", "caBundle": bundle}).store
        (volume,) = make_store_volumes(store)
        assert volume[source]["items"] == [{"key": "bundle.pem", "path": "ca.crt"}]
        record = experiment_record(checkpoints={"store": {"bucket": "models", "caBundle": bundle}})
        spec = make_pod(record, CREATE, AgentSettings("agent:1", "Always", "http://r"))["spec"]
        assert volume in spec["volumes"]
        agent = next(c for c in spec["initContainers"] if c["name"] == "podtune-agent")
        assert make_store_mounts(store)[0] in agent["volumeMounts"]
        assert all(mount["name"] != "podtune-ca" for mount in spec["containers"][0]["volumeMounts"])
