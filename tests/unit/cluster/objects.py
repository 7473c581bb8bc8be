"""Experiments, Trials and pods as an API server has them."""

from __future__ import annotations

from typing import Any

import yaml

from podtune.api.validation import parse_experiment
from podtune.cluster.decoders import decode_experiment
from podtune.runner.records import Experiment

Manifest = dict[str, Any]

NAMESPACE = "team"
EXPERIMENTS = f"/apis/podtune.dev/v1alpha1/namespaces/{NAMESPACE}/experiments"
TRIALS = f"/apis/podtune.dev/v1alpha1/namespaces/{NAMESPACE}/trials"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"

_SPEC = """
objective: {metric: accuracy, mode: max}
parameters:
- {name: lr, float: {min: 0.0001, max: 0.1, scale: log}}
- {name: units, int: {min: 16, max: 256, step: 16}}
search: {algorithm: random, maxTrials: 3, seed: 7}
maxConcurrentTrials: 2
trialTemplate:
  spec:
    containers:
    - name: main
      image: localhost/busybox:1
      args: ["--lr=$(PODTUNE_PARAM_lr)"]
"""


def experiment_body(name: str = "digits", uid: str = "e-1", version: int = 10, **spec: Any) -> Manifest:
    """An Experiment."""
    return {
        "apiVersion": "podtune.dev/v1alpha1",
        "kind": "Experiment",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": uid,
            "resourceVersion": str(version),
            "generation": 1,
        },
        "spec": yaml.safe_load(_SPEC) | spec,
    }


def experiment_record(**spec: Any) -> Experiment:
    """An Experiment as the runner has it."""
    record = decode_experiment(experiment_body(**spec))
    assert not record.problem, record.problem
    return record


REVISION = parse_experiment(experiment_body()).trial_template.revision
"""That of the template of an Experiment, unless it is said."""


def trial_body(
    index: int = 0, uid: str = "t-1", version: int = 20, owner: str = "e-1", experiment: str = "digits", **status: Any
) -> Manifest:
    """A Trial of an Experiment."""
    return {
        "apiVersion": "podtune.dev/v1alpha1",
        "kind": "Trial",
        "metadata": {
            "name": f"{experiment}-{index}",
            "namespace": NAMESPACE,
            "uid": uid,
            "resourceVersion": str(version),
            "generation": 1,
            "ownerReferences": [_owner("Experiment", experiment, owner)],
        },
        "spec": {"experiment": experiment, "index": index, "parameters": {"lr": "0.01", "units": "32"}},
        "status": status,
    }


def pod_body(
    trial: str = "digits-0",
    attempt: int = 1,
    *,
    uid: str = "p-1",
    version: int = 30,
    owner: str = "t-1",
    status: Manifest | None = None,
    **metadata: Any,
) -> Manifest:
    """A pod of a Trial."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{trial}-{attempt}",
            "namespace": NAMESPACE,
            "uid": uid,
            "resourceVersion": str(version),
            "labels": {
                "podtune.dev/experiment": trial.rpartition("-")[0],
                "podtune.dev/trial": trial,
                "podtune.dev/attempt": str(attempt),
                "app.kubernetes.io/managed-by": "podtune",
            },
            "ownerReferences": [_owner("Trial", trial, owner)],
            **metadata,
        },
        "spec": {
            "initContainers": [{"name": "podtune-agent", "restartPolicy": "Always"}],
            "containers": [{"name": "main"}],
        },
        "status": {"phase": "Pending"} if status is None else status,
    }


def _owner(kind: str, name: str, uid: str) -> Manifest:
    return {"apiVersion": "podtune.dev/v1alpha1", "kind": kind, "name": name, "uid": uid, "controller": True}
