"""`podtune try`: adds a Trial with a configuration of one's own to an Experiment."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from podtune.api.base import FieldError
from podtune.api.names import ANNOTATION_AUTHOR, API_VERSION, TRIAL_KIND
from podtune.api.pods.template_policy import UNKNOWN_POLICY
from podtune.api.resources.trial_numbers import FIRST_ADDED, is_added
from podtune.api.tuning.overrides import apply_overrides
from podtune.api.validation import InvalidSpec, parse_experiment
from podtune.cli.client import api_client
from podtune.cli.client.api_client import Api
from podtune.cli.client.resources import fetch_experiment, list_trials
from podtune.cli.errors import CliError
from podtune.cli.options import Context, ExperimentName, Kubeconfig, Namespace
from podtune.kube import paths
from podtune.kube.errors import ResourceConflict, ResourceExists
from podtune.kube.manifests import Manifest

_TRIES = 5
"""How often another number is taken where somebody else was faster."""


def add_trial(
    experiment: ExperimentName,
    *,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME=VALUE", help="Value of a parameter; once for each."),
    ] = None,
    restore_from: Annotated[
        str | None,
        typer.Option("--restore-from", metavar="TRIAL[:STEP]", help="Start from this trial's checkpoint."),
    ] = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Run a configuration of your own as a Trial of an Experiment."""
    api, chosen = api_client.open_api(kubeconfig, context, namespace)
    name = create_trial(api, chosen, experiment, param or (), restore_from)
    typer.echo(f"trial {name} is added; `podtune why {name}` says how it goes")


def create_trial(api: Api, namespace: str, experiment: str, values: Sequence[str], restore_from: str | None) -> str:
    """Creates a Trial under the next free number; returns its name.

    Raises:
        CliError: There is no such Experiment, or the configuration is none of it.
        ApiError: The server refuses.
    """
    parameters = dict(map(_split, values))
    _check(fetch_experiment(api, namespace, experiment), parameters)
    spec: dict[str, Any] = {"experiment": experiment, "parameters": parameters}
    if restore_from:
        trial, _, step = restore_from.partition(":")
        spec["restoreFrom"] = {"trial": trial, **({"step": _read_step(step)} if step else {})}
    indexes = (trial.index for trial in list_trials(api, namespace, experiment) if is_added(trial.index))
    first = max(indexes, default=FIRST_ADDED - 1) + 1
    for index in range(first, first + _TRIES):
        metadata = {"name": f"{experiment}-{index}", "annotations": {ANNOTATION_AUTHOR: getpass.getuser()}}
        body = {"apiVersion": API_VERSION, "kind": TRIAL_KIND, "metadata": metadata, "spec": spec}
        try:
            api.create(paths.trials(namespace), body)
        except (ResourceExists, ResourceConflict):
            continue
        return f"{experiment}-{index}"
    raise CliError(f"others add trials to {experiment} at the same time; try again")


def _split(written: str) -> tuple[str, str]:
    name, equals, value = written.partition("=")
    if not equals or not name:
        raise CliError(f"--param {written!r} is not NAME=VALUE; write it like --param lr=0.1")
    return name, value


def _read_step(written: str) -> int:
    if not written.isdecimal():
        raise CliError(f"--restore-from: {written!r} is not an iteration; write it like TRIAL:12")
    return int(written)


def _check(experiment: Manifest, parameters: dict[str, str]) -> None:
    """Says before the Trial is made what the operator would say of its configuration."""
    try:
        spec = parse_experiment(experiment, UNKNOWN_POLICY)
        apply_overrides(spec.parameters, spec.constraints, {}, parameters, "parameters")
    except InvalidSpec as error:
        raise CliError(f"the Experiment can't be used: {error}") from error
    except FieldError as error:
        raise CliError(f"--param {str(error).removeprefix('parameters').lstrip('.: ')}") from error
