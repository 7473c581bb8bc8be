"""A cluster that loses an experiment, and the command line that makes it anew from its store."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from pathlib import Path

from e2e.chaos.api import MERGE, Api, ApiFailure
from e2e.chaos.faults.calls import experiment_of
from e2e.chaos.processes.child import start_module

_KINDS = (
    "apis/podtune.dev/v1alpha1/namespaces/{}/experiments",
    "apis/podtune.dev/v1alpha1/namespaces/{}/trials",
    "api/v1/namespaces/{}/pods",
)
_NOW = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}


class NotRestored(Exception):
    """The command line has failed."""


async def lose(api: Api, namespace: str, experiment: str) -> None:
    """Removes all objects of an experiment as the loss of a database would: no finalizer and no grace period counts."""
    for kind in _KINDS:
        path = f"/{kind.format(namespace)}"
        for item in (await api.request("GET", path))["items"]:
            metadata = item["metadata"]
            if experiment_of(metadata["name"]) != experiment:
                continue
            try:
                one = f"{path}/{metadata['name']}"
                if metadata.get("finalizers"):
                    await api.request("PATCH", one, {"metadata": {"finalizers": None}}, content_type=MERGE)
                await api.request("DELETE", one, _NOW)
            except ApiFailure as failure:
                if failure.status != HTTPStatus.NOT_FOUND:  # it went with its owner
                    raise


async def restore(kubeconfig: Path, namespace: str, name: str, address: str, *options: str, first: str = "") -> str:
    """`kubectl podtune restore`; returns what it prints.

    Args:
        kubeconfig: Of the cluster.
        namespace: Where the Experiment is made.
        name: Its new name.
        address: Where it is stored.
        options: What else the command line says.
        first: A statement that comes before it.

    Raises:
        NotRestored: It has failed.
    """
    process = await start_module(
        "podtune.cli.main", "restore", address, *options, "--name", name,
        "--namespace", namespace, "--kubeconfig", str(kubeconfig), "--anyway", "--agent-image", "none",
        environment={}, first=first, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    if process.returncode:
        raise NotRestored(said.decode(errors="replace").strip())
    return said.decode(errors="replace")
