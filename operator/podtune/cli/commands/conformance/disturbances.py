"""What is done to a trial, its pod, its store, its namespace, and the operator."""

from __future__ import annotations

from contextlib import suppress

from podtune.api.names import LABEL_LEADER, DesiredState
from podtune.cli.commands.conformance.checks import Observed, Rig
from podtune.cli.commands.conformance.program import RELAY_PORT, make_relay, make_relay_service
from podtune.cli.commands.doctor.installation import list_operator_pods
from podtune.cli.commands.doctor.pods import is_ready
from podtune.kube import paths
from podtune.kube.errors import ResourceExists
from podtune.kube.manifests import Manifest

_RELAY = "conformance-store"
_QUOTA = "conformance"
_MANY = "20"
_LEADER = "leader"


def start_trial(rig: Rig) -> None:
    """Makes the Experiment."""
    rig.start()


def release_program(rig: Rig) -> None:
    """Has a program go on that waits for a request: each time for another one."""
    rig.notes["requests"] = f"{rig.notes.get('requests', '')}r"
    rig.change_trial({"checkpointRequest": {"id": rig.notes["requests"]}})


def evict_pod(rig: Rig) -> None:
    """Asks the Eviction API to take the pod away, as `kubectl drain` does."""
    name = _find_pod(rig)["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    rig.api.create(paths.eviction_of(paths.pod(rig.namespace, name)), eviction)


def lose_pod(rig: Rig) -> None:
    """Deletes the pod without any time to end, as somebody does whose node does not answer any more."""
    rig.delete(paths.pod(rig.namespace, _find_pod(rig)["metadata"]["name"]), grace=0)


def _find_pod(rig: Rig) -> Manifest:
    """The trial's pod.

    Raises:
        LookupError: It has none.
    """
    pods = rig.observe().live_pods
    if not pods:
        raise LookupError(f"trial {rig.trial} has no pod any more")
    return pods[0]


def pause_trial(rig: Rig) -> None:
    """Has the trial pause."""
    rig.change_trial({"desiredState": DesiredState.PAUSED})


def resume_trial(rig: Rig) -> None:
    """Has it go on."""
    rig.change_trial({"desiredState": DesiredState.RUNNING})


def kill_operator(rig: Rig) -> None:
    """Deletes the pod of the operator that leads, without any time to end.

    Raises:
        LookupError: None leads.
    """
    leaders = _list_leaders(rig)
    if not leaders:
        raise LookupError(f"no operator in namespace {rig.home} leads")
    metadata = leaders[0]["metadata"]
    rig.notes[_LEADER] = metadata["uid"]
    rig.api.delete(paths.pod(rig.home, metadata["name"]), metadata["uid"], grace=0)


def is_led_by_another(rig: Rig, _: Observed) -> bool:
    """Whether an operator leads that is not the one that was killed."""
    return any(is_ready(pod) and pod["metadata"]["uid"] != rig.notes.get(_LEADER) for pod in _list_leaders(rig))


def _list_leaders(rig: Rig) -> list[Manifest]:
    pods = list_operator_pods(rig.api, rig.home)
    return [pod for pod in pods if (pod["metadata"].get("labels") or {}).get(LABEL_LEADER)]


def connect_store(rig: Rig) -> None:
    """Puts a relay before the store's server, if there is none."""
    assert rig.store is not None  # as the check needs one
    assert rig.store.server is not None
    service = paths.name_in(paths.services(rig.namespace), _RELAY)
    if service not in rig.made:
        rig.make(paths.services(rig.namespace), make_relay_service(_RELAY))
    rig.make(paths.pods(rig.namespace), make_relay(_RELAY, rig.image, *rig.store.server))


def mend_store(rig: Rig) -> None:
    """Puts the relay back where a check has ended without it."""
    with suppress(ResourceExists):
        connect_store(rig)


def is_store_connected(rig: Rig, _: Observed) -> bool:
    """Whether the relay takes connections."""
    return is_ready(rig.api.get(paths.pod(rig.namespace, _RELAY)))


def start_behind_relay(rig: Rig) -> None:
    """Makes an Experiment that knows the store by the relay."""
    assert rig.store is not None
    rig.start({**rig.store.spec, "endpoint": f"http://{_RELAY}.{rig.namespace}.svc:{RELAY_PORT}"})


def disconnect_store(rig: Rig) -> None:
    """Takes the relay away, and has the program store checkpoints."""
    rig.delete(paths.pod(rig.namespace, _RELAY), grace=0)
    release_program(rig)


def fill_quota(rig: Rig) -> None:
    """Leaves no room for a pod in the namespace."""
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": _QUOTA}, "spec": {"hard": {"pods": "0"}}}
    rig.make(paths.resource_quotas(rig.namespace), body)


def is_quota_in_force(rig: Rig, _: Observed) -> bool:
    """Whether the API server goes by the quota."""
    quota = rig.api.get(paths.name_in(paths.resource_quotas(rig.namespace), _QUOTA))
    return "pods" in ((quota.get("status") or {}).get("hard") or {})


def raise_quota(rig: Rig) -> None:
    """Makes room for pods."""
    path = paths.name_in(paths.resource_quotas(rig.namespace), _QUOTA)
    rig.api.patch(path, {"spec": {"hard": {"pods": _MANY}}})
