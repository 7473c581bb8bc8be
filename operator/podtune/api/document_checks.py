"""Checks of a whole document as the API server makes them: its kind, its metadata, and a Trial's spec.

What is wrong below an Experiment's spec is said by `podtune.api.validation`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from podtune.api.base import FieldError, Problem
from podtune.api.names import API_VERSION, EXPERIMENT_KIND, GROUP, OBJECT_NAME, TRIAL_KIND
from podtune.api.pods.pod_checks import show_value
from podtune.api.pods.template_policy import DEFAULT_POLICY, TemplatePolicy
from podtune.api.resources.experiment import MAX_NAME, ExperimentSpec
from podtune.api.resources.trial import UNNUMBERED, TrialSpec
from podtune.api.resources.trial_numbers import FIRST_ADDED, is_added, parse_added_index
from podtune.api.suggestions import did_you_mean
from podtune.api.tuning.overrides import apply_overrides
from podtune.api.validation import list_problems, read_spec_of

_KINDS = (EXPERIMENT_KIND, TRIAL_KIND)
_FIELDS = ("apiVersion", "kind", "metadata", "spec", "status")
_METADATA = (
    *("annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers"),
    *("generateName", "generation", "labels", "managedFields", "name", "namespace", "ownerReferences"),
    *("resourceVersion", "selfLink", "uid"),
)
_OTHER_TUNERS = ("kubeflow.org/",)
"""Begin the API versions of Experiments that are none of ours; people bring them here."""
_SUFFIX = 5
"""How many characters the API server adds to generateName."""
_LONGEST_INTEGER = 1e21
"""From here on the API server writes numbers with an exponent."""
_DNS_LABEL = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_GENERATED = re.compile("[a-z0-9]([-a-z0-9]*)")
_KEY = re.compile("([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile("([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


def concerns_podtune(document: object) -> bool:
    """Whether a document is meant to be an Experiment or a Trial, or can't be anything."""
    if not isinstance(document, Mapping):
        return True
    version, kind = document.get("apiVersion"), document.get("kind")
    if not isinstance(version, str) or not isinstance(kind, str):
        return True
    return version.partition("/")[0] == GROUP or (kind in _KINDS and version.startswith(_OTHER_TUNERS))


def check_document(
    document: object, policy: TemplatePolicy = DEFAULT_POLICY, experiments: Mapping[str, ExperimentSpec] | None = None
) -> list[Problem]:
    """Says what is wrong with a document that `concerns_podtune`: all that API server and operator would refuse.

    Args:
        document: What was read.
        policy: What the operator's administrator allows in pods.
        experiments: Those whose Trials it may be, by name: the values of parameters are looked at with these.
    """
    if not isinstance(document, Mapping):
        return [Problem("document", f"{show_value(document)} is not a map; write apiVersion, kind, metadata and spec")]
    document = {**document, "spec": _store_numbers(document.get("spec"))} if "spec" in document else document
    problems = [*_check_type(document), *_check_fields(document), *_check_metadata(document)]
    if document.get("kind") == TRIAL_KIND:
        return problems + _check_trial(document, experiments or {})
    named = {problem.field for problem in problems}
    return problems + [problem for problem in list_problems(document, policy) if problem.field not in named]


def _store_numbers(value: object) -> Any:
    """What the API server makes of numbers: 1.0 is 1 there, so that it may stand in a list twice."""
    match value:
        case float() if value.is_integer() and abs(value) < _LONGEST_INTEGER:
            return int(value)
        case Mapping():
            return {key: _store_numbers(entry) for key, entry in value.items()}
        case list():
            return [_store_numbers(entry) for entry in value]
        case _:
            return value


def _check_type(document: Mapping[Any, Any]) -> Iterator[Problem]:
    version, kind = document.get("apiVersion"), document.get("kind")
    if version != API_VERSION:
        found = "is missing" if version is None else f"{show_value(version)} is none of Podtune's"
        yield Problem("apiVersion", f"{found}; write {API_VERSION}")
    if kind not in _KINDS:
        found = "is missing" if kind is None else f"{show_value(kind)} is no kind of {GROUP}"
        remedy = did_you_mean(kind, _KINDS) if isinstance(kind, str) else ""
        yield Problem("kind", f"{found}; {remedy or f'write {EXPERIMENT_KIND} or {TRIAL_KIND}'}")


def _check_fields(document: Mapping[Any, Any]) -> Iterator[Problem]:
    for name, value in document.items():
        if name not in _FIELDS:
            meant = did_you_mean(str(name), _FIELDS) or "put it below spec, or remove it"
            yield Problem(str(name), f"{show_value(value)} is set in a field that does not exist; {meant}")


