"""Reads logs and manifests for a viewer with the viewer's own token, so that the API server says what they may read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aiohttp import web

from podtune.cli.client.api_client import Api
from podtune.cli.client.resources import TrialView
from podtune.cli.errors import CliError
from podtune.dashboard.access.visit import VISIT
from podtune.dashboard.live.object_reader import KubeconfigReader
from podtune.kube.manifests import Manifest


class TokenReader:
    """An `ObjectReader` of a dashboard that many people share."""

    def __init__(self, connect_as: Callable[[str], Api]) -> None:
        """Takes what opens the API server with a token."""
        self._connect_as = connect_as

    def read_log(self, request: web.Request, namespace: str, trial: TrialView, rank: int) -> Sequence[str]:
        """See `ObjectReader`."""
        return self._open(request).read_log(request, namespace, trial, rank)

    def read_manifest(self, request: web.Request, namespace: str, trial: str) -> Manifest:
        """See `ObjectReader`."""
        return self._open(request).read_manifest(request, namespace, trial)

    def _open(self, request: web.Request) -> KubeconfigReader:
        visit = request.get(VISIT)
        if visit is None or visit.session is None:
            raise CliError("this is read with your own token, and you have not logged in with one; use kubectl")
        token = visit.session.token
        return KubeconfigReader(lambda: self._connect_as(token))
