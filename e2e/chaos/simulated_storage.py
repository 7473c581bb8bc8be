"""Storage pods: one that tidies the bucket of simulated agents, and one that is the real program."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
import tempfile
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

from e2e.chaos.api import MERGE, Api, ApiFailure, Object
from e2e.chaos.operator_process import ROOT
from e2e.chaos.truth import Truth
from podtune.protocol import agent_environment as agent_env
from podtune.protocol.storage_job import CHUNK_KEY, StoragePurpose, StorageReport, parse_task, read_chunk

CONTAINER = "podtune-storage"


async def play_storage_pod(api: Api, body: Object, truth: Truth) -> None:
    """Does the pod's job, and has it end."""
    task = parse_task(_environment(body)[agent_env.STORAGE_JOB])
    kept: dict[str, tuple[str, ...]] = {}
    for chunk in await _chunks(api, body):
        kept |= {trial.trial: trial.kept for trial in read_chunk(chunk)}
    mine = [uri for uri in truth.bucket if f"/{task.experiment_uid}/" in uri]
    gone = [
        uri for uri in mine if task.purpose is StoragePurpose.EMPTY or not any(uri in uris for uris in kept.values())
    ]
    for uri in gone:
        del truth.bucket[uri]
    truth.deleted += gone
    report = StorageReport(task.purpose, True, f"{len(gone)} objects deleted", len(gone))
    await _end(api, body, report.to_json(), 0)


async def run_storage_pod(api: Api, body: Object, truth: Truth) -> None:
    """Runs the agent's program with the pod's environment and files."""
    with tempfile.TemporaryDirectory(prefix="podtune-chaos-") as home:
        trials, words = Path(home) / "trials", Path(home) / "termination-log"
        trials.mkdir()
        for number, chunk in enumerate(await _chunks(api, body)):
            (trials / f"{number}.gz").write_bytes(chunk)
        environment = {agent_env.TERMINATION_LOG: str(words), "PYTHONPATH": str(ROOT / "operator")}
        program = (
            "import podtune.protocol.agent_environment as names, runpy, sys\n"
            f"names.STORAGE_DIRECTORY = {str(trials)!r}\n"
            "sys.argv = ['podtune-agent', 'storage']\n"
            "runpy.run_module('podtune.agent.entry', run_name='__main__')"
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program,
            env={**os.environ, **_environment(body), **environment},
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        code = await process.wait()
        await _end(api, body, words.read_text() if words.exists() else "", code)


def _environment(body: Object) -> dict[str, str]:
    variables = body["spec"]["containers"][0]["env"]
    return {e["name"]: e["value"].replace("$$", "$") for e in variables if "value" in e}


async def _chunks(api: Api, body: Object) -> list[bytes]:
    """The ConfigMaps that the pod mounts."""
    task = parse_task(_environment(body)[agent_env.STORAGE_JOB])
    base = f"/api/v1/namespaces/{body['metadata']['namespace']}/configmaps/{body['metadata']['name']}"
    found = [await _config_map(api, f"{base}-{number}") for number in range(task.chunks)]
    return [base64.b64decode(each["binaryData"][CHUNK_KEY]) for each in found]


async def _end(api: Api, body: Object, message: str, code: int) -> None:
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    end = {"exitCode": code, "reason": "Completed", "startedAt": moment, "finishedAt": moment, "message": message}
    status = {
        "phase": "Failed" if code else "Succeeded",
        "startTime": moment,
        "containerStatuses": [
            {"name": CONTAINER, "image": "none", "imageID": "", "ready": False, "restartCount": 0,
             "state": {"terminated": end}},
        ],
    }  # fmt: skip
    path = f"/api/v1/namespaces/{body['metadata']['namespace']}/pods/{body['metadata']['name']}/status"
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
