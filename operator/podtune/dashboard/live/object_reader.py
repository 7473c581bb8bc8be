"""What a page asks the API server for on request alone: a pod's log and its Events, and a Trial as it is written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Protocol, TypeVar

from aiohttp import web

from podtune.cli.client.api_client import Api
from podtune.cli.client.resources import TrialView
from podtune.cli.commands.logs import find_pod, read_pod_log
from podtune.cli.errors import CliError
from podtune.dashboard.access.visit import VISIT
from podtune.kube import paths
from podtune.kube.manifests import Manifest

MOST_READING = 8
"""So many logs and manifests are read at a time."""
LOG_SILENCE = 30.0
"""Seconds after which the reading of a log ends without an answer: a node that is dead would hold it for minutes."""
LAST_LINES = 200
MOST_BYTES = 64 << 10
"""Of a log, so much is read and no more: a program may print lines of any length."""
Answer = TypeVar("Answer")


class ObjectReader(Protocol):
    """Reads with the rights of whoever asks. All methods wait for the API server, so they run in a thread."""

    def read_log(self, request: web.Request, namespace: str, trial: TrialView, rank: int) -> Sequence[str]:
        """The last lines of the pod of a trial's current or last attempt.

        Raises:
            CliError: There is no such pod, or no log yet.
            ApiError: The server refuses, or can't say.
        """

    def read_events(self, request: web.Request, namespace: str, trial: TrialView, rank: int) -> Sequence[Manifest]:
        """The Events of the pod of a trial's current or last attempt.

        Raises:
            CliError: There is no pod, or none of this rank.
            ApiError: The server refuses, or can't say.
        """

    def read_manifest(self, request: web.Request, namespace: str, trial: str) -> Manifest:
        """A Trial as the API server has it.

        Raises:
            ApiError: The server refuses, or can't say.
        """


class Busy(Exception):
    """All threads that may read are waiting for an answer.

    Attributes:
        other: Of what.
    """

    def __init__(self, other: str) -> None:
        super().__init__(f"as many as may wait for {other}")
        self.other = other


class ReadingThreads:
    """Threads for what waits for the API server or a store, apart from those that draw charts."""

    def __init__(self, other: str = "the API server", most: int = MOST_READING) -> None:
        """Takes what is waited for, and how many may do so at a time."""
        self._other = other
        self._pool = ThreadPoolExecutor(most, "reading")
        self._free = threading.Semaphore(most)

    def submit(self, read: Callable[[], Answer]) -> Future[Answer]:
        """Has something read. A thread is busy until it has its answer, also if nobody waits for that any more.

        Raises:
            Busy: No thread is free.
        """
        if not self._free.acquire(blocking=False):
            raise Busy(self._other)
        future = self._pool.submit(read)
        future.add_done_callback(lambda _: self._free.release())
        return future

    def close(self) -> None:
        """Takes nothing more, and waits for nobody."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class KubeconfigReader:
    """Reads with the kubeconfig of whoever has started the dashboard.

    Every user of that machine can open its pages, for loopback asks for no login: they read with the same rights.
    """

    def __init__(self, connect: Callable[[], Api]) -> None:
        """Takes what opens the API server; it is called for each request, as credentials expire."""
        self._connect = connect

    def read_log(self, request: web.Request, namespace: str, trial: TrialView, rank: int) -> Sequence[str]:
        """See `ObjectReader`."""
        del request  # all requests have the same rights
        limits = {"tailLines": str(LAST_LINES), "limitBytes": str(MOST_BYTES)}
        lines = read_pod_log(self._connect(), namespace, trial, limits, rank=rank, timeout=LOG_SILENCE)
        return list(islice(lines, LAST_LINES))

    def read_events(self, request: web.Request, namespace: str, trial: TrialView, rank: int) -> Sequence[Manifest]:
        """See `ObjectReader`."""
        del request
        selector = f"involvedObject.kind=Pod,involvedObject.name={find_pod(trial, rank)}"
        return self._connect().list_all(paths.core_events(namespace), {"fieldSelector": selector})

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

    def read_events(self, request: web.Request, namespace: str, trial: TrialView, rank: int) -> Sequence[Manifest]:
        """See `ObjectReader`."""
        return self._open(request).read_events(request, namespace, trial, rank)

    def read_manifest(self, request: web.Request, namespace: str, trial: str) -> Manifest:
        """See `ObjectReader`."""
        return self._open(request).read_manifest(request, namespace, trial)

    def _open(self, request: web.Request) -> KubeconfigReader:
        visit = request.get(VISIT)
        if visit is None or visit.session is None:
            raise CliError("this is read with your own token, and you have not logged in with one; use kubectl")
        token = visit.session.token
        return KubeconfigReader(lambda: self._connect_as(token))
