"""Pods in namespaces where Pod Security takes none that may run as root.

Most public images run as root, so a pod whose template says nothing of `runAsNonRoot` is sent without it. Where the API
server refuses it for that, the pod is sent once more, and says so: Pod Security "restricted" asks for no more. What a
template does say stands. Nobody has to read the namespace's labels, or the configuration of the API server, for this.

Later pods of such a namespace say so from the beginning. After some minutes one is sent without it again: an
administrator may have relaxed the namespace for the sake of an image that needs root.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from podtune.cluster.pods.security_context import forbid_root
from podtune.kube.errors import ApiRefusal
from podtune.kube.manifests import Manifest

log = structlog.get_logger(__name__)

Answer = TypeVar("Answer")

RESTRICTED_SECONDS = 300.0
"""For so long a namespace is taken to be as it was: as often as a refused pod is tried again."""
MAX_RESTRICTED = 1_000
"""So many namespaces are remembered; one that is forgotten costs a request."""


class RestrictedNamespaces:
    """Sends pods, and remembers where they must not run as root."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Knows of no namespace yet; `clock` is monotonic time in seconds."""
        self._clock = clock
        self._confirmed: dict[str, float] = {}
        """By namespace, the longest known first: when a pod was last refused without."""

    async def send(self, namespace: str, pod: Manifest, request: Callable[[Manifest], Awaitable[Answer]]) -> Answer:
        """Sends a pod by a request; if that is refused since the pod may run as root, one that may not.

        Raises:
            ApiError: The request has failed; where two were made, this is what the second one was answered.
        """
        confined = forbid_root(pod)
        if confined is None:
            return await request(pod)
        confirmed = self._confirmed.get(namespace)
        if confirmed is not None and self._clock() - confirmed < RESTRICTED_SECONDS:
            return await request(confined)
        try:
            return await request(pod)
        except ApiRefusal as refusal:
            if not refusal.is_about_root:
                raise
        answer = await request(confined)
        self._remember(namespace)
        return answer

    def _remember(self, namespace: str) -> None:
        if namespace not in self._confirmed:
            log.info("pods get runAsNonRoot", namespace=namespace)
        self._confirmed[namespace] = self._clock()
        while len(self._confirmed) > MAX_RESTRICTED:
            del self._confirmed[next(iter(self._confirmed))]
