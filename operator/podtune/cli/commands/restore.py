"""`podtune restore`: an experiment is made anew from its store alone, where its cluster is lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import typer

from podtune.api.names import TrialState
from podtune.api.pods.template_policy import UNKNOWN_POLICY
from podtune.api.resources.trial import UNNUMBERED, TrialSpec
from podtune.api.validation import parse_experiment
from podtune.cli.archives.archive import Archive
from podtune.cli.archives.snapshot_reader import (
    StoredSnapshot,
    find_prefix,
    list_config_maps,
    list_secrets,
    read_snapshot,
)
from podtune.cli.client import api_client
from podtune.cli.client.api_client import Api
from podtune.cli.client.store_access import (
    OpenedStore,
    StoreOptions,
    explain_store_error,
    find_store_uri,
    open_store_of,
)
from podtune.cli.commands.stored.experiment_list import print_stored_experiments
from podtune.cli.commands.transfer import restore_archive
from podtune.cli.errors import CliError, explain_error
from podtune.cli.options import AgentImage, Context, Kubeconfig, NamedFormat, Namespace, StoreEndpoint, StoreRegion
from podtune.cli.output import print_changed, print_note
from podtune.cli.views.columns import align_columns
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal, ResourceNotFound
from podtune.kube.manifests import Manifest
from podtune.runner.search.added_trials import complete_spec
from podtune.runner.trial.parameters import compute_configuration_digest
from podtune.storage.checkpoint.address import TrialAddress, parse_checkpoint_uri
from podtune.storage.checkpoint.restore import find_checkpoints
from podtune.storage.errors import StoreError, StoreSettingsError
from podtune.storage.segments.last_results import find_last_results

_ENDED = {TrialState.TERMINATED, TrialState.ERROR}


@dataclass(frozen=True, slots=True)
class Loss:
    """What a trial had done after the snapshot.

    Attributes:
        recorded: The last iteration that the snapshot knows of; -1 where it does not know the trial.
        resumes: The iteration of the checkpoint that it goes on from; 0 for none.
        last: The last iteration whose result is in the store.
    """

    trial: str
    recorded: int
    resumes: int
    last: int


def restore_experiment(
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", help="Where it is stored, such as s3://bucket/prefix/<experiment UID>.")
    ],
    *,
    name: Annotated[str | None, typer.Option("--name", help="Another name for the Experiment.")] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="Restore nothing: list the experiments below the address, or of a bucket.")
    ] = False,
    anyway: Annotated[bool, typer.Option("--anyway", help="Also where Secrets or ConfigMaps are missing.")] = False,
    endpoint: StoreEndpoint = "",
    region: StoreRegion = "",
    output: NamedFormat = None,
    agent_image: AgentImage = "",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Make an Experiment from what its store holds, to go on from there where its cluster is lost."""
    uri = address.rstrip("/")
    options = StoreOptions(endpoint.rstrip("/"), region, own_credentials=True, agent_image=agent_image)
    try:
        if listed:
            open_api = partial(api_client.open_api, kubeconfig, context, namespace)
            print_stored_experiments(uri, options, open_api, output)
            return
        api, chosen = api_client.open_api(kubeconfig, context, namespace)
        with open_store_of(uri, options, lambda: (api, chosen)) as opened:
            prefix = find_prefix(opened.store, opened.address.find_key(uri), uri)
            snapshot = read_snapshot(opened.store, prefix, uri)
            moved = _find_moved_checkpoints(opened, snapshot)
            losses = list(_list_losses(opened, snapshot))
    except StoreSettingsError as error:
        raise CliError(str(error)) from error
    except StoreError as error:
        raise explain_store_error(error) from error
    doubts = (*_compare_stores(uri, snapshot.archive.spec), *_find_missing_warm_start(snapshot.archive))
    for problem in (*snapshot.problems, *moved, *doubts):
        print_note(f"warning: {problem}")
    function = snapshot.function
    _check_needed(api, chosen, snapshot.archive.spec, function.config_map if function else "", anyway=anyway)
    archive = snapshot.archive.rename(name) if name else snapshot.archive
    path = paths.experiment(chosen, archive.source["name"])
    said, lost = restore_archive(api, chosen, archive, function), _describe_losses(losses)
    if output is not None:  # what is lost is no part of the object, and must not go unseen
        for line in lost:
            print_note(line)
    print_changed([said, *lost], output, path, api.get)


def _compare_stores(uri: str, spec: Manifest) -> Iterator[str]:
    """Says where an experiment is read from a copy of its store that its trials use the store itself."""
    store = (spec.get("checkpoints") or {}).get("store")
    own = find_store_uri(store) if store else ""
    if own and not uri.startswith(f"{own}/"):
        yield f"this is read from {uri}, but trials go on from {own}, as the spec says: have their checkpoints there"


def _find_missing_warm_start(archive: Archive) -> Iterator[str]:
    """Says where the search will wait for an earlier experiment: it was lost before its results were stored."""
    source = archive.spec.get("search", {}).get("warmStart")
    if source and not archive.known:
        name = source["experiment"]
        yield (
            f"the snapshot does not hold what the search had learnt from experiment {name} (search.warmStart): it "
            f"waits until there is an experiment {name} that has ended; import or restore that one, too"
        )


