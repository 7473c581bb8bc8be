"""What a page asks the API server for on request alone: the end of a pod's log, and a Trial as it is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Protocol

from aiohttp import web

from podtune.cli.client.api_client import Api
from podtune.cli.client.resources import TrialView
from podtune.cli.commands.logs import read_pod_log
from podtune.cli.errors import CliError
from podtune.dashboard.access.visit import VISIT
from podtune.kube import paths
from podtune.kube.manifests import Manifest

LAST_LINES = 200
MOST_BYTES = 64 << 10
"""Of a log, so much is read and no more: a program may print lines of any length."""


class ObjectReader(Protocol):
    """Reads with the rights of whoever asks. Both methods wait for the API server, so they run in a thread."""

    def read_log(self, request: web.Request, namespace: str, trial: TrialView, rank: int) -> Sequence[str]:
        """The last lines of the pod of a trial's current or last attempt.

        Raises:
            CliError: There is no such pod, or no log yet.
            ApiError: The server refuses, or can't say.
        """

    def read_manifest(self, request: web.Request, namespace: str, trial: str) -> Manifest:
        """A Trial as the API server has it.

        Raises:
            ApiError: The server refuses, or can't say.
        """


class KubeconfigReader:
    """Reads with the kubeconfig of whoever has started the dashboard, who alone can open its pages."""

    def __init__(self, connect: Callable[[], Api]) -> None:
        """Takes what opens the API server; it is called for each request, as credentials expire."""
        self._connect = connect

    def read_log(self, request: web.Request, namespace: str, trial: TrialView, rank: int) -> Sequence[str]:
        """See `ObjectReader`."""
        del request  # all requests are the same person's
        limits = {"tailLines": str(LAST_LINES), "limitBytes": str(MOST_BYTES)}
        return list(islice(read_pod_log(self._connect(), namespace, trial, limits, rank=rank), LAST_LINES))

    def read_manifest(self, request: web.Request, namespace: str, trial: str) -> Manifest:
        """See `ObjectReader`."""
        del request
        return self._connect().get(paths.trial(namespace, trial))


class TokenReader:
    """Reads for each viewer of a dashboard with their own token: so the API server says what they may read."""

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
