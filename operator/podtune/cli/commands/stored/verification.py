"""`podtune checkpoints verify`: reads checkpoints in their store, checks every hash, and keeps nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from podtune.cli.client.api_client import Api
from podtune.cli.client.named_api import open_named
from podtune.cli.client.resources import ExperimentView, TrialView, get_experiment, list_trials
from podtune.cli.client.store_access import OpenedStore, StoreOptions, explain_store_error, open_experiment_store
from podtune.cli.commands.lifecycle import find_target
from podtune.cli.errors import CliError, ExitStatus
from podtune.cli.options import (
    AgentImage,
    Context,
    ForPrograms,
    Kubeconfig,
    Namespace,
    OwnCredentials,
    StoreEndpoint,
    StoreRegion,
    TargetName,
)
from podtune.cli.output import print_facts, print_lines
from podtune.protocol.checkpoint import CheckpointRef
from podtune.storage.checkpoint.address import parse_checkpoint_uri
from podtune.storage.checkpoint.manifest import InvalidManifest
from podtune.storage.checkpoint.verification import find_damaged_files, read_committed_manifest
from podtune.storage.errors import StoreError


@dataclass(frozen=True, slots=True)
class VerifiedCheckpoint:
    """What was found of a checkpoint.

    Attributes:
        problems: What is wrong with it; empty where it is whole.
    """

    trial: str
    ref: CheckpointRef
    files: int
    size: int
    problems: Sequence[str]


def verify(
    name: TargetName,
    *,
    step: Annotated[
        int | None, typer.Option("--step", min=0, help="Only the checkpoint of this iteration; else all.")
    ] = None,
    output: ForPrograms = None,
    endpoint: StoreEndpoint = "",
    region: StoreRegion = "",
    own_credentials: OwnCredentials = False,
    agent_image: AgentImage = "",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Check every hash of stored checkpoints, without keeping them; the exit code is 1 if one is damaged."""
    options = StoreOptions(endpoint.rstrip("/"), region, own_credentials, agent_image)
    api, chosen, name = open_named(name, kubeconfig, context, namespace)
    experiment, trials = find_trials(api, chosen, name)
    refs = [
        (trial.name, checkpoint.ref)
        for trial in trials
        for checkpoint in trial.status.checkpoints
        if step in (None, checkpoint.step)
    ]
    if not refs:
        raise CliError(f"{name} has no checkpoint{'' if step is None else f' of iteration {step}'}")
    verified: list[VerifiedCheckpoint] = []
    with open_experiment_store(api, experiment, options) as opened:
        for checked in _verify_all(opened, refs):
            verified.append(checked)
            if output is None:  # at once, as large ones take a while
                print_lines(list(_describe(checked)))
    damaged = sum(bool(checked.problems) for checked in verified)
    if output is not None:
        print_facts({"whole": not damaged, "items": [_collect(checked) for checked in verified]}, output)
    if damaged:
        typer.echo(f"{damaged} of {len(verified)} checkpoints can't be restored", err=True)
        raise typer.Exit(ExitStatus.FAILED)


def find_trials(api: Api, namespace: str, name: str) -> tuple[ExperimentView, Sequence[TrialView]]:
    """The Trials that a name means, and their Experiment.

    Raises:
        CliError: There is nothing of this name.
    """
    view = find_target(api, namespace, name).view
    if isinstance(view, TrialView):
        return get_experiment(api, namespace, view.experiment), [view]
    return view, list_trials(api, namespace, view.name)


def _verify_all(opened: OpenedStore, refs: Sequence[tuple[str, CheckpointRef]]) -> Iterator[VerifiedCheckpoint]:
    for trial, ref in refs:
        try:
            yield _verify(opened, trial, ref)
        except InvalidManifest as error:
            yield VerifiedCheckpoint(trial, ref, 0, 0, [str(error)])
        except StoreError as error:
            raise explain_store_error(error, opened.address) from error


def _verify(opened: OpenedStore, trial: str, ref: CheckpointRef) -> VerifiedCheckpoint:
    address = parse_checkpoint_uri(opened.address, ref.uri)
    manifest = read_committed_manifest(opened.store, address, ref)
    damaged = find_damaged_files(opened.store, address, manifest)
    return VerifiedCheckpoint(trial, ref, len(manifest.files), manifest.size, damaged)


def _describe(checked: VerifiedCheckpoint) -> Iterator[str]:
    place = f"{checked.trial} iteration {checked.ref.step}"
    if not checked.problems:
        files = "1 file" if checked.files == 1 else f"{checked.files} files"
        yield f"{place}: whole, {files}, {checked.size:,} bytes"
    for problem in checked.problems:
        yield f"{place}: {problem}"


def _collect(checked: VerifiedCheckpoint) -> dict[str, Any]:
    return {
        "trial": checked.trial,
        "step": checked.ref.step,
        "uri": checked.ref.uri,
        "whole": not checked.problems,
        "problems": list(checked.problems),
    }
