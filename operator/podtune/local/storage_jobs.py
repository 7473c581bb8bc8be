"""Jobs in the store without a trial: what storage pods do in a cluster, in a thread here."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

from podtune.agent.event_log import EventLog
from podtune.agent.settings import AgentSettingsError
from podtune.agent.storage_pod.pod import StoragePodSettings, run_storage
from podtune.cluster.pods.storage_pod import make_storage_pod
from podtune.local.directory import RunDirectory
from podtune.local.local_pod import LOCAL_AGENT, locate_store
from podtune.local.program import expand
from podtune.protocol import agent_environment as agent_env
from podtune.protocol.storage_job import StorageReport, encode_chunks
from podtune.runner.actions import CreateStoragePod, format_storage_pod_name
from podtune.runner.records import Experiment, PodPhase, StoragePod
from podtune.storage.stores import make_store


def do_storage_job(
    experiment: Experiment,
    action: CreateStoragePod,
    directory: RunDirectory,
    on_storage_pod: Callable[[StoragePod], None],
) -> None:
    """Does a job, and tells of it as of a pod that has ended."""
    name = format_storage_pod_name(experiment.name, action.number)
    place = directory.find_attempt(name)
    place.mkdir(parents=True, exist_ok=True)
    chunks = tuple(encode_chunks(action.trials))
    for number, data in enumerate(chunks):
        (place / f"{number}.gz").write_bytes(data)
    container = make_storage_pod(experiment, action, LOCAL_AGENT, len(chunks))["spec"]["containers"][0]
    variables = {entry["name"]: expand(entry["value"], {}) for entry in container["env"]}
    variables[agent_env.STORE] = locate_store(variables[agent_env.STORE], directory.store)
    variables[agent_env.TERMINATION_LOG] = str(directory.find_termination_message(name))
    try:
        with directory.find_agent_log(name).open("a", encoding="utf-8") as output:
            log = EventLog(time.time, {"command": "storage"}, output)
            run_storage(StoragePodSettings.from_environ(variables, place), log, Random(), make_store)
        words = directory.find_termination_message(name).read_text(encoding="utf-8")
    except (AgentSettingsError, OSError) as error:
        words = StorageReport(action.purpose, ok=False, message=str(error)).to_json()
    on_storage_pod(StoragePod(name, name, PodPhase.SUCCEEDED, version=1, started=True, message=words))
