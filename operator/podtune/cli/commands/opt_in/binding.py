"""The RoleBinding by which a namespace opts in."""

from __future__ import annotations

import http.client
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podtune.api.names import ANNOTATION_SUBJECT, LABEL_BINDS, USUAL_HOME
from podtune.cli.client.api_client import Api
from podtune.cli.errors import CliError
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal
from podtune.kube.manifests import Manifest

_RBAC = "rbac.authorization.k8s.io"
_ROLE_SUFFIX = "-namespace"
_USUAL_NAME = "podtune"


@dataclass(frozen=True, slots=True)
class OperatorRole:
    """What an operator needs of a namespace.

    Attributes:
        name: Of the ClusterRole.
        home: The operator's own namespace.
        account: Its service account there.
    """

    name: str
    home: str
    account: str

    @property
    def subject(self) -> Mapping[str, str]:
        """The account, as RoleBindings have it."""
        return {"kind": "ServiceAccount", "name": self.account, "namespace": self.home}

    def build_binding(self, namespace: str) -> Manifest:
        """The RoleBinding of a namespace."""
        labels = {"app.kubernetes.io/part-of": "podtune"}
        return {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": self.name.removesuffix(_ROLE_SUFFIX), "namespace": namespace, "labels": labels},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": self.name},
            "subjects": [dict(self.subject)],
        }

    def is_bound_by(self, binding: Mapping[str, Any]) -> bool:
        """Whether a RoleBinding gives the operator this role, whoever has made it."""
        role = binding["roleRef"]
        is_ours = (role["kind"], role["name"]) == ("ClusterRole", self.name)
        subjects: Sequence[Mapping[str, Any]] = binding.get("subjects") or ()
        return is_ours and any(self.subject.items() <= subject.items() for subject in subjects)


def find_role(api: Api, home: str) -> OperatorRole:
    """Finds the role of the operator that is meant.

    Who may not list ClusterRoles, as most administrators of a single namespace, gets the one that the chart makes for a
    release `podtune`.

    Args:
        api: The cluster.
        home: The operator's own namespace; empty for the only operator to whom namespaces opt in.

    Raises:
        CliError: There is none, or more than one.
        ApiError: The API server does not answer, or refuses for another reason.
    """
    try:
        listed = api.list_all(paths.cluster_roles(), {"labelSelector": f"{LABEL_BINDS}=namespaces"})
    except ApiRefusal as refusal:
        if refusal.status != http.client.FORBIDDEN:
            raise
        place = home or USUAL_HOME
        return OperatorRole(f"{place}-{_USUAL_NAME}{_ROLE_SUFFIX}", place, _USUAL_NAME)
    roles = [_read_role(role) for role in listed]
    meant = [role for role in roles if home in ("", role.home)]
    if len(meant) == 1:
        return meant[0]
    if meant:
        homes = ", ".join(sorted({role.home for role in meant}))
        raise CliError(f"there are operators in {homes}; say with --operator-namespace which of them is meant")
    where = f"the operator in namespace {home}" if home else "no operator of this cluster"
    verb = "does not wait" if home else "waits"
    raise CliError(
        f"{where} {verb} for namespaces to opt in; it serves all, or those of its watchNamespaces, unless the chart "
        "podtune is installed with namespaceOptIn=true"
    )


def _read_role(role: Manifest) -> OperatorRole:
    metadata = role["metadata"]
    home, _, account = (metadata.get("annotations") or {}).get(ANNOTATION_SUBJECT, "").partition("/")
    return OperatorRole(metadata["name"], home, account)
