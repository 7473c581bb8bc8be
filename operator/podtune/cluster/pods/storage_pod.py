"""The pod that does one job in the bucket, and the ConfigMaps with what it needs to know about the trials.

It runs the agent's image with the same restrictions and credentials as the agent beside a trial. The template's image
pull secrets, service account, nodes and queues apply to it, too: it may run where the trials may. The ConfigMaps belong
to the pod, so they are deleted with it; the kubelet waits for them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence

from podtune.api.names import LABEL_STORAGE
from podtune.api.pods.pod_template import AGENT_UID
from podtune.cluster.pods.manifest import AgentSettings, escape_expansions
from podtune.cluster.pods.store_access import encode_store, make_credentials_env, make_store_mounts, make_store_volumes
from podtune.cluster.pods.tracker_access import encode_tracker, make_tracker_mounts, make_tracker_volumes
from podtune.kube.agent_pods import choose_from_template, choose_volume_groups, let_agent_write
from podtune.kube.manifests import Manifest, make_labels, refer_to_experiment, refer_to_owner
from podtune.protocol import agent_environment as agent_env
from podtune.protocol.storage_job import CHUNK_KEY, StorageTask
from podtune.runner.actions import CreateStoragePod, format_storage_pod_name
from podtune.runner.checkpoints import exports
from podtune.runner.records import Experiment

CONTAINER = "podtune-storage"
VOLUME = "podtune-trials"
DEADLINE_SECONDS = 2 * 3600
"""After this time a pod that is still working is ended; the next one continues where it stopped."""
LABEL_AZURE_IDENTITY = "azure.workload.identity/use"


def make_storage_pod(experiment: Experiment, action: CreateStoragePod, agent: AgentSettings, chunks: int) -> Manifest:
    """The pod."""
    assert experiment.spec is not None  # its machine asks
    assert experiment.spec.checkpoints.store is not None  # without one there is nothing to be done
    store = experiment.spec.checkpoints.store
    task = StorageTask(
        purpose=action.purpose,
        namespace=experiment.namespace,
        experiment=experiment.name,
        experiment_uid=experiment.uid,
        chunks=chunks,
        export_to=exports.build_export_prefix(experiment, experiment.spec),
        ends_event_files=experiment.spec.trackers.tensor_board is not None,
    )
    values = {agent_env.STORAGE_JOB: task.to_json(), agent_env.STORE: encode_store(store)}
    trackers = experiment.spec.trackers
    if trackers.mlflow is not None:
        values[agent_env.TRACKER] = encode_tracker(trackers, experiment.name)
    name = format_storage_pod_name(experiment.name, action.number)
    template = experiment.spec.trial_template.leading_role.template.spec
    container = {
        **agent.make_container(CONTAINER, ["storage"]),
        "env": [
            *({"name": key, "value": escape_expansions(value)} for key, value in values.items()),
            *make_credentials_env(store),
        ],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    spec: Manifest = {
        **choose_from_template(template),
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "activeDeadlineSeconds": DEADLINE_SECONDS,
        "containers": [container],
    }
    if store.volume is not None:
        spec["securityContext"] = choose_volume_groups(template)
        let_agent_write(spec, AGENT_UID)
    if volumes := [*make_store_volumes(store), *make_tracker_volumes(trackers)]:
        spec["volumes"] = volumes
        container["volumeMounts"] = [*make_store_mounts(store), *make_tracker_mounts(trackers)]
    if chunks:
        mount = {"name": VOLUME, "mountPath": agent_env.STORAGE_DIRECTORY, "readOnly": True}
        spec["volumes"] = [*spec.get("volumes", ()), _make_volume(name, chunks)]
        container["volumeMounts"] = [*container.get("volumeMounts", ()), mount]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {
                **_find_identity(experiment.spec.trial_template.metadata.labels),
                **make_labels(experiment.name),
                LABEL_STORAGE: action.purpose.lower(),
            },
            "ownerReferences": [refer_to_experiment(experiment.name, experiment.uid, blocks_deletion=False)],
        },
        "spec": spec,
    }


def _find_identity(labels: Mapping[str, str]) -> dict[str, str]:
    """The label of a template by which Azure gives pods the identity of their service account."""
    return {name: value for name, value in labels.items() if name == LABEL_AZURE_IDENTITY}


def make_trial_chunks(experiment: Experiment, pod: Manifest, chunks: Sequence[bytes]) -> Iterator[Manifest]:
    """The ConfigMaps with what a pod has to know of the trials, which it waits for."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    for number, data in enumerate(chunks):
        yield {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": f"{name}-{number}",
                "labels": make_labels(experiment.name),
                "ownerReferences": [refer_to_owner("v1", "Pod", name, uid, blocks_deletion=False)],
            },
            "immutable": True,
            "binaryData": {CHUNK_KEY: base64.b64encode(data).decode()},
        }


def _make_volume(name: str, chunks: int) -> Manifest:
    sources = [
        {"configMap": {"name": f"{name}-{number}", "items": [{"key": CHUNK_KEY, "path": f"{number}.gz"}]}}
        for number in range(chunks)
    ]
    return {"name": VOLUME, "projected": {"sources": sources}}
