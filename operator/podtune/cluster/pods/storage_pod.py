"""The pod that does one job in the bucket, and the ConfigMaps with what it has to know of the trials.

It is the agent's image, confined as the agent beside a trial is, and with the same credentials. What the template says
of images' secrets, service account, nodes and queues holds for it too: where the trials may run, it may. The ConfigMaps
belong to the pod, so they go with it; the kubelet waits for them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from podtune.api.names import LABEL_STORAGE
from podtune.cluster import ownership
from podtune.cluster.client import ClusterClient, Manifest
from podtune.cluster.pods.manifest import AGENT_CONFINES, AgentSettings, literal
from podtune.cluster.pods.store_access import credentials_env, store_json, store_mounts, store_volumes
from podtune.kube import paths
from podtune.protocol import agent_environment as agent_env
from podtune.protocol.storage_job import CHUNK_KEY, StorageTask, chunked
from podtune.runner.actions import CreateStoragePod, storage_pod_name
from podtune.runner.checkpoints import exports
from podtune.runner.records import Experiment

CONTAINER = "podtune-storage"
VOLUME = "podtune-trials"
DEADLINE_SECONDS = 2 * 3600
"""After this a pod that still works is ended; the next one goes on where it was."""
_FROM_TEMPLATE = ("imagePullSecrets", "serviceAccountName", "nodeSelector", "tolerations", "priorityClassName")


def storage_pod(experiment: Experiment, action: CreateStoragePod, agent: AgentSettings, chunks: int) -> Manifest:
    """The pod.

    Args:
        experiment: The Experiment, with a spec that names a store.
        action: The job.
        agent: The agent's container.
        chunks: How many ConfigMaps it is to read.
    """
    assert experiment.spec is not None  # its machine asks
    assert experiment.spec.checkpoints.store is not None  # without one there is nothing to be done
    store = experiment.spec.checkpoints.store
    task = StorageTask(
        purpose=action.purpose,
        namespace=experiment.namespace,
        experiment=experiment.name,
        experiment_uid=experiment.uid,
        chunks=chunks,
        export_to=exports.export_prefix(experiment, experiment.spec),
    )
    values = {agent_env.STORAGE_JOB: task.to_json(), agent_env.STORE: store_json(store)}
    name = storage_pod_name(experiment.name, action.number)
    template = experiment.spec.trial_template.spec
    container = {
        "name": CONTAINER,
        "image": agent.image,
        "imagePullPolicy": agent.pull_policy,
        "args": ["storage"],
        "env": [
            *({"name": key, "value": literal(value)} for key, value in values.items()),
            *credentials_env(store),
        ],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **AGENT_CONFINES,
    }
    spec: Manifest = {
        **{field: template[field] for field in _FROM_TEMPLATE if template.get(field)},
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "activeDeadlineSeconds": DEADLINE_SECONDS,
        "containers": [container],
    }
    if volumes := store_volumes(store):
        spec["volumes"] = volumes
        container["volumeMounts"] = store_mounts(store)
    if chunks:
        mount = {"name": VOLUME, "mountPath": agent_env.STORAGE_DIRECTORY, "readOnly": True}
        spec["volumes"] = [*spec.get("volumes", ()), _volume(name, chunks)]
        container["volumeMounts"] = [*container.get("volumeMounts", ()), mount]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {**ownership.labels(experiment.name), LABEL_STORAGE: action.purpose.lower()},
            "ownerReferences": [ownership.of_experiment(experiment, blocks_deletion=False)],
        },
        "spec": spec,
    }


def trial_chunks(action: CreateStoragePod) -> tuple[bytes, ...]:
    """What the pod has to know of the trials, a ConfigMap's worth each."""
    return tuple(chunked(action.trials))


async def create_trial_chunks(
    client: ClusterClient, experiment: Experiment, pod: Mapping[str, Any], chunks: tuple[bytes, ...]
) -> str:
    """Makes the pod's ConfigMaps, which it waits for; says what is in the way of them, if anything.

    Raises:
        ApiError: One could not be made.
    """
    path = paths.config_maps(experiment.namespace)
    for body in _config_maps(experiment, pod, chunks):
        if await ownership.create(client, path, body) is None:
            return f"a ConfigMap {body['metadata']['name']} of another owner is in the way; delete it"
    return ""


def _config_maps(experiment: Experiment, pod: Mapping[str, Any], chunks: tuple[bytes, ...]) -> Iterator[Manifest]:
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    for number, data in enumerate(chunks):
        yield {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": f"{name}-{number}",
                "labels": ownership.labels(experiment.name),
                "ownerReferences": [ownership.controlled_by("v1", "Pod", name, uid, blocks_deletion=False)],
            },
            "immutable": True,
            "binaryData": {CHUNK_KEY: base64.b64encode(data).decode()},
        }


def _volume(name: str, chunks: int) -> Manifest:
    sources = [
        {"configMap": {"name": f"{name}-{number}", "items": [{"key": CHUNK_KEY, "path": f"{number}.gz"}]}}
        for number in range(chunks)
    ]
    return {"name": VOLUME, "projected": {"sources": sources}}
