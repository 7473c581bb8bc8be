"""What an agent's pod is told of the bucket."""

from __future__ import annotations

import json
from typing import Any

from podtune.agent.sync_settings import ArtifactSettings, SyncSettings
from podtune.api.resources.checkpoints import Checkpoints
from podtune.cluster.pods.manifest import AgentSettings, make_pod
from podtune.cluster.pods.store_access import encode_store, encode_sync, make_store_mounts, make_store_volumes
from podtune.storage.checkpoint.address import StoreAddress
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
    assert StoreAddress.from_json(encode_store(store)) == StoreAddress(
        "models",
        endpoint="https://s3:9000",
        addressing="VirtualHost",
        kms_key="key",
        wire_checksums="whenSupported",
        ca_file="/etc/podtune/ca/ca.crt",
        credentials="/etc/podtune/credentials/podtune-s3",
    )


def test_the_agent_reads_how_to_store_as_it_was_meant() -> None:
    found = SyncSettings.from_json(
        encode_sync(
            checkpoints(
                layout="Packed",
                reuseUnchanged=False,
                exclude=["*.tmp"],
                sync={"timeout": "1m", "retries": 3},
                artifacts={"include": ["logs/*"], "period": "10s", "onCheckpoint": False},
            )
        )
    )
    assert (found.options.packs, found.options.reuses, found.options.exclude) == (True, False, ("*.tmp",))
    assert (found.timeout, found.retries) == (60, 3)
    assert found.artifacts == ArtifactSettings(("logs/*",), (), 10, False)


def test_defaults_take_no_room_in_the_pod_and_are_the_agents_own() -> None:
    assert encode_sync(checkpoints()) == ""
    assert SyncSettings.from_json("") == SyncSettings()
    store = checkpoints().store
    assert store is not None
    assert json.loads(encode_store(store)) == {"bucket": "models"}


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
