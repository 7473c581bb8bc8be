"""Turns a pod into a member of a gang, and builds the Service through which the ranks find each other."""

from __future__ import annotations

import copy
import json

from podtune.api.names import GANG_GATE, LABEL_EXPERIMENT, LABEL_RANK, LABEL_ROLE, LABEL_TRIAL, QUEUE_NAME
from podtune.api.pods.pod_template import AGENT_CONTAINER, RESTORE_CONTAINER
from podtune.api.resources.trial_template import TrialTemplate
from podtune.cluster.pods.manifest import INPUTS_VOLUME
from podtune.kube.manifests import Manifest, make_labels, refer_to_trial
from podtune.protocol import agent_environment as agent_env
from podtune.runner.actions import CreatePod
from podtune.runner.records import Experiment
from podtune.trial import layout

MASTER_PORT = "29500"
"""Port of rank 0, as in torchrun; a program that listens elsewhere sets MASTER_PORT itself."""
POD_GROUP = "kueue.x-k8s.io/pod-group-name"
POD_GROUP_SIZE = "kueue.x-k8s.io/pod-group-total-count"
POD_GROUP_RETRIES = "kueue.x-k8s.io/retriable-in-group"


def make_service_name(trial: str) -> str:
    """Name of a trial's Service; it begins with a letter, as that of a trial need not."""
    return f"gang-{trial}"


def make_host_name(attempt: int, rank: int) -> str:
    """Name of a pod below its Service; another one in each attempt, so that no name server remembers the one before."""
    return f"attempt-{attempt}-rank-{rank}"


def make_gang_service(experiment: Experiment, action: CreatePod) -> Manifest:
    """The headless Service of a trial. It names pods that are not ready, too: they meet before they can be."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": make_service_name(action.trial),
            "labels": make_labels(experiment.name, action.trial),
            "ownerReferences": [refer_to_trial(action.trial, action.trial_uid)],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {LABEL_EXPERIMENT: experiment.name, LABEL_TRIAL: action.trial},
        },
    }


def make_rank(pod: Manifest, experiment: Experiment, action: CreatePod, rank: int, leader_uid: str) -> Manifest:
    """The pod of a rank, made from the pod of its role; rank 0 needs no `leader_uid`."""
    assert experiment.spec is not None  # there are no trials without
    template = experiment.spec.trial_template
    role = template.find_role(rank)
    pod = copy.deepcopy(pod)
    metadata, spec = pod["metadata"], pod["spec"]
    metadata["name"] = action.format_name(rank)
    metadata["labels"][LABEL_RANK] = str(rank)
    if role.name:
        metadata["labels"][LABEL_ROLE] = role.name
    if QUEUE_NAME in metadata["labels"]:
        metadata["labels"][POD_GROUP] = f"{action.trial}-{action.attempt}"
        metadata["annotations"][POD_GROUP_SIZE] = str(action.replicas)
        metadata["annotations"][POD_GROUP_RETRIES] = "false"  # an attempt gets no other pods in the place of its own
    spec["schedulingGates"] = [*(spec.get("schedulingGates") or ()), {"name": GANG_GATE}]
    spec["hostname"] = make_host_name(action.attempt, rank)
    spec["subdomain"] = make_service_name(action.trial)
    agents = {agent_env.RANK: str(rank), agent_env.REPLICAS: str(action.replicas)}
    if experiment.spec.checkpoints.ranks == "RankZero":
        agents[agent_env.ALONE] = "true"
    if rank > 0:
        agents[agent_env.ATTEMPT] = leader_uid
        _take_token(spec)
    for container in [*spec["initContainers"], *spec["containers"]]:
        own = container["name"] in (AGENT_CONTAINER, RESTORE_CONTAINER)
        added = agents if own else _build_program_environment(action, rank) | _build_role_environment(template, rank)
        container["env"] = [*({"name": name, "value": value} for name, value in added.items()), *container["env"]]
    return pod


def belongs_to(pod: Manifest, leader_uid: str) -> bool:
    """Whether a pod of a rank above 0 was made for this attempt; rank 0 may have been lost and made once more."""
    own = {"name": agent_env.ATTEMPT, "value": leader_uid}
    return any(own in (container.get("env") or ()) for container in pod["spec"]["initContainers"])


def _build_program_environment(action: CreatePod, rank: int) -> dict[str, str]:
    """Where a program finds its place, in our names and in those of torch.distributed."""
    return {
        layout.ENV_RANK: str(rank),
        layout.ENV_REPLICAS: str(action.replicas),
        "RANK": str(rank),
        "WORLD_SIZE": str(action.replicas),
        "MASTER_ADDR": f"{make_host_name(action.attempt, 0)}.{make_service_name(action.trial)}",
        "MASTER_PORT": MASTER_PORT,
    }


def _build_role_environment(template: TrialTemplate, rank: int) -> dict[str, str]:
    """Where a program finds its role; nothing where one template is for all pods."""
    role = template.find_role(rank)
    if not role.name:
        return {}
    return {
        layout.ENV_ROLE: role.name,
        layout.ENV_ROLE_INDEX: str(rank - role.first_rank),
        layout.ENV_ROLE_REPLICAS: str(role.replicas),
        layout.ENV_ROLES: json.dumps({other.name: other.replicas for other in template.ranked_roles}),
    }


def _take_token(spec: Manifest) -> None:
    """The agent of a rank above 0 says nothing to the operator, and so gets no token for it."""
    (inputs,) = [volume["projected"] for volume in spec["volumes"] if volume["name"] == INPUTS_VOLUME]
    inputs["sources"] = [source for source in inputs["sources"] if "serviceAccountToken" not in source]
    (agent,) = [container for container in spec["initContainers"] if container["name"] == AGENT_CONTAINER]
    agent["volumeMounts"] = [mount for mount in agent["volumeMounts"] if mount["name"] != INPUTS_VOLUME]