def _check_metadata(document: Mapping[Any, Any]) -> Iterator[Problem]:
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping):
        found = "is missing" if metadata is None else f"{show_value(metadata)} is not a map"
        yield Problem("metadata", f"{found}; write name: … below it")
        return
    for name, value in metadata.items():
        if name not in _METADATA:
            meant = did_you_mean(str(name), _METADATA) or "remove it"
            yield Problem(f"metadata.{name}", f"{show_value(value)} is set in a field that does not exist; {meant}")
    yield from _check_generate_name(document, metadata)
    namespace = metadata.get("namespace")
    if namespace is not None and not (isinstance(namespace, str) and _DNS_LABEL.fullmatch(namespace)):
        yield Problem("metadata.namespace", f"{show_value(namespace)} is no namespace; use only a to z, digits and -")
    for kind in ("labels", "annotations"):
        yield from _check_texts(f"metadata.{kind}", metadata.get(kind), is_label=kind == "labels")


def _check_generate_name(document: Mapping[Any, Any], metadata: Mapping[Any, Any]) -> Iterator[Problem]:
    """A name is given, or made by the API server: it must be one whose Trials can be named after it."""
    if metadata.get("name"):
        return
    prefix = metadata.get("generateName")
    if not prefix:
        yield Problem("metadata.name", "is missing; add it, or generateName, which the API server completes")
    elif not isinstance(prefix, str) or not _GENERATED.fullmatch(prefix):
        yield Problem("metadata.generateName", f"{show_value(prefix)} begins no name; use only a to z, digits and -")
    elif document.get("kind") == EXPERIMENT_KIND and len(prefix) + _SUFFIX > MAX_NAME:
        most = MAX_NAME - _SUFFIX
        yield Problem("metadata.generateName", f"{prefix!r} has {len(prefix)} characters; shorten it to {most}")


def _check_texts(field: str, entries: object, *, is_label: bool) -> Iterator[Problem]:
    if entries is None:
        return
    if not isinstance(entries, Mapping):
        yield Problem(field, f"{show_value(entries)} is not a map; write team: vision below it, such as")
        return
    for key, value in entries.items():
        place = f'{field}["{key}"]' if re.search(r"[./]", str(key)) else f"{field}.{key}"
        if not isinstance(key, str) or not _KEY.fullmatch(key if is_label else key.lower()):
            yield Problem(place, f"{key!r} is not a key; write it like team or example.com/team")
        elif not isinstance(value, str):
            yield Problem(place, f"{show_value(value)} is not a string; put it in quotes")
        elif is_label and not _LABEL_VALUE.fullmatch(value):
            yield Problem(place, f"{value!r:.64} is no label; use up to 63 letters, digits, -, _ and . alone")


def _check_trial(document: Mapping[Any, Any], experiments: Mapping[str, ExperimentSpec]) -> list[Problem]:
    spec, problems = read_spec_of(TrialSpec, document.get("spec"))
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if name is not None and not (isinstance(name, str) and len(name) < 64 and re.fullmatch(OBJECT_NAME, name)):
        problems.append(Problem("metadata.name", f"{show_value(name)} is not a valid name of up to 63 characters"))
    elif spec is not None and not problems:
        problems += _check_added(str(name or ""), spec)
        if not problems and spec.experiment in experiments:
            problems += _check_parameters(spec, experiments[spec.experiment])
    return problems


def _check_added(name: str, spec: TrialSpec) -> Iterator[Problem]:
    """What a person may say of a Trial, and how it is named; see the rules of the definition."""
    if spec.index != UNNUMBERED:
        if is_added(spec.index) or name != f"{spec.experiment}-{spec.index}":
            yield Problem(
                "spec.index", f"{spec.index} is for the operator to set, and the name belongs to it; leave it out"
            )
        return
    if parse_added_index(name, spec.experiment) is None:
        shape = f"{spec.experiment}-<number>, with a number from {FIRST_ADDED} on"
        yield Problem("metadata.name", f"{name!r} is no name of a Trial that you add; name it {shape}")
    for field in ("seed", "display_name", "proposal", "former"):
        if getattr(spec, field):
            alias = TrialSpec.model_fields[field].alias or field
            yield Problem(f"spec.{alias}", "is for the operator to set; remove it")
    source = spec.restore_from
    if source is not None and source.experiment not in ("", spec.experiment):
        what = f"{source.experiment!r} is another experiment; name a trial of {spec.experiment}"
        yield Problem("spec.restoreFrom.experiment", what)


def _check_parameters(spec: TrialSpec, experiment: ExperimentSpec) -> Iterator[Problem]:
    try:
        apply_overrides(experiment.parameters, experiment.constraints, {}, spec.parameters, "parameters")
    except FieldError as error:
        yield Problem(f"spec.{error.path}", error.problem)
