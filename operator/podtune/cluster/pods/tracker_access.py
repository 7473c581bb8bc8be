"""How a trial's pod finds its run in a tracker, and its agent gets access: address, credentials and certificates."""

from __future__ import annotations

import json
from collections.abc import Mapping

from podtune.api.trackers import Trackers
from podtune.cluster.pods.store_access import CA_FILE, make_ca_volume, make_credentials_volume
from podtune.kube.manifests import Manifest
from podtune.protocol import agent_environment as agent_env
from podtune.protocol.tracking import OF_MLFLOW, build_run_id
from podtune.runner.actions import CreatePod
from podtune.trial import layout

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
