"""Whose an object is that the operator makes: its labels, its owner, and whether one that is there is the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from podtune.api.names import (
    API_VERSION,
    EXPERIMENT_KIND,
    FIELD_MANAGER,
    LABEL_EXPERIMENT,
    LABEL_MANAGED_BY,
    LABEL_TRIAL,
    MANAGED_BY,
    TRIAL_KIND,
)
from podtune.cluster import decoders
from podtune.cluster.client import METADATA, ClusterClient
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal
from podtune.runner.records import Experiment

Manifest = dict[str, Any]


def controlled_by(version: str, kind: str, name: str, uid: str, *, blocks_deletion: bool = True) -> Manifest:
    """The reference to the one owner that an object has; it is deleted with it.

    Args:
        version: API version of the owner.
        kind: Its kind.
        name: Its name.
        uid: Its UID.
        blocks_deletion: Whether a foreground deletion of the owner waits for the object.
    """
    reference: Manifest = {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}
    return {**reference, "blockOwnerDeletion": True} if blocks_deletion else reference


def of_experiment(experiment: Experiment, *, blocks_deletion: bool = True) -> Manifest:
    """The reference to an Experiment as the owner."""
    name, uid = experiment.name, experiment.uid
    return controlled_by(API_VERSION, EXPERIMENT_KIND, name, uid, blocks_deletion=blocks_deletion)


def of_trial(trial: str, uid: str) -> Manifest:
    """The reference to a Trial as the owner."""
    return controlled_by(API_VERSION, TRIAL_KIND, trial, uid)


def labels(experiment: str, trial: str = "") -> dict[str, str]:
    """The labels of what belongs to an experiment, or to one of its trials."""
    of = {LABEL_TRIAL: trial} if trial else {}
    return {LABEL_EXPERIMENT: experiment, **of, LABEL_MANAGED_BY: MANAGED_BY}


async def create(
    client: ClusterClient, path: str, body: Manifest, check: Callable[[Manifest], object] = lambda _: None
) -> Manifest | None:
    """Creates an object; one that is there already is as good if it has the same owner, else None.

    Of a new object only the metadata is asked back: the rest is as it was sent, but for defaults that nobody here
    looks at, and a pod is a long text.

    Args:
        client: The API server.
        path: Where objects of its kind are.
        body: The object, with one owner.
        check: Is shown one that is there already, and raises what it has against it.

    Raises:
        ApiError: It could not be created.
    """
    try:
        made = await client.request("POST", path, params={"fieldManager": FIELD_MANAGER}, body=body, accept=METADATA)
        return {**body, "metadata": made["metadata"]}
    except ApiRefusal as refusal:
        if not refusal.is_already_there:
            raise
    (owner,) = body["metadata"]["ownerReferences"]
    existing = await client.request("GET", paths.name_in(path, body["metadata"]["name"]))
    if decoders.owner_uid(existing, owner["kind"]) != owner["uid"]:
        return None
    check(existing)
    return existing
