"""A short-lived pod through which a person reads a volume: made with that person's own rights, and deleted afterwards.

It mounts the claim read-only and runs the agent's image, with as few rights as the agent has. If the command line is
killed, the pod ends by itself soon after its last connection has broken. The next reader deletes what is left of it, as
does the deletion of the Experiment.
"""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from podtune.api.names import LABEL_MANAGED_BY, LABEL_READER
from podtune.api.pods.pod_template import AGENT_UID
from podtune.cli.client.api_client import Api
from podtune.cli.errors import CliError, explain_error
from podtune.cli.output import print_note
from podtune.kube import paths
from podtune.kube.agent_pods import (
    AGENT_CONFINES,
    choose_from_template,
    choose_volume_groups,
    let_agent_write,
    make_claim_mount,
    make_claim_volume,
    share_node,
)
from podtune.kube.errors import ApiError, ApiRefusal, ResourceNotFound
from podtune.kube.manifests import Manifest, refer_to_experiment
from podtune.protocol import agent_environment as agent_env
from podtune.storage.address import VolumeAddress
from podtune.storage.volume.remote_store import ConnectionLost, ReaderConnection, RemoteVolumeStore

READER_CONTAINER = "podtune-reader"
READER_DEADLINE = 6 * 3600
"""After this time a pod is ended, whoever still reads."""
START_SECONDS = 180.0
_LOOK_SECONDS = 0.5
_COMMAND = ("podtune-agent", "read-volume")
_MANAGED_BY = "kubectl-podtune"
_HOPELESS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"}
)
_RIGHTS = (
    "reading a volume takes a pod of yours: ask for a role with the verbs create, get and delete on pods, and get and "
    "create on pods/exec, as the ClusterRole edit has them"
)


@dataclass(frozen=True, slots=True)
class ReaderPlan:
    """The pod that is to be made.

    Attributes:
        address: The volume.
        image: The agent's image.
        experiment: Name of the Experiment that the pod goes with; empty where there is none.
        uid: Its UID.
        template: The spec of its trial template.
    """

    namespace: str
    address: VolumeAddress
    image: str
    experiment: str = ""
    uid: str = ""
    template: Mapping[str, Any] = field(default_factory=dict)


