"""`podtune checkpoints download`: a whole checkpoint as a folder, whatever layout it has in the store."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Annotated

import typer
from pydantic import ValidationError

from podtune.api.resources.trial import Checkpoint
from podtune.api.tuning.objective import Objective
from podtune.cli.client import api_client
from podtune.cli.client.api_client import Api
from podtune.cli.client.named_api import open_named
from podtune.cli.client.resources import ExperimentView, TrialView, get_experiment, get_trial
from podtune.cli.client.store_access import (
    OpenedStore,
    StoreOptions,
    explain_store_error,
    open_experiment_store,
    open_store_of,
)
from podtune.cli.commands.lifecycle import find_target
from podtune.cli.errors import CliError
from podtune.cli.options import AgentImage, Context, Kubeconfig, Namespace, OwnCredentials, StoreEndpoint, StoreRegion
from podtune.cli.output import print_lines, print_note
from podtune.protocol.checkpoint import CheckpointRef
from podtune.runner.checkpoints.retention import find_best_checkpoint
from podtune.storage.backoff import ExponentialBackoff
from podtune.storage.checkpoint.address import CheckpointAddress, parse_checkpoint_uri
from podtune.storage.checkpoint.manifest import MAX_MANIFEST_BYTES, CheckpointManifest, digest_of
from podtune.storage.checkpoint.restore import Restorer
from podtune.storage.directory import Directory
from podtune.storage.errors import NotFound, StoreError, StoreSettingsError

REQUEST_PATIENCE = 30.0
"""Seconds that a store that does not answer is waited for: somebody sits and waits, too."""
_CONTENT = "checkpoint"
_SCHEME = "://"


@dataclass(frozen=True, slots=True)
class CheckpointChoice:
    """The checkpoint that is downloaded.

    Attributes:
        trial: Name of its Trial.
        others: Iterations of the Trial's other checkpoints.
    """

    trial: str
    ref: CheckpointRef
    others: tuple[int, ...] = ()


def download(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A Trial, an Experiment (its best Trial), or the URI of a checkpoint."),
    ],
    directory: Annotated[
        Path | None, typer.Argument(metavar="DIRECTORY", help="Where to; else ./<trial>-<iteration>.")
    ] = None,
    *,
    step: Annotated[
        int | None, typer.Option("--step", min=0, help="The checkpoint of this iteration, not the latest.")
    ] = None,
    best: Annotated[bool, typer.Option("--best", help="The best one by the objective, not the latest.")] = False,
    endpoint: StoreEndpoint = "",
    region: StoreRegion = "",
    own_credentials: OwnCredentials = False,
    agent_image: AgentImage = "",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Download a checkpoint, and check the hash of all that is in it."""
    if step is not None and best:
        raise CliError("--step and --best each choose a checkpoint; give one of them")
    options = StoreOptions(endpoint.rstrip("/"), region, own_credentials, agent_image)
    if _SCHEME in name:
        if step is not None or best:
            raise CliError(f"{name} is one checkpoint; leave out --step and --best")
        open_api = partial(api_client.open_api, kubeconfig, context, namespace)
        print_lines([_download_uri(name, directory, options, open_api)])
        return
    api, chosen, name = open_named(name, kubeconfig, context, namespace)
    experiment, choice = find_named_checkpoint(api, chosen, name, step=step, best=best)
    with open_experiment_store(api, experiment, options) as opened:
        print_lines([fetch_checkpoint(opened, choice, directory)])


def choose_checkpoint(
    experiment: ExperimentView, trial: TrialView, *, step: int | None, best: bool
) -> CheckpointChoice:
    """Chooses one of a Trial's checkpoints: that of an iteration, or the best one; else the latest.

    Raises:
        CliError: There is none, or none of this iteration.
    """
    known = trial.status.checkpoints
    steps = sorted({checkpoint.step for checkpoint in known})
    if not known:
        raise CliError(f"{trial.name} has no checkpoint: {trial.status.message or 'it has stored none'}")
    chosen: Checkpoint | None = known[-1]
    if step is not None:
        chosen = next((checkpoint for checkpoint in reversed(known) if checkpoint.step == step), None)
    elif best:
        chosen = _find_evaluated(trial) or find_best_checkpoint(known, _read_objective(experiment))
    if chosen is None:
        raise CliError(f"{trial.name} keeps no checkpoint of iteration {step}; it keeps {_join(steps)}")
    return CheckpointChoice(trial.name, chosen.ref, tuple(known for known in steps if known != chosen.step))


def find_named_checkpoint(
    api: Api, namespace: str, name: str, *, step: int | None, best: bool
) -> tuple[ExperimentView, CheckpointChoice]:
    """The checkpoint that is meant, and whose; of an Experiment, the best one of its best Trial.

    Raises:
        CliError: There is none, or none of this iteration.
        ApiError: The server can't say.
    """
    view = find_target(api, namespace, name).view
    if isinstance(view, TrialView):
        experiment = get_experiment(api, namespace, view.experiment)
        return experiment, choose_checkpoint(experiment, view, step=step, best=best)
    if view.status.best is None:
        raise CliError(f"experiment {view.name} has no best trial yet; name a Trial")
    trial = get_trial(api, namespace, view.status.best.trial)
    return view, choose_checkpoint(view, trial, step=step, best=step is None)


