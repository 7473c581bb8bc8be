"""What a pod has so that its agent reads the results of programs that know nothing of Podtune."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from podtune.api.base import parse_duration
from podtune.api.resources.results import Results, ScrapeResults
from podtune.kube.manifests import Manifest
from podtune.protocol import agent_environment as agent_env
from podtune.protocol.tracking import build_run_id
from podtune.trial import layout

_ENDPOINT = f"$({layout.ENV_ENDPOINT})"
_TOKEN = f"$({layout.ENV_DIRECTORY})/{layout.ENDPOINT_TOKEN}"
_OF_SERVERS = {
    "KUBEFLOW_TRAINER_SERVER_URL": {"KUBEFLOW_TRAINER_SERVER_TOKEN"},
    "MLFLOW_TRACKING_URI": {"MLFLOW_TRACKING_TOKEN", "MLFLOW_RUN_ID"},
    "WANDB_API_KEY": {"WANDB_MODE"},
}
"""What goes with our servers, by the variable of a template that leads to another one."""
WANDB_RUNS = "wandb/*"
"""Where the client of Weights & Biases keeps its runs, below WANDB_DIR: a directory for each, named after the time."""
_WANDB_FLUSH = "1"
"""Seconds after which it writes what it has gathered; releases that don't know this write when 32 KiB are full."""
_PROBES = 60
"""How often it is looked whether the agent answers, each second, until its container is started again."""


def make_source_variables(namespace: str, trial: str, uid: str, sources: Sequence[str]) -> list[Manifest]:
    """The variables by which a training program finds the agent's endpoint; none where there is none."""
    if not sources:
        return []
    address = f"http://127.0.0.1:{agent_env.ENDPOINT_PORT}"
    own = [variable for source in sources for variable in _VARIABLES[source](namespace, trial, uid)]
    return [{"name": layout.ENV_ENDPOINT, "value": address}, *own]


def make_wandb_variables(*, is_offline: bool) -> list[Manifest]:
    """The variables by which the client of Weights & Biases keeps its runs where the agent reads them.

    Its directory has to exist: else older releases fall back to another one. Both online and offline it keeps them.
    """
    values = {"WANDB_DIR": f"$({layout.ENV_DIRECTORY})", "WANDB_X_TRANSACTION_LOG_FLUSH_INTERVAL": _WANDB_FLUSH}
    mode = {"WANDB_MODE": "offline"} if is_offline else {}
    return [{"name": name, "value": value} for name, value in (values | mode).items()]


def encode_results(results: Results) -> dict[str, str]:
    """What the agent is told of where results are; see `podtune.protocol.agent_environment`."""
    values = {}
    if results.sources:
        values[agent_env.SOURCES] = ",".join(results.sources)
    if results.stdout is not None:
        values[agent_env.STDOUT_PATTERN] = results.stdout.pattern
        if results.stdout.last:
            values[agent_env.STDOUT_LAST] = results.stdout.last
    if results.scrape is not None:
        values[agent_env.SCRAPE] = _encode_scrape(results.scrape)
    if results.tensor_board is not None:
        values[agent_env.EVENT_FILES] = results.tensor_board.directory
    if results.wandb is not None:
        values[agent_env.WANDB_FILES] = WANDB_RUNS
    return values


def _encode_scrape(scrape: ScrapeResults) -> str:
    settings: dict[str, Any] = {"port": scrape.port, "path": scrape.path, "period": parse_duration(scrape.period)}
    if scrape.time_attribute:
        settings["timeAttribute"] = scrape.time_attribute
    return json.dumps(settings)


def list_hidden(own: set[str]) -> set[str]:
    """The variables that are not to be set beside those of a template: nor tokens, where it names other servers."""
    return own | {name for address, names in _OF_SERVERS.items() if address in own for name in names}


def make_endpoint_probe() -> Manifest:
    """Keeps the program from being started before the agent answers: its token is there from then on."""
    command = ["test", "-f", f"{layout.DIRECTORY}/{layout.ENDPOINT_TOKEN}"]
    return {"exec": {"command": command}, "periodSeconds": 1, "failureThreshold": _PROBES}


def _make_trainer_variables(namespace: str, trial: str, uid: str) -> list[Manifest]:  # noqa: ARG001 - one form
    """What the callback of transformers goes by."""
    route = agent_env.TRAINER_STATUS_ROUTE.format(namespace=namespace, trial=trial)
    return [
        {"name": "KUBEFLOW_TRAINER_SERVER_URL", "value": f"{_ENDPOINT}{route}"},
        {"name": "KUBEFLOW_TRAINER_SERVER_TOKEN", "value": _TOKEN},
    ]


def _make_tracking_variables(namespace: str, trial: str, uid: str) -> list[Manifest]:  # noqa: ARG001 - one form
    """What MLflow's client goes by; the token is the pod's UID, which only a reference to it can name."""
    return [
        {"name": "MLFLOW_TRACKING_URI", "value": _ENDPOINT},
        {"name": "MLFLOW_TRACKING_TOKEN", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": "MLFLOW_RUN_ID", "value": build_run_id(uid)},
    ]


_VARIABLES: Mapping[str, Callable[[str, str, str], list[Manifest]]] = {
    agent_env.HUGGING_FACE: _make_trainer_variables,
    agent_env.MLFLOW: _make_tracking_variables,
}