@contextmanager
def open_volume(
    api: Api,
    plan: ReaderPlan,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[RemoteVolumeStore]:
    """Makes the pod, and deletes it at the end.

    Raises:
        CliError: The pod may not be made, or does not start; the text says what to do.
        ApiError: The server can't say.
    """
    name = f"podtune-reader-{os.urandom(4).hex()}"
    print_note(f"reading the volume of claim {plan.address.claim} through pod {name}")
    _delete_leftovers(api, plan.namespace)
    path = paths.pod(plan.namespace, name)
    uid = _create(api, plan, name)
    store = RemoteVolumeStore(plan.address, lambda: _connect(api, path, plan))
    try:
        _wait_until_it_runs(api, path, plan, clock, sleep)
        try:
            store.connect()
        except ConnectionLost as error:
            raise CliError(f"pod {name} does not answer: {error}; is {plan.image} an agent of this version?") from error
        yield store
    finally:
        store.close()
        _delete(api, path, uid)


def make_reader_pod(plan: ReaderPlan, name: str) -> Manifest:
    """The pod."""
    address = {"kind": "volume", "claim": plan.address.claim, "prefix": plan.address.prefix}
    spec: Manifest = {
        **choose_from_template(plan.template),
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "activeDeadlineSeconds": READER_DEADLINE,
        "terminationGracePeriodSeconds": 1,
        "securityContext": choose_volume_groups(plan.template),
        "containers": [
            {
                "name": READER_CONTAINER,
                "image": plan.image,
                "imagePullPolicy": "IfNotPresent",
                "args": ["reader"],
                "env": [{"name": agent_env.STORE, "value": json.dumps(address)}],
                "volumeMounts": [make_claim_mount(read_only=True)],
                **AGENT_CONFINES,
            }
        ],
    }
    let_agent_write(spec, AGENT_UID)
    spec["volumes"] = [make_claim_volume(plan.address.claim)]
    metadata: Manifest = {"name": name, "labels": {LABEL_READER: "true", LABEL_MANAGED_BY: _MANAGED_BY}}
    if plan.uid:
        metadata["ownerReferences"] = [refer_to_experiment(plan.experiment, plan.uid, blocks_deletion=False)]
    pod: Manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    # Whether one node at a time can mount the claim need not be known: where more can, no other pod has the label.
    share_node(pod, plan.address.claim)
    return pod


def _create(api: Api, plan: ReaderPlan, name: str) -> str:
    """Makes the pod; returns its UID."""
    try:
        made = api.create(paths.pods(plan.namespace), make_reader_pod(plan, name))
    except ApiRefusal as error:
        raise _explain_refusal(error, f"create pods in namespace {plan.namespace}") from error
    return str(made["metadata"]["uid"])


def _wait_until_it_runs(
    api: Api, path: str, plan: ReaderPlan, clock: Callable[[], float], sleep: Callable[[float], None]
) -> None:
    give_up_at = clock() + START_SECONDS
    while True:
        try:
            pod = api.get(path)
        except ResourceNotFound as error:
            raise CliError("the pod that was to read the volume was deleted; try again") from error
        except ApiRefusal as error:
            raise _explain_refusal(error, f"get pods in namespace {plan.namespace}") from error
        status = pod.get("status") or {}
        containers: list[Manifest] = status.get("containerStatuses") or []
        state = containers[0].get("state") or {} if containers else {}
        if "running" in state:
            return
        waiting = state.get("waiting") or {}
        if waiting.get("reason") in _HOPELESS:
            raise CliError(
                f"the pod that was to read the volume can't start: {waiting.get('reason')}: "
                f"{waiting.get('message') or plan.image}; name another image of the agent with --agent-image"
            )
        if status.get("phase") in ("Failed", "Succeeded"):
            said = status.get("message") or status.get("reason") or json.dumps(state)
            raise CliError(f"the pod that was to read the volume has ended: {said}; try again")
        if clock() >= give_up_at:
            raise CliError(_explain_delay(api, plan, pod))
        sleep(_LOOK_SECONDS)


def _explain_delay(api: Api, plan: ReaderPlan, pod: Manifest) -> str:
    """Why a pod has not started, as far as it can be known."""
    claim = plan.address.claim
    late = f"the pod that was to read the volume has not started within {START_SECONDS:.0f} s"
    conditions = (pod.get("status") or {}).get("conditions") or ()
    unplaced = [c for c in conditions if c.get("type") == "PodScheduled" and c.get("status") == "False"]
    if unplaced:
        return (
            f"{late}: {unplaced[0].get('message') or 'no node has room for it'}; if one node at a time can mount claim "
            f"{claim}, make room for the pod there (20m CPU, 64 MiB), or wait until trials have ended"
        )
    warnings = _list_warnings(api, plan.namespace, pod["metadata"]["name"])
    return (
        f"{late}: {warnings[-1] if warnings else 'its node says nothing'}; see that claim {claim} can be mounted, and "
        "is mounted on no other node if one at a time can"
    )


def _list_warnings(api: Api, namespace: str, pod: str) -> list[str]:
    """What Kubernetes warns of, where the caller may read it."""
    with suppress(ApiError):
        events = api.list_all(paths.events(namespace), {"fieldSelector": f"regarding.name={pod},type=Warning"})
        return [f"{event.get('reason')}: {event.get('note')}" for event in events]
    return []


def _connect(api: Api, path: str, plan: ReaderPlan) -> ReaderConnection:
    try:
        return api.execute(path, READER_CONTAINER, _COMMAND)
    except ApiRefusal as error:
        raise _explain_refusal(error, f"get and create pods/exec in namespace {plan.namespace}") from error


def _explain_refusal(error: ApiRefusal, doing: str) -> CliError:
    if error.is_lack_of_rights and error.status == http.client.FORBIDDEN:
        return CliError(f"you may not {doing} ({error.message}); {_RIGHTS}")
    return CliError(f"{explain_error(error)}; {_RIGHTS.partition(':')[0]}")


def _delete(api: Api, path: str, uid: str) -> None:
    try:
        api.delete(path, uid)
    except ResourceNotFound:
        return
    except ApiError as error:
        print_note(f"{path.rpartition('/')[2]} is not deleted ({explain_error(error)}); it ends by itself in a minute")


def _delete_leftovers(api: Api, namespace: str) -> None:
    """Deletes the pods of earlier readers that have ended by themselves, as far as the caller may."""
    with suppress(ApiError):
        for pod in api.list_all(paths.pods(namespace), {"labelSelector": f"{LABEL_READER}=true"}):
            if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
                api.delete(paths.pod(namespace, pod["metadata"]["name"]), pod["metadata"]["uid"])