def _find_evaluated(trial: TrialView) -> Checkpoint | None:
    """The checkpoint that was evaluated: what the trial is ranked by."""
    evaluation = trial.status.evaluation
    uri = evaluation.uri if evaluation is not None else ""
    return next((known for known in trial.status.checkpoints if known.uri == uri), None)


def _read_objective(experiment: ExperimentView) -> Objective:
    """What checkpoints are compared by: with an evaluation, the metric of training."""
    training = (experiment.spec.get("evaluation") or {}).get("trainingObjective")
    try:
        return Objective.model_validate(training or experiment.spec.get("objective"))
    except ValidationError as error:
        raise CliError(
            f"the objective of {experiment.name} is none that this program knows; use a later one, or --step"
        ) from error


def _download_uri(
    uri: str, directory: Path | None, options: StoreOptions, open_api: Callable[[], tuple[Api, str]]
) -> str:
    """Downloads a checkpoint that is known by its URI alone: its manifest is compared with nothing."""
    try:
        with open_store_of(uri, options, open_api) as opened:
            choice = _find_by_uri(opened, uri)
            trial, last = _read_owner(parse_checkpoint_uri(opened.address, uri))
            done = fetch_checkpoint(opened, choice, directory or Path(f"{trial}-{last}"))
    except StoreSettingsError as error:
        raise explain_store_error(error) from error
    return f"{done}; no Trial was asked whether its manifest is the one that was committed"


def _find_by_uri(opened: OpenedStore, uri: str) -> CheckpointChoice:
    """The checkpoint that an URI is of, as its manifest is now."""
    address = parse_checkpoint_uri(opened.address, uri)
    try:
        manifest = opened.store.get_bytes(address.manifest, MAX_MANIFEST_BYTES)
    except NotFound as error:
        raise CliError(f"there is no checkpoint at {uri}; it was deleted, or never was one") from error
    except StoreError as error:
        raise explain_store_error(error, opened.address) from error
    return CheckpointChoice(_read_owner(address)[0], CheckpointRef(uri, digest_of(manifest), address.step))


def _read_owner(address: CheckpointAddress) -> tuple[str, str]:
    """Whose it is, and its name there, by `<trial>/<attempt>/<step>`, or of an export by `<experiment>/<trial>`."""
    parts = ["checkpoint", *address.root.split("/")]
    return parts[-3 if address.step >= 0 and len(parts) > 2 else -2], parts[-1]


def fetch_checkpoint(opened: OpenedStore, choice: CheckpointChoice, directory: Path | None) -> str:
    """Downloads a checkpoint; says what was done.

    It comes into a directory of its own beside the one that was named, and is renamed once it is whole.

    Raises:
        CliError: It is damaged, the store does not answer, or it can't be written.
    """
    destination = directory or Path(f"{choice.trial}-{choice.ref.step}")
    if destination.exists():
        raise CliError(f"{destination} exists; name another directory, or delete it first")
    print_note(f"downloading {choice.ref.uri}")
    unfinished: Path | None = None
    try:
        unfinished = Path(tempfile.mkdtemp(prefix=f".{destination.name}-", dir=destination.parent))
        manifest = _restore(opened, choice, unfinished)
        (unfinished / _CONTENT).rename(destination)
    except OSError as error:
        raise CliError(f"{destination}: {error.strerror or error}; name a directory that can be written") from error
    except StoreError as error:
        raise explain_store_error(error, opened.address) from error
    finally:
        if unfinished is not None:
            shutil.rmtree(unfinished, ignore_errors=True)
    count = "1 file" if len(manifest.files) == 1 else f"{len(manifest.files)} files"
    return f"{destination}: iteration {manifest.iteration} of {choice.trial}, {count}, {manifest.size:,} bytes"


def _restore(opened: OpenedStore, choice: CheckpointChoice, directory: Path) -> CheckpointManifest:
    """Has all files fetched, and held to the hashes of the manifest, and that to the one that was committed."""
    restorer = Restorer(
        opened.store,
        opened.address,
        backoff=ExponentialBackoff(0.5, 5.0, Random()),
        patience=REQUEST_PATIENCE,
        clock=time.monotonic,
        sleep=time.sleep,
    )
    outcome = restorer.restore([choice.ref], Directory(directory), _CONTENT)
    if outcome.manifest is None:
        others = f"; {choice.trial} also keeps {_join(choice.others)} (--step)" if choice.others else ""
        raise CliError(f"{outcome.message}{others}")
    return outcome.manifest


def _join(steps: list[int] | tuple[int, ...]) -> str:
    return f"{'iteration' if len(steps) == 1 else 'iterations'} {', '.join(map(str, steps))}"
