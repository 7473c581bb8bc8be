"""`podtune export` and `import`: a whole experiment moves to another namespace or cluster, half-done included.

An operator lets an Experiment be while its import goes on: otherwise it would begin anew with the Trials that are not
there yet. So an import that is broken off does no harm, and is taken up where it was by the same command.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from podtune.api.base import FieldError
from podtune.api.names import (
    ANNOTATION_AUTHOR,
    ANNOTATION_IMPORTED,
    ANNOTATION_IMPORTING,
    API_VERSION,
    EXPERIMENT_KIND,
    FINALIZER,
    ConditionType,
    ExperimentState,
)
from podtune.api.pods.parameter_text import format_parameter_labels
from podtune.api.pods.template_policy import UNKNOWN_POLICY
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.trial import UNNUMBERED, TrialSpec
from podtune.api.validation import parse_experiment
from podtune.cli.archives.archive import Archive, make_archive, read_archive
from podtune.cli.archives.snapshot_reader import KeptFunction
from podtune.cli.client import api_client
from podtune.cli.client.api_client import Api
from podtune.cli.client.experiment_file import STANDARD_INPUT
from podtune.cli.client.former_folders import list_former_folders
from podtune.cli.client.named_api import open_named
from podtune.cli.client.resources import fetch_experiment, get_experiment, read_experiment
from podtune.cli.client.store_access import StoreOptions, explain_store_error, open_experiment_store
from podtune.cli.client.stored_decisions import read_all_decisions
from podtune.cli.errors import CliError
from podtune.cli.layouts.layout_export import LayoutName, export_layout
from podtune.cli.options import (
    AgentImage,
    Context,
    ExperimentName,
    Kubeconfig,
    NamedFormat,
    Namespace,
    OwnCredentials,
    StoreEndpoint,
    StoreRegion,
)
from podtune.cli.output import print_changed, print_note
from podtune.kube import paths
from podtune.kube.errors import ResourceConflict, ResourceExists, ResourceNotFound
from podtune.kube.manifests import (
    Manifest,
    find_owner_uid,
    make_function,
    make_trial,
    make_warm_start,
    make_warm_start_name,
    refer_to_experiment,
    select_experiment,
)
from podtune.runner.search.added_trials import read_configuration
from podtune.storage.errors import StoreError


def export_experiment(
    experiment: ExperimentName,
    *,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="Where to; - is standard output; of --layout a directory."),
    ],
    layout: Annotated[
        LayoutName | None,
        typer.Option("--layout", help="Write results in place of the file: as Ray Tune does, or as event files."),
    ] = None,
    anyway: Annotated[bool, typer.Option("--anyway", help="Also one that still runs, as it is now.")] = False,
    decisions: Annotated[
        bool, typer.Option("--decisions", help="With all decisions that the store has, for the dashboard.")
    ] = False,
    endpoint: StoreEndpoint = "",
    region: StoreRegion = "",
    own_credentials: OwnCredentials = False,
    agent_image: AgentImage = "",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Write a whole Experiment and its Trials to a file, to import it elsewhere, or its results for others."""
    options = StoreOptions(endpoint.rstrip("/"), region, own_credentials, agent_image)
    if layout is not None:
        if anyway or decisions or output == STANDARD_INPUT:
            problem = "--layout writes results into a directory"
            raise CliError(f"{problem}; leave out --anyway and --decisions, and name one")
        api, chosen, experiment = open_named(experiment, kubeconfig, context, namespace)
        print_note(export_layout(api, chosen, experiment, layout=layout, directory=output, options=options))
        return
    api, chosen = api_client.open_api(kubeconfig, context, namespace)
    archive = collect_archive(api, chosen, experiment, anyway=anyway)
    if decisions:
        archive = replace(archive, decisions=_collect_decisions(api, chosen, archive, options))
    try:
        sys.stdout.write(archive.to_yaml()) if output == STANDARD_INPUT else output.write_text(archive.to_yaml())
    except OSError as error:
        raise CliError(f"{output}: {error.strerror or error}; name a file that can be written") from error
    print_note(f"experiment {experiment} with {len(archive.trials)} trials is in {output}")


