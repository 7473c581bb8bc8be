"""Puts a packed function into an Experiment's manifest, and both into the cluster.

The ConfigMap is created first: no pod ever waits for a volume that is not there. Then comes the Experiment, and with
its UID the ConfigMap's owner, so that Kubernetes deletes the one with the other (docs/decisions/0043).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from podtune.api.pods.function_volume import FUNCTION_VOLUME
from podtune.api.pods.pod_template import TRIAL_CONTAINER
from podtune.api.resources.experiment import MAX_NAME
from podtune.cli.client.api_client import Api
from podtune.client.errors import AlreadyExists, InvalidArgument, NotPossible, ObjectNotFound, Refused
from podtune.client.packing.packed import PackedFunction
from podtune.client.session import ClusterSession
from podtune.kube import paths
from podtune.kube.manifests import Manifest, refer_to_experiment


def make_experiment_name(function: str, token: str) -> str:
    """A name for the Experiment of this function that no other has: its own, and a random token."""
    words = function.lower().replace("_", "-").strip("-")
    return f"{words[: MAX_NAME - len(token) - 1].rstrip('-') or 'function'}-{token}"


def make_config_map_name(experiment: str, token: str) -> str:
    """A name for the ConfigMap; by the token another one each time, for an earlier one may be about to be deleted."""
    return f"{experiment}-function-{token}"


def add_function(manifest: Manifest, packed: PackedFunction, config_map: str) -> None:
    """Has the training container of a manifest run the function.

    Raises:
        InvalidArgument: The pod has no such container.
    """
    pod: dict[str, Any] = manifest["spec"]["trialTemplate"].get("spec") or {}
    containers = [entry for entry in pod.get("containers") or () if entry.get("name") == TRIAL_CONTAINER]
    if not containers:
        raise InvalidArgument(
            f"spec.trialTemplate.spec.containers: has no container {TRIAL_CONTAINER!r} that the function could run in; "
            "give it that name, and leave out roles"
        )
    [container] = containers
    container["command"] = packed.command
    container["volumeMounts"] = [*(container.get("volumeMounts") or ()), packed.make_mount()]
    pod["volumes"] = [*(pod.get("volumes") or ()), packed.make_volume(config_map)]


def find_config_map(manifest: Mapping[str, Any], documents: Iterable[Any]) -> Manifest | None:
    """The ConfigMap that the function of this Experiment travels in, among the documents of a file."""
    names = _list_config_maps(manifest)
    for document in documents:
        match document:
            case {"kind": "ConfigMap", "metadata": {"name": name}} if name in names:
                found: Manifest = document
                return found
    return None


def _list_config_maps(manifest: Mapping[str, Any]) -> list[object]:
    """Names of the ConfigMaps of the function's volume; of a manifest that is not as it should be, none."""
    names: list[object] = []
    match manifest:
        case {"spec": {"trialTemplate": {"spec": {"volumes": [*volumes]}}}}:
            for volume in volumes:
                match volume:
                    case {"name": name, "configMap": {"name": config_map}} if name == FUNCTION_VOLUME:
                        names.append(config_map)
    return names


def create_objects(
    session: ClusterSession, namespace: str, manifest: Mapping[str, Any], config_map: Mapping[str, Any] | None
) -> Manifest:
    """Creates an Experiment, and the ConfigMap that its function travels in, if there is one.

    Raises:
        NotPossible: There is a ConfigMap of that name.
        PodtuneError: The API server refuses one of them, and then has neither; or it does not answer.
    """
    if config_map is None:
        return session.call(lambda api: api.create(paths.experiments(namespace), manifest))
    name = config_map["metadata"]["name"]
    try:
        made = session.call(lambda api: api.create(paths.config_maps(namespace), config_map))
    except AlreadyExists as error:
        raise NotPossible(
            f"there is a ConfigMap {name} in namespace {namespace!r} already, of an earlier experiment; make this one "
            "anew by Experiment.from_function, or delete the earlier one"
        ) from error
    path, uid = paths.config_map(namespace, name), made["metadata"]["uid"]
    try:
        experiment = session.call(lambda api: api.create(paths.experiments(namespace), manifest))
    except (AlreadyExists, ObjectNotFound, Refused):  # and not where no answer came: it may have been created
        session.call(lambda api: api.delete(path, uid))
        raise
    session.call(lambda api: _give_to(api, path, experiment))
    return experiment


def _give_to(api: Api, path: str, experiment: Manifest) -> None:
    metadata = experiment["metadata"]
    owner = refer_to_experiment(metadata["name"], metadata["uid"], blocks_deletion=False)
    api.patch(path, {"metadata": {"ownerReferences": [owner]}})
