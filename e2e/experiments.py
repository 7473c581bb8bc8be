"""Experiments for tests: small ones, with everything that can be chosen as arguments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from e2e.devcluster import Cluster

Object = dict[str, Any]

STORE_SECRET = "podtune-s3"
PROGRAMS = Path(__file__).parent / "programs"
EXAMPLES_IMAGE = "localhost/podtune-examples:dev"

RESTRICTED: Object = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 10001,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def store(cluster: Cluster, **changes: Any) -> Object:
    """The local S3 server's bucket, as a checkpoint store."""
    return {
        "bucket": cluster.s3.bucket,
        "prefix": "e2e",
        "endpoint": cluster.s3.cluster_endpoint,
        "credentialsSecret": STORE_SECRET,
        **changes,
    }


def counter(environment: Mapping[str, str] | None = None, **container: Any) -> Object:
    """A container that runs `programs/counter.py`."""
    return program("counter", environment, **container)


def program(name: str, environment: Mapping[str, str] | None = None, **container: Any) -> Object:
    """A container that runs one of `programs`."""
    env = [{"name": variable, "value": value} for variable, value in (environment or {}).items()]
    return {
        "name": "trial",
        "image": EXAMPLES_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", (PROGRAMS / f"{name}.py").read_text()],
        "env": env,
        "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "10m", "memory": "32Mi"}},
        "securityContext": RESTRICTED,
        **container,
    }


def experiment(name: str, container: Object, *, checkpoints: Object | None = None, **spec: Any) -> Object:
    """An Experiment of random search over one parameter, `base`."""
    whole: Object = {
        "objective": {"metric": "value", "mode": "max"},
        "parameters": [{"name": "base", "float": {"min": 0.5, "max": 1.0}}],
        "search": {"algorithm": "random", "maxTrials": 2, "seed": 1},
        "maxConcurrentTrials": 2,
        "failures": {"maxFailures": 1, "backoff": {"initial": "1s", "max": "2s"}},
        "trialTemplate": {"spec": {"containers": [container], "terminationGracePeriodSeconds": 20}},
        **spec,
    }
    if checkpoints is not None:
        whole["checkpoints"] = checkpoints
    return {
        "apiVersion": "podtune.dev/v1alpha1",
        "kind": "Experiment",
        "metadata": {"name": name},
        "spec": whole,
    }
