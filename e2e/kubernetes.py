"""A test's hands on the cluster: kubectl, reading, and waiting."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from e2e.api_reader import ApiReader
from e2e.devcluster import Cluster
from e2e.devcluster.errors import ClusterError

Object = dict[str, Any]
T = TypeVar("T")

DEADLINE = 300.0
"""Seconds for what comes in moments on an idle machine: a busy one is no fault of the product's."""
INTERVAL = 0.2


class Kubernetes:
    """kubectl on the local cluster, in one namespace or in none."""

    def __init__(self, cluster: Cluster, namespace: str = "default") -> None:
        self.cluster = cluster
        self.namespace = namespace
        self._reader = ApiReader(cluster)

    def kubectl(self, *words: str, stdin: str | None = None, timeout: float = DEADLINE) -> str:
        """Runs kubectl and returns what it printed."""
        return self.cluster.kubectl("-n", self.namespace, *words, stdin=stdin, timeout=timeout)

    def podtune(self, *words: str, stdin: str = "") -> str:
        """Runs the command line as a user would, from inside the cluster's network, and returns what it printed."""
        command = [sys.executable, "-m", "podtune.cli.main", *words, "-n", self.namespace]
        return self.cluster.run(command, stdin=stdin).stdout

    def apply(self, *objects: Object) -> None:
        """Applies objects."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def get(self, kind: str, name: str) -> Object:
        """An object as it is now."""
        if self._reader.knows(kind):
            return self._reader.get(self.namespace, kind, name)
        found: Object = json.loads(self.kubectl("get", kind, name, "-o", "json"))
        return found

    def list(self, kind: str, selector: str = "") -> list[Object]:
        """All objects of a kind."""
        if self._reader.knows(kind):
            return self._reader.list(self.namespace, kind, selector)
        words = ["get", kind, "-o", "json", *(["-l", selector] if selector else [])]
        items: list[Object] = json.loads(self.kubectl(*words))["items"]
        return items

    def wait_for_condition(self, kind: str, name: str, condition: str, deadline: float = DEADLINE) -> None:
        """`kubectl wait`, as a user would."""
        self.kubectl(
            "wait",
            f"--for=condition={condition}",
            f"{kind}/{name}",
            f"--timeout={deadline:.0f}s",
            timeout=deadline + 30,
        )

    @contextmanager
    def logs(self, label: str, *, namespace: str) -> Iterator[None]:
        """Shows the end of some pods' logs if what is inside fails."""
        try:
            yield
        except BaseException:
            print(self.cluster.kubectl("-n", namespace, "logs", "-l", label, "--tail=60", "--all-containers"))
            raise


def condition(resource: Object, kind: str) -> Object:
    """A condition of an object's status; empty where it has none of this type."""
    return next((c for c in resource.get("status", {}).get("conditions", []) if c["type"] == kind), {})


def eventually(
    look: Callable[[], T], accept: Callable[[T], bool] = bool, *, deadline: float = DEADLINE, what: str = ""
) -> T:
    """Looks again and again until what is seen is accepted.

    Raises:
        AssertionError: It was not within the deadline; the message shows what was seen last.
    """
    end = time.monotonic() + deadline
    seen: object = None
    while True:
        try:
            found = look()
        except (ClusterError, LookupError) as error:
            seen = error
        else:
            if accept(found):
                return found
            seen = found
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline:.0f} s: {what or accept}; last seen: {seen!s:.3000}")
        time.sleep(INTERVAL)
