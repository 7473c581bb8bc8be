"""Which Kubernetes the local cluster is: that of all tests, or another version beside it."""

from __future__ import annotations

import os

from e2e.devcluster.errors import ClusterError

VARIABLE = "PODTUNE_KUBERNETES"
KUBERNETES_VERSION = "1.34.4"
OTHER_VERSIONS = {"1.33": "1.33.13"}
"""Further versions that tests run on, by the value of the variable; each is a module in `tools/kubernetes-…`."""


def choose_other() -> str | None:
    """Return the other version that the environment asks for, such as ``1.33``; None for that of all tests.

    Raises:
        ClusterError: There is no such version.
    """
    asked = os.environ.get(VARIABLE, "")
    if not asked or KUBERNETES_VERSION.startswith(f"{asked}."):
        return None
    if asked not in OTHER_VERSIONS:
        known = ", ".join((KUBERNETES_VERSION.rpartition(".")[0], *OTHER_VERSIONS))
        raise ClusterError(f"{VARIABLE}={asked}: the local cluster comes in {known}")
    return asked


def find_version() -> str:
    """Return the whole number of the version that the environment asks for, such as ``1.33.13``."""
    other = choose_other()
    return KUBERNETES_VERSION if other is None else OTHER_VERSIONS[other]


def name_of_its_own(name: str) -> str:
    """Return a name that clusters of several versions can have side by side; that of all tests has the name itself."""
    other = choose_other()
    return name if other is None else f"{name}-{other}"