def import_experiment(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `export` has written; - is standard input.")],
    *,
    name: Annotated[str | None, typer.Option("--name", help="Another name for the Experiment.")] = None,
    output: NamedFormat = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Make the Experiment of a file that `export` has written, to go on where it was."""
    read = read_archive(file)
    archive = read.rename(name) if name else read
    api, chosen = api_client.open_api(kubeconfig, context, namespace)
    path = paths.experiment(chosen, archive.source["name"])
    print_changed([restore_archive(api, chosen, archive)], output, path, api.get)


def collect_archive(api: Api, namespace: str, name: str, *, anyway: bool) -> Archive:
    """Reads a whole experiment, one that still runs only with `anyway`.

    Raises:
        CliError: There is none, or it still runs.
        ApiError: The server can't say.
    """
    experiment = fetch_experiment(api, namespace, name)
    if not _is_still(experiment):
        problem = f"{name} still runs, and two experiments must not go on with the same trials"
        if not anyway:
            raise CliError(f"{problem}; `podtune pause experiment/{name}` first, or take a copy with --anyway")
        _warn(f"{problem}; what is imported from this file is as of now")
    if FINALIZER in (experiment["metadata"].get("finalizers") or ()):
        _warn(
            f"with {name} its checkpoints are deleted, which the imported experiment needs; set its "
            "checkpoints.deletionPolicy to Retain before you delete it"
        )
    uid = experiment["metadata"]["uid"]
    trials = api.list_all(paths.trials(namespace), select_experiment(name))
    own = [trial for trial in trials if find_owner_uid(trial, EXPERIMENT_KIND) == uid]
    return make_archive(experiment, own, _read_known(api, experiment))


def _collect_decisions(
    api: Api, namespace: str, archive: Archive, options: StoreOptions
) -> Mapping[str, Sequence[Manifest]]:
    """All decisions that the experiment's store has."""
    experiment = get_experiment(api, namespace, archive.source["name"])
    with open_experiment_store(api, experiment, options) as opened:
        prefix = opened.address.experiment_prefix(experiment.uid)
        try:
            former = list_former_folders(experiment, opened.address)
            found = read_all_decisions(opened.store, prefix, former, {trial["name"] for trial in archive.trials})
        except StoreError as error:
            raise explain_store_error(error, opened.address) from error
    if not found:
        _warn(f"the store has no decisions on the trials of {experiment.name}; the file has those of their statuses")
    return found


def restore_archive(api: Api, namespace: str, archive: Archive, function: KeptFunction | None = None) -> str:
    """Makes an experiment of an archive; repeated after it was broken off, it makes what is missing.

    Args:
        api: Where to.
        namespace: In which namespace.
        archive: The experiment.
        function: The function that its trials run, if it is known; one that is there already stays.

    Returns:
        What was done, and what is left to do, in a sentence.

    Raises:
        CliError: There is another Experiment or Trial of that name.
        ApiError: The server refuses.
    """
    name = archive.source["name"]
    made = _create_experiment(api, namespace, archive)
    owner = refer_to_experiment(name, made["metadata"]["uid"], blocks_deletion=False)
    if archive.known:
        _create(api, paths.config_maps(namespace), make_warm_start(name, owner, archive.known))
    if function is not None:
        _create(api, paths.config_maps(namespace), make_function(function.config_map, function.data, owner))
    spec = parse_experiment({"metadata": {"name": name}, "spec": archive.spec}, UNKNOWN_POLICY)
    labels = (archive.spec["trialTemplate"].get("metadata") or {}).get("labels") or {}
    for trial in archive.trials:
        body = make_trial(trial["name"], name, owner, trial["spec"], _make_labels(labels, trial, spec))
        if author := trial.get("author"):
            body["metadata"]["annotations"] = {ANNOTATION_AUTHOR: author}
        _create_trial(api, namespace, body, trial["status"])
    path = paths.experiment(namespace, name)
    api.patch(paths.status_of(path), {"status": _forget_kept_revisions(archive.status)})
    count = str(len(archive.trials)) if archive.trials else None
    api.patch(path, {"metadata": {"annotations": {ANNOTATION_IMPORTING: None, ANNOTATION_IMPORTED: count}}})
    done = f"experiment {name} is in namespace {namespace}, with {len(archive.trials)} trials"
    if archive.spec.get("suspend"):
        return f"{done}; it is suspended, as it was: `podtune resume experiment/{name}` has it go on"
    return done


def _forget_kept_revisions(status: Manifest) -> Manifest:
    """A status without the ControllerRevisions that were kept elsewhere: the operator keeps the present one anew."""
    return {**status, "template": {**status["template"], "revisions": []}} if status.get("template") else status


def _make_labels(labels: Mapping[str, str], trial: Manifest, experiment: ExperimentSpec) -> dict[str, str]:
    """The labels that follow from a trial's parameters; the spec of one that a person has added holds but some."""
    spec = TrialSpec.model_validate(trial["spec"])
    if spec.index != UNNUMBERED:
        return format_parameter_labels(labels, spec.parameters)
    try:
        return format_parameter_labels(labels, read_configuration(spec, experiment))
    except FieldError:
        return {}  # it was refused, and will be again


def _is_still(experiment: Manifest) -> bool:
    """Whether nothing of it goes on."""
    view = read_experiment(experiment)
    if view.state in (ExperimentState.COMPLETE, ExperimentState.FAILED):
        return True
    suspended = bool(view.spec.get("suspend")) and view.find_true(ConditionType.SUSPENDED) is not None
    return suspended and view.status.trials.running == 0


def _create_experiment(api: Api, namespace: str, archive: Archive) -> Manifest:
    name = archive.source["name"]
    annotations = {**archive.metadata.get("annotations", {}), ANNOTATION_IMPORTING: archive.source["uid"]}
    body = {
        "apiVersion": API_VERSION,
        "kind": EXPERIMENT_KIND,
        "metadata": {**archive.metadata, "name": name, "namespace": namespace, "annotations": annotations},
        "spec": archive.spec,
    }
    made = _create(api, paths.experiments(namespace), body)
    if made is not None:
        return made
    there = api.get(paths.experiment(namespace, name))
    importing = (there["metadata"].get("annotations") or {}).get(ANNOTATION_IMPORTING)
    if importing != archive.source["uid"]:
        raise CliError(f"there is an Experiment {name!r} in namespace {namespace!r}; import it by another --name")
    return there


def _create_trial(api: Api, namespace: str, body: Manifest, status: Manifest) -> None:
    name = body["metadata"]["name"]
    path = paths.trial(namespace, name)
    made = _create(api, paths.trials(namespace), body)
    if made is None and find_owner_uid(api.get(path), EXPERIMENT_KIND) != find_owner_uid(body, EXPERIMENT_KIND):
        raise CliError(f"there is a Trial {name!r} of another experiment in namespace {namespace!r}; delete it")
    api.patch(paths.status_of(path), {"status": status})


def _read_known(api: Api, experiment: Manifest) -> Mapping[str, str]:
    """What the experiment has learnt from an earlier one."""
    if not experiment["spec"].get("search", {}).get("warmStart"):
        return {}
    metadata = experiment["metadata"]
    try:
        found = api.get(paths.config_map(metadata["namespace"], make_warm_start_name(metadata["name"])))
    except ResourceNotFound:
        return {}
    return found.get("data") or {}


def _create(api: Api, path: str, body: Manifest) -> Manifest | None:
    """Makes an object; None where there is one of that name."""
    try:
        return api.create(path, body)
    except (ResourceExists, ResourceConflict):
        return None


def _warn(message: str) -> None:
    print_note(f"warning: {message}")
