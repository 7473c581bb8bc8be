"""A snapshot as the store has it, read for people: what is damaged is named, and the rest goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from podtune.api.names import EXPERIMENT_KIND, TRIAL_KIND
from podtune.api.pods.function_volume import find_function
from podtune.api.pods.pod_references import list_config_map_references, list_secret_references
from podtune.api.pods.template_policy import UNKNOWN_POLICY
from podtune.api.resources.experiment import ExperimentStatus
from podtune.api.validation import InvalidSpec, parse_experiment
from podtune.cli.archives.archive import Archive, check_texts, check_trial, make_archive
from podtune.cli.errors import CliError
from podtune.kube.manifests import Manifest
from podtune.protocol.snapshot import MAX_RECORD, WARM_START
from podtune.storage.errors import NotFound
from podtune.storage.object_store import ReadableStore
from podtune.storage.snapshots.function_store import DamagedFunction, read_function
from podtune.storage.snapshots.record_store import (
    SNAPSHOT_FOLDER,
    RecordName,
    find_experiments,
    format_key,
    list_records,
)

_DAMAGED = (InvalidSpec, ValueError, LookupError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class KeptFunction:
    """The ConfigMap that an experiment's function travels in, as agents have stored it."""

    config_map: str
    data: Mapping[str, str]


@dataclass(slots=True)
class StoredSnapshot:
    """An experiment as a store has it.

    Attributes:
        prefix: What all keys of the experiment start with; it ends with a slash.
        problems: What could not be read, a sentence each.
        function: The Python function that trials run; None where there is none, or its source can't be read.
    """

    prefix: str
    archive: Archive
    problems: list[str] = field(default_factory=list)
    function: KeptFunction | None = None


def find_prefix(store: ReadableStore, key: str, uri: str) -> str:
    """What the keys of the experiment start with that an address means: its own folder, or one that holds it alone.

    Raises:
        CliError: There is none, or more than one.
        StoreError: The store can't be read.
    """
    prefix = f"{key.removesuffix(f'/{SNAPSHOT_FOLDER}')}/"
    if any(True for _ in store.list(f"{prefix}{SNAPSHOT_FOLDER}/")):
        return prefix
    found = list(find_experiments(store, prefix))
    if len(found) == 1:
        return found[0]
    if not found:
        raise CliError(f"there is no snapshot of an experiment below {uri}; correct the address")
    root = uri.removesuffix(key).rstrip("/")
    named = "; ".join(f"{root}/{one.rstrip('/')} ({_find_name(store, one)})" for one in found)
    raise CliError(f"there are {len(found)} experiments below {uri}; name one of them: {named}")


def read_snapshot(store: ReadableStore, prefix: str, uri: str) -> StoredSnapshot:
    """Reads the newest records of an experiment that can be read.

    Raises:
        CliError: The Experiment's own record can't be read.
        StoreError: The store can't be read.
    """
    listed = list_records(store, prefix)
    problems: list[str] = []
    experiment = read_newest_record(store, prefix, listed.pop("", []), problems)
    if experiment is None:
        raise CliError(
            "; ".join([f"the snapshot at {uri} has no record of the Experiment that can be read", *problems])
        )
    name = experiment["metadata"]["name"]
    warm_start = read_newest_record(store, prefix, listed.pop(WARM_START, []), problems)
    trials = []
    for names in listed.values():
        trial = read_newest_record(store, prefix, names, problems, experiment=name)
        if trial is not None:
            trials.append(trial)
    status = experiment["status"]
    if "trials" in status:
        # Otherwise the operator would look for trials that were deleted, where they only came too late for the record.
        status["trials"] = {**status["trials"], "total": len(trials)}
    known = warm_start["data"] if warm_start is not None else {}
    function = _read_function(store, prefix, experiment["spec"], problems)
    return StoredSnapshot(prefix, make_archive(experiment, trials, known), problems, function)


