"""Reads objects of the local cluster without kubectl.

A test that waits looks several times a second. A kubectl for each look takes a tenth of a second of processor time,
which the trials need that it waits for.
"""

from __future__ import annotations

import functools
import http.client
import json
import urllib.parse
from contextlib import closing
from typing import Any

from e2e.devcluster import Cluster
from e2e.devcluster.errors import ClusterError
from podtune.api.names import EXPERIMENT_PLURAL, GROUP, TRIAL_PLURAL, VERSION
from podtune.cli.client.kubeconfig import ServerAccess, connect

Object = dict[str, Any]

_TIMEOUT = 60.0
"""Seconds that an answer may take."""
_GROUPS = {
    f"{EXPERIMENT_PLURAL}.{GROUP}": f"/apis/{GROUP}/{VERSION}",
    f"{TRIAL_PLURAL}.{GROUP}": f"/apis/{GROUP}/{VERSION}",
    "pods": "/api/v1",
    "events": "/api/v1",
    "configmaps": "/api/v1",
}
"""Where the kinds are that tests look at again and again, by what kubectl calls them."""


class ApiReader:
    """Reads with the administrator's credentials."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @staticmethod
    def knows(kind: str) -> bool:
        """Whether objects of this kind can be read here; the others are kubectl's."""
        return kind in _GROUPS

    def get(self, namespace: str, kind: str, name: str) -> Object:
        """One object.

        Raises:
            ClusterError: There is none, or no answer.
        """
        return self._read(f"{_find_collection(namespace, kind)}/{urllib.parse.quote(name, safe='')}")

    def list(self, namespace: str, kind: str, selector: str = "") -> list[Object]:
        """All objects of a kind, each with its kind and version, as kubectl writes them; raises as `get`."""
        query = f"?{urllib.parse.urlencode({'labelSelector': selector})}" if selector else ""
        found = self._read(f"{_find_collection(namespace, kind)}{query}")
        own = {"apiVersion": found["apiVersion"], "kind": found["kind"].removesuffix("List")}
        return [own | item for item in found["items"]]

    @functools.cached_property
    def _access(self) -> ServerAccess:
        return connect(self._cluster.kubeconfig)

    def _read(self, path: str) -> Object:
        try:
            with closing(self._connect()) as connection:
                connection.request("GET", path, headers={"Accept": "application/json", **self._access.headers})
                answer = connection.getresponse()
                body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ClusterError(f"GET {path}: {error!r}") from error
        if answer.status != http.client.OK:
            raise ClusterError(f"GET {path}: {answer.status} {body[:1000].decode(errors='replace')}")
        found: Object = json.loads(body)
        return found

    def _connect(self) -> http.client.HTTPConnection:
        """A connection from within the cluster's network, where its socket stays."""
        server = urllib.parse.urlsplit(self._access.server)
        connection = http.client.HTTPSConnection(
            server.hostname or "", server.port, timeout=_TIMEOUT, context=self._access.tls
        )
        with self._cluster.inside():
            connection.connect()
        return connection


def _find_collection(namespace: str, kind: str) -> str:
    """The path of all objects of a kind in a namespace."""
    plural, _, _ = kind.partition(".")
    return f"{_GROUPS[kind]}/namespaces/{namespace}/{plural}"
