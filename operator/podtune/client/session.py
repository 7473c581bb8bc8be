"""The way to a cluster, which a client shares with all that it gives out."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from typing import TypeVar

from podtune.cli.client.api_client import Api
from podtune.cli.client.store_access import StoreOptions
from podtune.client.errors import InvalidArgument, raise_own_errors
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal

T = TypeVar("T")


class ClusterSession:
    """Asks the API server. Threads may share it."""

    def __init__(self, connect: Callable[[], tuple[Api, str]], store_options: StoreOptions) -> None:
        """Opens the API server.

        Args:
            connect: Opens it, and says which namespace is meant; it is called again where credentials have expired.
            store_options: How stores of checkpoints and results are reached.

        Raises:
            ConnectionFailed: No way to a cluster is known.
        """
        self._connect = connect
        self.store_options = store_options
        self._lock = threading.Lock()
        self.namespace: str
        """Which namespace is meant where none is named."""
        with raise_own_errors():
            self._api, self.namespace = connect()

    @property
    def api(self) -> Api:
        """The API server."""
        with self._lock:
            return self._api

    def call(self, ask: Callable[[Api], T]) -> T:
        """Asks the API server for something, once more with new credentials where it no longer takes ours.

        Raises:
            PodtuneError: It can't be done.
        """
        with raise_own_errors():
            api = self.api
            try:
                return ask(api)
            except ApiRefusal as error:
                if not is_expired(error):
                    raise
            return ask(self.renew(api))

    def renew(self, expired: Api) -> Api:
        """Opens the API server again, as a cloud's credentials are good for minutes; one thread does it for all."""
        with self._lock:
            if self._api is expired:
                self._api, _ = self._connect()
            return self._api


def is_expired(error: Exception) -> bool:
    """Whether the API server does not know us any more."""
    return isinstance(error, ApiRefusal) and error.status == http.client.UNAUTHORIZED


def check_name(argument: str, value: object) -> str:
    """Checks that an argument can be the name of an object.

    Raises:
        InvalidArgument: It can't.
    """
    if not isinstance(value, str) or not value:
        raise InvalidArgument(f"{argument}: {value!r} is no name; give one as a text")
    try:
        paths.name_in("", value)
    except paths.PathError as error:
        raise InvalidArgument(f"{argument}: {error}") from error
    return value