def read_newest_record(
    store: ReadableStore, prefix: str, names: Sequence[RecordName], problems: list[str], *, experiment: str = ""
) -> Manifest | None:
    """The newest of an object's records that can be read; None where there is none."""
    for name in names:
        key = format_key(prefix, name)
        try:
            body: Manifest = json.loads(store.get_bytes(key, MAX_RECORD))
            _check(body, name.trial, experiment)
        except NotFound:
            continue  # a newer one has taken its place since the listing
        except _DAMAGED as error:
            problems.append(f"the record {key} is damaged: {' '.join(str(error).split())[:200]}")
        else:
            return body
    return None


def _read_function(store: ReadableStore, prefix: str, spec: Manifest, problems: list[str]) -> KeptFunction | None:
    """The function of the present template, if an agent has stored it."""
    function = find_function(spec["trialTemplate"].get("spec") or {})
    if function is None:
        return None
    try:
        files = read_function(store, prefix, function.config_map)
    except DamagedFunction as error:
        problems.append(str(error))
        return None
    if files is None or function.keys.keys() - files.keys():
        return None
    return KeptFunction(function.config_map, {key: files[path] for path, key in function.keys.items()})


def _check(body: Any, trial: str, experiment: str) -> None:
    """Checks that a record is one of this object, and that this program can work with it.

    Raises:
        ValueError: It is not.
    """
    if trial == WARM_START:
        check_texts(body["data"], "data")
        return
    metadata = body["metadata"]
    if not all(isinstance(metadata[entry], str) for entry in ("namespace", "name", "uid")):
        raise TypeError("its metadata are not texts")
    if not isinstance(metadata.get("annotations") or {}, Mapping):
        raise TypeError("its annotations are no map")
    if not trial:
        if body["kind"] != EXPERIMENT_KIND:
            raise ValueError(f"it is no {EXPERIMENT_KIND}")
        parse_experiment({"metadata": {"name": metadata["name"]}, "spec": body["spec"]}, UNKNOWN_POLICY)
        ExperimentStatus.model_validate(body["status"])
    elif body["kind"] != TRIAL_KIND or metadata["name"] != trial:
        raise ValueError(f"it is not the {TRIAL_KIND} {trial}")
    else:
        check_trial({"name": trial, "spec": body["spec"], "status": body["status"]}, experiment)


def _find_name(store: ReadableStore, prefix: str) -> str:
    """The name of the experiment at a prefix, for people."""
    problems: list[str] = []
    experiment = read_newest_record(store, prefix, list_records(store, prefix).get("", []), problems)
    return experiment["metadata"]["name"] if experiment is not None else "its record is damaged"


def list_secrets(spec: Manifest) -> list[str]:
    """The Secrets that an experiment needs and that no snapshot holds, each once."""
    store = (spec.get("checkpoints") or {}).get("store") or {}
    names = [store.get("credentialsSecret"), *_find_bundle(store, "Secret")]
    return _join_names(names, spec, list_secret_references)


def list_config_maps(spec: Manifest) -> list[str]:
    """The ConfigMaps that an experiment needs and that no snapshot holds, each once."""
    store = (spec.get("checkpoints") or {}).get("store") or {}
    return _join_names(_find_bundle(store, "ConfigMap"), spec, list_config_map_references)


def _find_bundle(store: Manifest, kind: str) -> list[str]:
    """The object that holds the certificates of the store's server, if it is one of this kind."""
    bundle = store.get("caBundle") or {}
    return [bundle["name"]] if bundle and bundle.get("kind", "ConfigMap") == kind else []


def _join_names(
    names: Sequence[str | None], spec: Manifest, list_references: Callable[[Manifest], Iterator[tuple[str, str]]]
) -> list[str]:
    """These names, and those that the templates of an experiment's pods refer to."""
    template = spec["trialTemplate"]
    roles = (role.get("template") or {} for role in template.get("roles") or ())
    found = list(names)
    for part in (template, *roles, (spec.get("evaluation") or {}).get("template") or {}):
        found += [name for _, name in list_references(part.get("spec") or {})]
    return list(dict.fromkeys(name for name in found if name))
