"""The manifest of an Experiment: read, built from arguments, and checked as the command line and the operator do it."""

from __future__ import annotations

import json
import numbers
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from podtune.api.names import API_VERSION, EXPERIMENT_KIND
from podtune.api.pods.pod_template import TRIAL_CONTAINER
from podtune.api.pods.template_policy import UNKNOWN_POLICY
from podtune.api.validation import find_problems
from podtune.cli.client.experiment_file import read_documents
from podtune.cli.errors import CliError
from podtune.client.errors import InvalidArgument, InvalidExperiment
from podtune.client.packing.creation import find_config_map
from podtune.kube.manifests import Manifest

_TEXT = "the given text"


def read_manifest(source: str | os.PathLike[str]) -> tuple[Manifest, Manifest | None]:
    """Reads the one Experiment of a file, or of the YAML itself, which may hold other resources too.

    Args:
        source: Path of the file; or YAML, which has more than one line.

    Returns:
        The Experiment, and the ConfigMap that its function travels in; None where there is none.

    Raises:
        InvalidArgument: It can't be read, or holds no Experiment, or several.
    """
    is_text = isinstance(source, str) and "\n" in source
    if not isinstance(source, str | os.PathLike) or not source:
        raise InvalidArgument(f"source: {source!r} is neither a path nor YAML; give one of them")
    path, text = (Path(_TEXT), str(source)) if is_text else (Path(source), None)
    try:
        documents = read_documents(path, text=text)
    except CliError as error:
        raise InvalidArgument(f"source: {error}") from error
    found = [document for document in documents if isinstance(document, Mapping) and _is_experiment(document)]
    if len(found) != 1:
        count = f"{len(found)} of them" if found else "none"
        raise InvalidArgument(f"source: {path} must contain one {EXPERIMENT_KIND} ({API_VERSION}); it has {count}")
    manifest = dict(found[0])
    return manifest, find_config_map(manifest, documents)


def _is_experiment(document: Mapping[str, Any]) -> bool:
    return document.get("kind") == EXPERIMENT_KIND and document.get("apiVersion") == API_VERSION


def check_manifest(manifest: Mapping[str, Any]) -> Manifest:
    """Checks an Experiment; returns it as the API server takes it.

    Raises:
        InvalidExperiment: It can never work.
        InvalidArgument: It is no map, or holds what no manifest can.
    """
    if not isinstance(manifest, Mapping):
        raise InvalidArgument(f"manifest: {manifest!r:.64} is no map; give the Experiment as one")
    plain: Manifest = to_plain("manifest", manifest)
    metadata = plain.get("metadata")
    problems = [
        f"{field}: {plain[field]!r} is not what is made here; write {expected}"
        if field in plain
        else f"{field}: is missing; write {field}: {expected}"
        for field, expected in (("apiVersion", API_VERSION), ("kind", EXPERIMENT_KIND))
        if plain.get(field) != expected
    ]
    if not isinstance(metadata, Mapping) or not (metadata.get("name") or metadata.get("generateName")):
        problems.append("metadata.name: is missing; give the experiment a name")
    if metadata is None or isinstance(metadata, Mapping):
        problems += find_problems(plain, UNKNOWN_POLICY)
    if problems:
        raise InvalidExperiment(problems)
    return plain


def to_plain(argument: str, value: object) -> Any:
    """A value in the types that JSON has: of NumPy's numbers Python's, of tuples lists.

    Raises:
        InvalidArgument: It holds something else; the text says where.
    """
    try:
        return json.loads(json.dumps(value, default=_make_plain))
    except (TypeError, ValueError) as error:
        place = ": ".join(part for part in (argument, _find_stranger(value, "")) if part)
        raise InvalidArgument(f"{place}: {error}; write numbers, texts, lists and maps") from error


def _find_stranger(value: object, path: str) -> str:
    """Where in a value the first thing is that JSON has no type for; empty where that is nowhere, or all of it."""
    match value:
        case Mapping():
            inside = [(f"{path}.{key}".lstrip("."), entry) for key, entry in value.items()]
        case list() | tuple():
            inside = [(f"{path}[{position}]", entry) for position, entry in enumerate(value)]
        case _:
            return path if _is_strange(value) else ""
    return next((found for place, entry in inside if (found := _find_stranger(entry, place))), "")


def _is_strange(value: object) -> bool:
    try:
        json.dumps(value, default=_make_plain)
    except (TypeError, ValueError):
        return True
    return False


def _make_plain(value: object) -> object:
    match value:
        case Mapping():
            return dict(value)
        case numbers.Integral():
            return int(value)
        case numbers.Real():
            return float(value)
        case os.PathLike():
            return os.fspath(value)
        case _:
            raise TypeError(f"{value!r:.64} is of type {type(value).__name__}, which a manifest can't hold")


def build_manifest(
    name: str,
    *,
    metric: str,
    mode: str,
    parameters: Mapping[str, Any],
    image: str,
    command: Sequence[str] | None,
    env: Mapping[str, str] | None,
    resources: Mapping[str, Any] | None,
    search: Mapping[str, Any] | None,
    scheduler: Mapping[str, Any] | None,
    store: Mapping[str, Any] | None,
    max_trials: int | None,
    max_concurrent_trials: int | None,
    namespace: str | None,
    spec: Mapping[str, Any] | None,
) -> Manifest:
    """Builds the manifest of an Experiment whose trials have one container; see `Experiment.build`."""
    container: Manifest = {"name": TRIAL_CONTAINER, "image": image}
    if command is not None:
        container["command"] = _check_list("command", command)
    if env:
        container["env"] = [{"name": variable, "value": value} for variable, value in _check_map("env", env).items()]
    if resources:
        container["resources"] = resources
    made: Manifest = {
        "objective": {"metric": metric, "mode": mode},
        "parameters": [_describe_parameter(*each) for each in _check_map("parameters", parameters).items()],
        "search": {
            **_check_map("search", search or {}),
            **({"maxTrials": max_trials} if max_trials is not None else {}),
        },
        "trialTemplate": {"spec": {"containers": [container]}},
    }
    if scheduler is not None:
        made["scheduler"] = scheduler
    if store is not None:
        made["checkpoints"] = {"store": store}
    if max_concurrent_trials is not None:
        made["maxConcurrentTrials"] = max_concurrent_trials
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": API_VERSION,
        "kind": EXPERIMENT_KIND,
        "metadata": metadata,
        "spec": merge_fields(made, _check_map("spec", spec or {})),
    }


def _describe_parameter(name: str, domain: object) -> Manifest:
    """A parameter of the manifest: a list is a choice, a map is as in a manifest, anything else is fixed."""
    match domain:
        case Mapping():
            return {"name": name, **domain}
        case list() | tuple():
            return {"name": name, "choice": {"values": list(domain)}}
        case _:
            return {"name": name, "fixed": {"value": domain}}


def _check_list(argument: str, texts: object) -> list[str]:
    """A command's words; a text is refused, which would be taken for a list of its letters."""
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise InvalidArgument(f"{argument}: {texts!r} is no list; write each word by itself, as in ['python', 'a.py']")
    return list(texts)


def _check_map(argument: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidArgument(f"{argument}: {value!r:.64} is no map; give a value for each name")
    return value


def merge_fields(made: Mapping[str, Any], given: Mapping[str, Any]) -> Manifest:
    """A spec with further fields; maps are merged, and of anything else what was given wins."""
    merged = dict(made)
    for field, value in given.items():
        known = merged.get(field)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            merged[field] = merge_fields(known, value)
        else:
            merged[field] = value
    return merged
