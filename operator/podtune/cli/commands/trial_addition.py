"""`podtune try` and `clone`: run a configuration of one's own, or another trial's with changes, as a Trial."""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from podtune.api.base import FieldError
from podtune.api.names import ANNOTATION_AUTHOR, API_VERSION, TRIAL_KIND
from podtune.api.pods.template_policy import UNKNOWN_POLICY
from podtune.api.resources.trial_numbers import FIRST_ADDED, is_added
from podtune.api.tuning.overrides import apply_overrides
from podtune.api.tuning.search_space import Parameter
from podtune.api.validation import InvalidSpec, parse_experiment
from podtune.cli.client import api_client
from podtune.cli.client.api_client import Api
from podtune.cli.client.resources import fetch_experiment, get_experiment, get_trial, list_trials
from podtune.cli.errors import CliError
from podtune.cli.options import (
    Context,
    ExperimentName,
    Kubeconfig,
    NamedFormat,
    NamedOutput,
    Namespace,
    TrialName,
)
from podtune.cli.output import print_changed
from podtune.kube import paths
from podtune.kube.errors import ResourceConflict, ResourceExists
from podtune.kube.manifests import Manifest

_TRIES = 5
"""How often another number is taken where somebody else was faster."""


_Values = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Value of a parameter; once for each.")
]


def try_configuration(
    experiment: ExperimentName,
    *,
    values: _Values = None,
    restore_from: Annotated[
        str | None,
        typer.Option("--restore-from", metavar="TRIAL[:STEP]", help="Start from this trial's checkpoint."),
    ] = None,
    output: NamedFormat = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Run a configuration of your own as a Trial of an Experiment."""
    api, chosen = api_client.open_api(kubeconfig, context, namespace)
    made = create_trial(api, chosen, experiment, values or (), restore_from=_read_source(restore_from))
    _print_added(chosen, made, output)


def clone_trial(
    trial: TrialName,
    *,
    values: _Values = None,
    from_checkpoint: Annotated[
        bool, typer.Option("--from-checkpoint", help="Start from the trial's checkpoint; else from scratch.")
    ] = False,
    step: Annotated[
        int | None, typer.Option("--step", min=0, help="The checkpoint of this iteration, not the latest.")
    ] = None,
    output: NamedFormat = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Run a Trial's configuration, with changes, as another Trial of its Experiment."""
    if step is not None and not from_checkpoint:
        raise CliError("--step chooses a checkpoint; give --from-checkpoint, too")
    api, chosen = api_client.open_api(kubeconfig, context, namespace)
    made = create_clone(api, chosen, trial, values or (), from_checkpoint=from_checkpoint, step=step)
    _print_added(chosen, made, output)


def _print_added(namespace: str, made: Manifest, output: NamedOutput | None) -> None:
    name = made["metadata"]["name"]
    said = f"trial {name} is added; `podtune why {name}` says how it goes"
    print_changed([said], output, paths.trial(namespace, name), lambda _: made)


def create_clone(
    api: Api, namespace: str, name: str, values: Sequence[str], *, from_checkpoint: bool, step: int | None
) -> Manifest:
    """Creates a Trial with the parameters of another and some values changed; returns it as the API server has it.

    Raises:
        CliError: There is no such Trial or checkpoint, or the configuration is none of its Experiment.
        ApiError: The server refuses.
    """
    trial = get_trial(api, namespace, name)
    source: dict[str, Any] | None = None
    if from_checkpoint:
        from podtune.cli.commands.checkpoints import choose_checkpoint  # noqa: PLC0415 - it brings the stores

        chosen = choose_checkpoint(get_experiment(api, namespace, trial.experiment), trial, step=step, best=False)
        source = {"trial": trial.name, **({"step": chosen.ref.step} if step is not None else {})}
    return create_trial(api, namespace, trial.experiment, values, restore_from=source, present=trial.parameters)


def create_trial(
    api: Api,
    namespace: str,
    experiment: str,
    values: Sequence[str],
    *,
    restore_from: Mapping[str, Any] | None = None,
    present: Mapping[str, str] | None = None,
) -> Manifest:
    """Creates a Trial under the next free number; returns it as the API server has it.

    Args:
        api: The API server.
        namespace: The Experiment's.
        experiment: Its name.
        values: What is given, each as name=value.
        restore_from: The checkpoint that it starts from, as a Trial's spec has it.
        present: The configuration that the values change; None where they are all of it.

    Raises:
        CliError: There is no such Experiment, or the configuration is none of it.
        ApiError: The server refuses.
    """
    given = dict(map(_split, values))
    parameters = _complete(fetch_experiment(api, namespace, experiment), present, given)
    spec: dict[str, Any] = {"experiment": experiment, "parameters": parameters}
    if restore_from:
        spec["restoreFrom"] = dict(restore_from)
    indexes = (trial.index for trial in list_trials(api, namespace, experiment) if is_added(trial.index))
    first = max(indexes, default=FIRST_ADDED - 1) + 1
    for index in range(first, first + _TRIES):
        metadata = {"name": f"{experiment}-{index}", "annotations": {ANNOTATION_AUTHOR: getpass.getuser()}}
        body = {"apiVersion": API_VERSION, "kind": TRIAL_KIND, "metadata": metadata, "spec": spec}
        try:
            return api.create(paths.trials(namespace), body)
        except (ResourceExists, ResourceConflict):
            continue
    raise CliError(f"others add trials to {experiment} at the same time; try again")


def _split(written: str) -> tuple[str, str]:
    name, equals, value = written.partition("=")
    if not equals or not name:
        raise CliError(f"--set {written!r} is not NAME=VALUE; write it like --set lr=0.1")
    return name, value


def _read_source(written: str | None) -> dict[str, Any] | None:
    if not written:
        return None
    trial, _, step = written.partition(":")
    if step and not step.isdecimal():
        raise CliError(f"--restore-from: {step!r} is not an iteration; write it like TRIAL:12")
    return {"trial": trial, **({"step": int(step)} if step else {})}


def _complete(experiment: Manifest, present: Mapping[str, str] | None, given: dict[str, str]) -> dict[str, str]:
    """What a person gives of a configuration; says before the Trial is made what the operator would say of it."""
    try:
        spec = parse_experiment(experiment, UNKNOWN_POLICY)
        whole = apply_overrides(spec.parameters, spec.constraints, present or {}, given, "parameters")
    except InvalidSpec as error:
        raise CliError(f"the Experiment can't be used: {error}") from error
    except FieldError as error:
        raise CliError(f"--set {str(error).removeprefix('parameters').lstrip('.: ')}") from error
    if present is None:
        return given
    return {parameter.name: whole[parameter.name] for parameter in spec.parameters if _is_given(parameter, whole)}


def _is_given(parameter: Parameter, configuration: Mapping[str, str]) -> bool:
    """Whether a person gives its value: it is neither fixed nor computed, nor absent under the other values."""
    return parameter.is_sampled and parameter.name in configuration
