"""Moving a whole experiment to another namespace or cluster, half-done included.

An operator lets an Experiment be while its import goes on: otherwise it would begin anew with the Trials that are not
there yet. So an import that is broken off does no harm, and is taken up where it was by the same command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from podtune.api.names import (
    ANNOTATION_IMPORTED,
    ANNOTATION_IMPORTING,
    API_VERSION,
    EXPERIMENT_KIND,
    FINALIZER,
    LABEL_EXPERIMENT,
    LABEL_MANAGED_BY,
    MANAGED_BY,
    TRIAL_KIND,
    ConditionType,
    ExperimentState,
)
from podtune.cli.client.api_client import Api, Object
from podtune.cli.client.resources import experiments_path, of_experiment, read_experiment, trials_path
from podtune.cli.commands.archive import Archive, make_archive
from podtune.cli.errors import CliError, NotFound, Refused
from podtune.kube import paths

CONFLICT = 409
Warn = Callable[[str], None]


def export_experiment(api: Api, namespace: str, name: str, *, anyway: bool, warn: Warn) -> Archive:
    """Reads a whole experiment.

    Args:
        api: The API server.
        namespace: The Experiment's.
        name: Its name.
        anyway: Whether one that still runs is read, too.
        warn: Is told what is to be thought of.

    Raises:
        CliError: There is none, or it still runs.
    """
    try:
        experiment = api.get(experiments_path(namespace, name))
    except NotFound as error:
        raise CliError(f"no Experiment {name!r} in namespace {namespace!r}; `podtune list -A` shows all") from error
    if not _is_still(experiment):
        problem = f"{name} still runs, and two experiments must not go on with the same trials"
        if not anyway:
            raise CliError(f"{problem}; `podtune pause experiment/{name}` first, or take a copy with --anyway")
        warn(f"{problem}; what is imported from this file is as of now")
    if FINALIZER in (experiment["metadata"].get("finalizers") or ()):
        warn(
            f"with {name} its checkpoints are deleted, which the imported experiment needs; set its "
            "checkpoints.deletionPolicy to Retain before you delete it"
        )
    uid = experiment["metadata"]["uid"]
    trials = [trial for trial in api.list_all(trials_path(namespace), of_experiment(name)) if _owner(trial) == uid]
    return make_archive(experiment, trials, _known(api, experiment))


def import_experiment(api: Api, namespace: str, archive: Archive) -> str:
    """Makes an experiment of an archive; repeated after it was broken off, it makes what is missing.

    Returns:
        What was done, and what is left to do, in a sentence.

    Raises:
        CliError: There is another Experiment or Trial of that name, or the server refuses.
    """
    name = archive.source["name"]
    made = _experiment(api, namespace, archive)
    owner = _reference(API_VERSION, EXPERIMENT_KIND, name, made["metadata"]["uid"])
    if archive.known:
        _keep_known(api, namespace, name, archive.known, owner)
    for trial in archive.trials:
        _trial(api, namespace, name, trial, owner)
    path = experiments_path(namespace, name)
    api.patch(paths.status_of(path), {"status": archive.status})
    count = str(len(archive.trials)) if archive.trials else None
    api.patch(path, {"metadata": {"annotations": {ANNOTATION_IMPORTING: None, ANNOTATION_IMPORTED: count}}})
    done = f"experiment {name} is in namespace {namespace}, with {len(archive.trials)} trials"
    if archive.spec.get("suspend"):
        return f"{done}; it is suspended, as it was: `podtune resume experiment/{name}` has it go on"
    return done


def _is_still(experiment: Object) -> bool:
    """Whether nothing of it goes on."""
    view = read_experiment(experiment)
    if view.state in (ExperimentState.COMPLETE, ExperimentState.FAILED):
        return True
    suspended = bool(view.spec.get("suspend")) and view.holds(ConditionType.SUSPENDED) is not None
    return suspended and view.counts.running == 0


def _experiment(api: Api, namespace: str, archive: Archive) -> Object:
    name = archive.source["name"]
    annotations = {**archive.metadata.get("annotations", {}), ANNOTATION_IMPORTING: archive.source["uid"]}
    body = {
        "apiVersion": API_VERSION,
        "kind": EXPERIMENT_KIND,
        "metadata": {**archive.metadata, "name": name, "namespace": namespace, "annotations": annotations},
        "spec": archive.spec,
    }
    made = _create(api, experiments_path(namespace), body)
    if made is not None:
        return made
    there = api.get(experiments_path(namespace, name))
    importing = (there["metadata"].get("annotations") or {}).get(ANNOTATION_IMPORTING)
    if importing != archive.source["uid"]:
        raise CliError(f"there is an Experiment {name!r} in namespace {namespace!r}; import it by another --name")
    return there


def _trial(api: Api, namespace: str, experiment: str, trial: Object, owner: Object) -> None:
    path = trials_path(namespace, trial["name"])
    body = {
        "apiVersion": API_VERSION,
        "kind": TRIAL_KIND,
        "metadata": {
            "name": trial["name"],
            "namespace": namespace,
            "labels": {LABEL_EXPERIMENT: experiment, LABEL_MANAGED_BY: MANAGED_BY},
            "ownerReferences": [owner],
        },
        "spec": trial["spec"],
    }
    if _create(api, trials_path(namespace), body) is None and _owner(api.get(path)) != owner["uid"]:
        raise CliError(
            f"there is a Trial {trial['name']!r} of another experiment in namespace {namespace!r}; delete it"
        )
    api.patch(paths.status_of(path), {"status": trial["status"]})


def _known(api: Api, experiment: Object) -> Mapping[str, str]:
    """What the experiment has learnt from an earlier one."""
    if not experiment["spec"].get("search", {}).get("warmStart"):
        return {}
    metadata = experiment["metadata"]
    try:
        found = api.get(paths.config_map(metadata["namespace"], _config_map(metadata["name"])))
    except NotFound:
        return {}
    return found.get("data") or {}


def _keep_known(api: Api, namespace: str, name: str, known: Mapping[str, str], owner: Object) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": _config_map(name),
            "namespace": namespace,
            "labels": {LABEL_EXPERIMENT: name, LABEL_MANAGED_BY: MANAGED_BY},
            "ownerReferences": [owner],
        },
        "immutable": True,
        "data": dict(known),
    }
    _create(api, paths.config_maps(namespace), body)


def _config_map(experiment: str) -> str:
    return f"{experiment}-warm-start"


def _create(api: Api, path: str, body: Object) -> Object | None:
    """Makes an object; None where there is one of that name."""
    try:
        return api.create(path, body)
    except Refused as refused:
        if refused.status != CONFLICT:
            raise
        return None


def _reference(version: str, kind: str, name: str, uid: str) -> Object:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


def _owner(item: Object) -> str:
    references = item["metadata"].get("ownerReferences") or ()
    return next((str(owner["uid"]) for owner in references if owner.get("controller")), "")
