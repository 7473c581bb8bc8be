"""Somebody who works with Podtune and is no administrator of the cluster."""

from __future__ import annotations

import json
from pathlib import Path

from e2e.devcluster import Cluster
from e2e.kubernetes import Kubernetes, Object


class Person:
    """Somebody who has a role of Kubernetes in one namespace, and nothing else."""

    def __init__(self, cluster: Cluster, namespace: Kubernetes, role: str, folder: Path) -> None:
        """Makes the account, with the role for one namespace, and its kubeconfig in a folder."""
        self._namespace = namespace
        account: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": role}}
        subject = {"kind": "ServiceAccount", "name": role, "namespace": namespace.namespace}
        binding: Object = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [subject],
        }
        namespace.apply(account, binding)
        config: Object = json.loads(cluster.kubectl("config", "view", "--raw", "--flatten", "-o", "json"))
        config["users"] = [
            {"name": user["name"], "user": {"token": namespace.kubectl("create", "token", role).strip()}}
            for user in config["users"]
        ]
        self.kubeconfig = folder / f"{role}.json"
        self.kubeconfig.write_text(json.dumps(config))

    def podtune(self, *words: str) -> str:
        """Runs a command with the rights of the role alone."""
        return self._namespace.podtune(*words, "--kubeconfig", str(self.kubeconfig))
