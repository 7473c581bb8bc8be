"""How a trial's pod finds its run in a tracker, and its agent gets access: address, credentials and certificates."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from podtune.api.json_values import decode_value
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.trackers import Trackers
from podtune.api.tuning.search_space import ChoiceDomain, Parameter
from podtune.cluster.pods.store_access import CA_FILE, make_ca_volume, make_credentials_volume
from podtune.kube.manifests import Manifest
from podtune.protocol import agent_environment as agent_env
from podtune.protocol.tracking import OF_MLFLOW, build_run_id
from podtune.runner.actions import CreatePod
from podtune.trial import layout

_MOST_CHOICES = 32
"""Of a parameter with more values, TensorBoard would show a box each."""
TRACKER_SECRET_VOLUME = "podtune-tracker"
TRACKER_SECRET_DIRECTORY = "/etc/podtune/tracker"
TRACKER_CA_VOLUME = "podtune-tracker-ca"
TRACKER_CA_DIRECTORY = "/etc/podtune/tracker-ca"


def make_tracker_variables(trackers: Trackers, experiment: str, action: CreatePod) -> Mapping[str, str]:
    """What the client of Weights & Biases goes by; nothing where it is not asked for.

    A client that has a run's id and may resume makes the run if there is none, and goes on with it if there is.
    """
    if trackers.wandb is None:
        return {}
    return {
        "WANDB_RUN_ID": build_run_id(action.trial_uid),
        "WANDB_RESUME": "allow",
        "WANDB_RUN_GROUP": experiment,
        "WANDB_NAME": action.spec.display_name or action.trial,
    }


def make_agent_tracker_variables(trackers: Trackers, experiment: str, action: CreatePod) -> Mapping[str, str]:
    """What the agent is told of the tracking server, and of the trial's run there; nothing where there is none."""
    if trackers.mlflow is None:
        return {}
    name = {layout.ENV_DISPLAY_NAME: action.spec.display_name} if action.spec.display_name else {}
    return {agent_env.TRACKER: encode_tracker(trackers, experiment), agent_env.TRIAL_UID: action.trial_uid, **name}


def encode_event_file_table(spec: ExperimentSpec) -> str:
    """What the tab HPARAMS of TensorBoard shows of an experiment, as agents are told."""
    values: dict[str, Any] = {
        "metrics": [criterion.metric for criterion in spec.objective.criteria],
        "parameters": [{"name": parameter.name, **_describe_domain(parameter)} for parameter in spec.parameters],
    }
    if spec.trackers.dashboard:
        values["dashboard"] = spec.trackers.dashboard
    return json.dumps(values, separators=(",", ":"))


def _describe_domain(parameter: Parameter) -> Mapping[str, Any]:
    """The bounds of a parameter, or its values if they are few; nothing where a trial's value says more."""
    if not parameter.is_sampled:
        return {}
    domain = parameter.domain
    if isinstance(domain, ChoiceDomain):
        values = [decode_value(value) for value in domain.values]
        is_listed = len(values) <= _MOST_CHOICES and not any(isinstance(value, list | dict) for value in values)
        return {"choices": values} if is_listed else {}
    if domain.min is None or domain.max is None or not math.isfinite(domain.max - domain.min):
        return {}
    return {"interval": [domain.min, domain.max]}


def encode_tracker(trackers: Trackers, experiment: str) -> str:
    """The tracking server, as agents and storage pods are told of it."""
    server = trackers.mlflow
    assert server is not None  # it is asked for
    values = {"uri": server.uri, "experiment": server.experiment or experiment}
    if server.credentials_secret:
        values["credentials"] = TRACKER_SECRET_DIRECTORY
    if server.ca_bundle is not None:
        values["ca_file"] = f"{TRACKER_CA_DIRECTORY}/{CA_FILE}"
    if trackers.dashboard:
        values["dashboard"] = trackers.dashboard
    return json.dumps(values)


def make_tracker_volumes(trackers: Trackers) -> list[Manifest]:
    """The Secret and the certificates; without them a pod starts all the same, and its agent says what is missing."""
    server = trackers.mlflow
    volumes: list[Manifest] = []
    if server is not None and server.credentials_secret:
        volumes.append(make_credentials_volume(TRACKER_SECRET_VOLUME, server.credentials_secret, OF_MLFLOW))
    if server is not None and server.ca_bundle is not None:
        volumes.append(make_ca_volume(TRACKER_CA_VOLUME, server.ca_bundle))
    return volumes


def make_tracker_mounts(trackers: Trackers) -> list[Manifest]:
    """Where these are, for the agent alone."""
    places = {TRACKER_SECRET_VOLUME: TRACKER_SECRET_DIRECTORY, TRACKER_CA_VOLUME: TRACKER_CA_DIRECTORY}
    return [
        {"name": volume["name"], "mountPath": places[volume["name"]], "readOnly": True}
        for volume in make_tracker_volumes(trackers)
    ]
