"""A storage pod that tidies the bucket of a simulated agent: what it deletes is what its ConfigMaps tell it to."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime
from http import HTTPStatus

from e2e.chaos.api import MERGE, Api, ApiFailure, Object
from e2e.chaos.truth import Truth
from podtune.protocol import agent_environment as agent_env
from podtune.protocol.storage_job import CHUNK_KEY, StoragePurpose, StorageReport, parse_task, read_chunk

CONTAINER = "podtune-storage"


async def play_storage_pod(api: Api, body: Object, truth: Truth) -> None:
    """Does the pod's job, and has it end."""
    metadata, container = body["metadata"], body["spec"]["containers"][0]
    namespace, name = metadata["namespace"], metadata["name"]
    variable = next(e["value"] for e in container["env"] if e["name"] == agent_env.STORAGE_JOB)
    task = parse_task(variable.replace("$$", "$"))
    kept: dict[str, tuple[str, ...]] = {}
    for number in range(task.chunks):
        found = await _config_map(api, f"/api/v1/namespaces/{namespace}/configmaps/{name}-{number}")
        for trial in read_chunk(base64.b64decode(found["binaryData"][CHUNK_KEY])):
            kept[trial.trial] = trial.kept
    mine = [uri for uri in truth.bucket if f"/{task.experiment_uid}/" in uri]
    gone = [
        uri for uri in mine if task.purpose is StoragePurpose.EMPTY or not any(uri in uris for uris in kept.values())
    ]
    for uri in gone:
        del truth.bucket[uri]
    truth.deleted += gone
    report = StorageReport(task.purpose, True, f"{len(gone)} objects deleted", len(gone))
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    end = {"exitCode": 0, "reason": "Completed", "startedAt": moment, "finishedAt": moment, "message": report.to_json()}
    status = {
        "phase": "Succeeded",
        "startTime": moment,
        "containerStatuses": [
            {"name": CONTAINER, "image": "none", "imageID": "", "ready": False, "restartCount": 0,
             "state": {"terminated": end}},
        ],
    }  # fmt: skip
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
    await api.request("PATCH", path, {"status": status}, content_type=MERGE)


async def _config_map(api: Api, path: str) -> Object:
    """A ConfigMap that the pod mounts; it may come after the pod, and the kubelet waits for it."""
    while True:
        try:
            return await api.request("GET", path)
        except ApiFailure as failure:
            if failure.status != HTTPStatus.NOT_FOUND:
                raise
        await asyncio.sleep(0.1)