def _find_moved_checkpoints(opened: OpenedStore, snapshot: StoredSnapshot) -> list[str]:
    """Brings what trials go on from up to date, where their agents have deleted what the snapshot lists of it.

    An agent deletes a checkpoint once the operator has recorded a newer one, which the snapshot may not know of yet.

    Returns:
        What a trial goes on from instead, a sentence for each.
    """
    changed, told = [], []
    for trial in snapshot.archive.trials:
        new = trial
        if trial["status"].get("state") not in _ENDED and trial["status"].get("checkpoints"):
            there = [ref for ref in trial["status"]["checkpoints"] if _exists(opened, ref["uri"])]
            if len(there) < len(trial["status"]["checkpoints"]):
                there = there or _find_newer(opened, snapshot, trial)
                new = {**trial, "status": _set_checkpoints(trial["status"], there)}
                what = f"iteration {there[-1]['step']}" if there else "the beginning"
                told.append(f"{trial['name']}: a checkpoint of the snapshot is gone; it goes on from {what}")
        changed.append(new)
    snapshot.archive = replace(snapshot.archive, trials=tuple(changed))
    return told


def _exists(opened: OpenedStore, uri: str) -> bool:
    """Whether a checkpoint is there; what lies in another store is believed to be."""
    address = opened.address
    return not address.holds(uri) or opened.store.exists(parse_checkpoint_uri(address, uri).manifest)


def _find_newer(opened: OpenedStore, snapshot: StoredSnapshot, trial: Manifest) -> list[Manifest]:
    """The checkpoint of the least iteration that the trial has in the store; none where it trained otherwise."""
    if trial["status"].get("parameters"):
        return []  # its checkpoints may be of other weights than those that belong to these parameters
    address = TrialAddress(opened.address, snapshot.prefix.rstrip("/"), trial["name"])  # the store's has no prefix
    digest = compute_configuration_digest(_read_whole_spec(trial, snapshot.archive))
    found = sorted(find_checkpoints(opened.store, address, digest), key=lambda ref: ref.step)
    return [{"step": ref.step, "uri": ref.uri, "digest": ref.digest} for ref in found[:1]]


def _read_whole_spec(trial: Manifest, archive: Archive) -> TrialSpec:
    """The spec that a trial runs by; what a person has written of one is but a part."""
    spec = TrialSpec.model_validate(trial["spec"])
    if spec.index != UNNUMBERED:
        return spec
    experiment = parse_experiment({"metadata": {"name": archive.source["name"]}, "spec": archive.spec}, UNKNOWN_POLICY)
    return complete_spec(spec, experiment)


def _set_checkpoints(status: Mapping[str, Any], checkpoints: list[Manifest]) -> Manifest:
    changed = {key: value for key, value in status.items() if key not in ("checkpoint", "checkpoints")}
    return {**changed, "checkpoints": checkpoints, "checkpoint": checkpoints[-1]} if checkpoints else changed


def _list_losses(opened: OpenedStore, snapshot: StoredSnapshot) -> Iterator[Loss]:
    """The trials that had come further than they go on from."""
    statuses = {trial["name"]: trial["status"] for trial in snapshot.archive.trials}
    ended = {name for name, status in statuses.items() if status.get("state") in _ENDED}
    stored = find_last_results(opened.store, snapshot.prefix, skip=ended)
    for trial in sorted((statuses.keys() - ended) | stored.keys()):
        last = stored[trial].step if trial in stored else 0
        status = statuses.get(trial)
        if status is None:
            yield Loss(trial, -1, 0, last)
            continue
        resumes = (status.get("checkpoint") or {}).get("step", 0)
        recorded = status.get("iteration", 0)
        # Where results are not kept, the record alone tells.
        last = max(last, recorded)
        if last > min(recorded, resumes):
            yield Loss(trial, recorded, resumes, last)


def _describe_losses(losses: list[Loss]) -> list[str]:
    if not losses:
        return ["nothing was lost: no result is newer than the snapshot, or than a trial's checkpoint"]
    rows = [
        (loss.trial, "none" if loss.recorded < 0 else str(loss.recorded), str(loss.resumes), str(loss.last))
        for loss in losses
    ]
    return ["what runs again:", *align_columns(("TRIAL", "RECORDED", "GOES ON FROM", "LAST RESULT"), rows)]


def _check_needed(api: Api, namespace: str, spec: Manifest, kept: str, *, anyway: bool) -> None:
    """Checks that the Secrets and ConfigMaps are there that the experiment needs, but for one that the snapshot has.

    Raises:
        CliError: Some are missing, and it is not to be restored all the same.
    """
    secrets = _find_missing(api, "Secret", {name: paths.secret(namespace, name) for name in list_secrets(spec)})
    wanted = [name for name in list_config_maps(spec) if name != kept]
    maps = _find_missing(api, "ConfigMap", {name: paths.config_map(namespace, name) for name in wanted})
    if not secrets and not maps:
        return
    kinds = " and ".join(
        f"{kind} {', '.join(names)}" for kind, names in (("Secrets", secrets), ("ConfigMaps", maps)) if names
    )
    problem = f"namespace {namespace} lacks what the experiment needs: {kinds}"
    if not anyway:
        raise CliError(f"{problem}; the snapshot does not hold them: create them first, or restore it with --anyway")
    print_note(f"warning: {problem}; its pods wait for them")


def _find_missing(api: Api, kind: str, wanted: Mapping[str, str]) -> list[str]:
    """The names of those that are not there, of objects with these paths; warns of those that it may not look for."""
    missing = []
    for name, path in wanted.items():
        try:
            api.get(path)
        except ResourceNotFound:
            missing.append(name)
        except ApiRefusal as error:
            print_note(f"warning: whether there is a {kind} {name} is not known: {explain_error(error)}")
    return missing
