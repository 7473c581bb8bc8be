"""Whether pods are well, by their status."""

from __future__ import annotations

from collections.abc import Iterator

from podtune.kube.manifests import Manifest

NO_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
"""Why a container waits whose image can't be had."""


def is_ready(pod: Manifest) -> bool:
    """Whether all its containers are ready."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def list_waits(pod: Manifest) -> Iterator[tuple[str, str, str]]:
    """The containers that wait for something: image, Kubernetes' reason, and its sentence."""
    status = pod.get("status") or {}
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or ():
            if waiting := (container.get("state") or {}).get("waiting"):
                yield container.get("image", ""), waiting.get("reason", ""), waiting.get("message", "")


def explain_waiting(pod: Manifest) -> str:
    """Why a pod is not ready, and the remedy."""
    for image, reason, message in list_waits(pod):
        if reason in NO_IMAGE:
            return f"its image {image} can't be pulled ({message or reason}); correct the image, or its pull secret"
        if reason == "CrashLoopBackOff":
            return "it ends again and again; look at its log: kubectl logs --previous"
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"it has no node: {condition.get('message', '')}; give the cluster room"
    return "its containers are not ready; look at kubectl describe pod"
