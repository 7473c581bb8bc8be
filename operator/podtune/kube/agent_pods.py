"""What the pods of the agent's image have in common, whoever makes them: the operator, or a person's command line."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from typing import Any

from podtune.api.names import LABEL_STORE_CLAIM
from podtune.api.pods.pod_template import AGENT_UID
from podtune.kube.manifests import Manifest
from podtune.protocol import agent_environment as agent_env

STORE_VOLUME = "podtune-store"
_FROM_TEMPLATE = ("imagePullSecrets", "serviceAccountName", "nodeSelector", "tolerations", "priorityClassName")
_OF_VOLUMES = ("fsGroup", "fsGroupChangePolicy", "supplementalGroups")
_MAX_LABEL = 63
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
AGENT_CONFINES: Manifest = {
    "resources": {
        "requests": {"cpu": "20m", "memory": "64Mi"},
        "limits": {"memory": "512Mi"},
    },
    "securityContext": {
        "runAsUser": AGENT_UID,
        "runAsGroup": AGENT_UID,
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    },
}
"""What a container of the agent may use, and do."""


def choose_from_template(template: Mapping[str, Any]) -> Manifest:
    """What a pod without a trial takes over from the spec of a trial template: it may run where the trials may."""
    return {field: template[field] for field in _FROM_TEMPLATE if template.get(field)}


def choose_volume_groups(template: Mapping[str, Any]) -> Manifest:
    """What the spec of a trial template says of who writes to volumes: a pod's security context."""
    return {field: value for field, value in (template.get("securityContext") or {}).items() if field in _OF_VOLUMES}


def make_claim_volume(claim: str) -> Manifest:
    """The volume that is a store."""
    return {"name": STORE_VOLUME, "persistentVolumeClaim": {"claimName": claim}}


def make_claim_mount(*, read_only: bool) -> Manifest:
    """Where it is mounted."""
    access = {"readOnly": True} if read_only else {}
    return {"name": STORE_VOLUME, "mountPath": agent_env.STORE_DIRECTORY, **access}


def let_agent_write(pod_spec: Manifest, group: int) -> None:
    """Gives the agent's group to the pod's volumes, unless the template has a group, or volumes that are its own."""
    context = pod_spec.get("securityContext") or {}
    claims = any("persistentVolumeClaim" in volume for volume in pod_spec.get("volumes") or ())
    if context.get("fsGroup") is None and not claims:
        # A store may hold many files: where its root directory has the group, the others have it, too.
        pod_spec["securityContext"] = {**context, "fsGroup": group, "fsGroupChangePolicy": "OnRootMismatch"}


def share_node(pod: Manifest, claim: str) -> None:
    """Adds to a pod's manifest that it must run on the node of the other pods of a claim, where there are any.

    The scheduler lets the first one go where it likes.
    """
    value = claim if len(claim) <= _MAX_LABEL else hashlib.sha256(claim.encode()).hexdigest()[:32]
    pod["metadata"]["labels"] = {**pod["metadata"]["labels"], LABEL_STORE_CLAIM: value}
    term = {"labelSelector": {"matchLabels": {LABEL_STORE_CLAIM: value}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = copy.deepcopy(pod["spec"].get("affinity") or {})
    of_pods = affinity.get("podAffinity") or {}
    affinity["podAffinity"] = {**of_pods, _REQUIRED: [*(of_pods.get(_REQUIRED) or ()), term]}
    pod["spec"]["affinity"] = affinity
