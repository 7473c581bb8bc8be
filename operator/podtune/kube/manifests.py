"""The objects that both the operator and the command line create, with their owners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podtune.api.names import (
    API_VERSION,
    EXPERIMENT_KIND,
    LABEL_EXPERIMENT,
    LABEL_MANAGED_BY,
    LABEL_TRIAL,
    MANAGED_BY,
    TRIAL_KIND,
)

Manifest = dict[str, Any]
"""An object as the API server takes and gives it."""


@dataclass(frozen=True, slots=True)
class NamedObject:
    """Which object it is, as far as it says so; empty is what it does not say.

    Attributes:
        kind: Its kind, such as Pod.
        namespace: Its namespace.
        name: Its name.
        experiment: Name of the Experiment that it is, or belongs to.
    """

    kind: str
    namespace: str
    name: str
    experiment: str


def name_object(body: Mapping[str, Any]) -> NamedObject:
    """Which object it is, for a line about something else that is wrong with it."""
    metadata = body.get("metadata") or {}
    kind, namespace, name = str(body.get("kind") or ""), metadata.get("namespace"), str(metadata.get("name") or "")
    experiment = name if kind == EXPERIMENT_KIND else (metadata.get("labels") or {}).get(LABEL_EXPERIMENT)
    return NamedObject(kind, str(namespace or ""), name, str(experiment or ""))


def make_labels(experiment: str, trial: str = "") -> dict[str, str]:
    """The labels of what belongs to an experiment, or to one of its trials."""
    of_trial = {LABEL_TRIAL: trial} if trial else {}
    return {LABEL_EXPERIMENT: experiment, **of_trial, LABEL_MANAGED_BY: MANAGED_BY}


def select_experiment(name: str) -> dict[str, str]:
    """The query for the objects that belong to an experiment."""
    return {"labelSelector": f"{LABEL_EXPERIMENT}={name}"}


def refer_to_owner(version: str, kind: str, name: str, uid: str, *, blocks_deletion: bool = True) -> Manifest:
    """The reference to the one owner that an object has; it is deleted with it.

    If it blocks deletion, a foreground deletion of the owner waits for the object.
    """
    reference: Manifest = {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}
    return {**reference, "blockOwnerDeletion": True} if blocks_deletion else reference


def refer_to_experiment(name: str, uid: str, *, blocks_deletion: bool = True) -> Manifest:
    """The reference to an Experiment as the owner."""
    return refer_to_owner(API_VERSION, EXPERIMENT_KIND, name, uid, blocks_deletion=blocks_deletion)


def refer_to_trial(name: str, uid: str) -> Manifest:
    """The reference to a Trial as the owner."""
    return refer_to_owner(API_VERSION, TRIAL_KIND, name, uid)


def find_owner(body: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """The reference to the owner of that kind; empty where there is none."""
    for reference in body["metadata"].get("ownerReferences") or ():
        if reference.get("controller") and reference.get("kind") == kind:
            owner: Mapping[str, Any] = reference
            return owner
    return {}


def find_owner_uid(body: Mapping[str, Any], kind: str) -> str:
    """UID of the owner of that kind; empty where there is none."""
    return str(find_owner(body, kind).get("uid", ""))


def make_trial(
    name: str, experiment: str, owner: Manifest, spec: Mapping[str, Any], labels: Mapping[str, str]
) -> Manifest:
    """A Trial with labels of its own."""
    metadata = {"name": name, "labels": {**labels, **make_labels(experiment)}, "ownerReferences": [owner]}
    return {"apiVersion": API_VERSION, "kind": TRIAL_KIND, "metadata": metadata, "spec": spec}


def make_warm_start_name(experiment: str) -> str:
    """Name of the ConfigMap that keeps what an experiment has learnt from an earlier one."""
    return f"{experiment}-warm-start"


def make_warm_start(experiment: str, owner: Manifest, data: Mapping[str, str]) -> Manifest:
    """That ConfigMap: immutable, and gone with the experiment that learns."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": make_warm_start_name(experiment),
            "labels": make_labels(experiment),
            "ownerReferences": [owner],
        },
        "immutable": True,
        "data": dict(data),
    }


def make_function(name: str, data: Mapping[str, str], owner: Manifest | None = None) -> Manifest:
    """The ConfigMap that a function travels in; nobody can change it, so that all attempts run the same code."""
    metadata = {"name": name} if owner is None else {"name": name, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "immutable": True, "data": dict(data)}
