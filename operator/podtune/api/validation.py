"""Reads an Experiment as a user wrote it, and reports a mistake in one sentence.

The API server has refused most mistakes by then. The rest is found here and becomes the Stalled condition: what the API
server can't check (see `rules`), or everything if the cluster's definitions are older than the operator.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from pydantic import ValidationError

from podtune.api.base import ApiModel, FieldError, Problem
from podtune.api.crd.schema import Schema, build_structural_schema
from podtune.api.crd.schema_types import find_wrong_types
from podtune.api.pods.template_policy import DEFAULT_POLICY, TemplatePolicy
from podtune.api.resources.experiment import MAX_NAME, ExperimentSpec
from podtune.api.resources.template import TEMPLATE_POLICY
from podtune.api.suggestions import did_you_mean

Model = TypeVar("Model", bound=ApiModel)

_MAX_SHOWN = 64
"""Longest piece of a user's value that a message repeats."""
_PROBLEMS: Mapping[str, str] = {
    "bool_parsing": "{value} is neither true nor false; write one of the two",
    "bool_type": "{value} is neither true nor false; write one of the two",
    "dict_type": "{value} is not a map; write fields below it",
    "finite_number": "{value} is not a finite number; write one without quotes",
    "float_parsing": "{value} is not a number; write one without quotes",
    "float_type": "{value} is not a number; write one without quotes",
    "greater_than": "{value} is too small; it must be above {gt}",
    "greater_than_equal": "{value} is too small; it must be at least {ge}",
    "int_from_float": "{value} is not a whole number; write one",
    "int_parsing": "{value} is not a whole number; write one without quotes",
    "int_type": "{value} is not a whole number; write one without quotes",
    "less_than_equal": "{value} is too large; it may be at most {le}",
    "list_type": "{value} is not a list; write each entry with a dash",
    "literal_error": "{value} is not one of the choices; use {expected}",
    "model_attributes_type": "{value} is not a map; write fields below it",
    "model_type": "{value} is not a map; write fields below it",
    "string_pattern_mismatch": "{value} does not match {pattern}; change it",
    "string_too_long": "{value} is too long; shorten it to {max_length}",
    "string_too_short": "{value} is too short; give at least {min_length}",
    "string_type": "{value} is not a string; put it in quotes",
    "too_long": "{value} is too long; shorten it to {max_length}",
    "too_short": "{value} is too short; give at least {min_length}",
}
"""What to say of pydantic's kinds of errors; the words in braces are the error's own."""
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


NO_FUNCTIONS = (
    "a manifest holds no functions: write expression for what follows from other parameters, when for a parameter that "
    "only some trials have, or compute it in the program, from a choice of names, for example"
)
_FUNCTIONS = frozenset(
    ("function", "func", "callable", "lambda", "sampler", "sampleFrom", "sample_from", "tune.sample_from")
)
"""Fields below a parameter in which people try to write a function."""
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_ELSEWHERE: Mapping[tuple[str, ...], str] = {
    ("objective", "type"): "write objective.mode: {value}",
    ("objective", "goal"): "write it as a target: stop.experiment: [{{target: {value}}}]",
    ("objective", "objectiveMetricName"): "write objective.metric: {value}",
    ("objective", "additionalMetricNames"): "leave it out; more objectives are objective.others",
    ("objective", "metricStrategies"): "leave it out; the best value of a trial counts",
    ("algorithm",): "write search.algorithm and the name",
    ("algorithm", "algorithmName"): "write search.algorithm: {value}",
    ("maxTrialCount",): "write search.maxTrials: {value}",
    ("maxTrials",): "write search.maxTrials: {value}",
    ("parallelTrialCount",): "write maxConcurrentTrials: {value}",
    ("maxFailedTrialCount",): "write stop.experiment: [{{failures: {{count: {value}}}}}]",
    ("earlyStopping",): "write a scheduler, such as scheduler.median",
    ("metricsCollectorSpec",): "write results.stdout.pattern, or leave it out and report by podtune.trial",
    ("resumePolicy",): "leave it out; an Experiment goes on when its limits are raised",
    ("parameters", "parameterType"): "write float, int or choice with min, max or values below it",
    ("parameters", "feasibleSpace"): "write float, int or choice with min, max or values below it",
    ("trialTemplate", "primaryContainerName"): "leave it out; the container named trial trains",
    ("trialTemplate", "trialParameters"): "leave it out, and write $(PODTUNE_PARAM_<name>) in command, args or env",
    ("trialTemplate", "trialSpec"): "write the pod's spec as trialTemplate.spec",
}
"""What to write instead of fields of other kinds, above all of Katib's Experiment, by their path without positions."""
_KATIB_WORDS: Mapping[str, str] = {
    "maximize": "max",
    "minimize": "min",
    "bayesianoptimization": "gp",
    "multivariate-tpe": "tpe",
    "sobol": "qmc",
}
"""Values of those fields in our words."""


class InvalidSpec(ValueError):
    """A resource that can never work as it is; the text names the field, the value and the remedy."""


def parse_experiment(resource: Mapping[str, Any], policy: TemplatePolicy = DEFAULT_POLICY) -> ExperimentSpec:
    """Reads the spec of an Experiment.

    Raises:
        InvalidSpec: The spec can't be worked with.
    """
    problem = _find_name_problem(resource)
    if problem:
        raise InvalidSpec(str(problem))
    try:
        spec = ExperimentSpec.model_validate(resource.get("spec"), context={TEMPLATE_POLICY: policy})
    except ValidationError as error:
        raise InvalidSpec(explain(error)) from error
    problem = _find_source_problem(resource, spec)
    if problem:
        raise InvalidSpec(str(problem))
    return spec


def find_problems(resource: Mapping[str, Any], policy: TemplatePolicy = DEFAULT_POLICY) -> list[str]:
    """Says what is wrong with an Experiment: all mistakes, a sentence each; none where it can be worked with."""
    return [str(problem) for problem in list_problems(resource, policy)]


def list_problems(resource: Mapping[str, Any], policy: TemplatePolicy = DEFAULT_POLICY) -> list[Problem]:
    """What is wrong with an Experiment, below its spec and with its name; nothing where it can be worked with.

    A rule about several fields is looked at when each of them is right by itself, so correcting mistakes may bring
    others to light.
    """
    named = _find_name_problem(resource)
    problems = [named] if named else []
    spec, below = read_spec_of(ExperimentSpec, resource.get("spec"), policy)
    problems += below
    if problems or spec is None:
        return problems
    source = _find_source_problem(resource, spec)
    return [source] if source else []


def read_spec_of(
    model: type[Model], spec: object, policy: TemplatePolicy = DEFAULT_POLICY
) -> tuple[Model | None, list[Problem]]:
    """Reads the spec of a resource as strictly as the API server; gives it, if it is one, and all that is wrong."""
    schema = _build_schema(model)
    # A spec that is not a map is reported by the model.
    found = find_wrong_types(spec, schema) if isinstance(spec, Mapping) else ()
    wrong = {_format_path(("spec", *path)): f"{_show(value)} {what}" for path, value, what in found}
    problems = [Problem(field_path, what) for field_path, what in wrong.items()]
    try:
        return model.model_validate(spec, context={TEMPLATE_POLICY: policy}), problems
    except ValidationError as error:
        mistakes = [_describe_mistake(mistake, schema) for mistake in error.errors(include_url=False)]
        return None, problems + [mistake for mistake in mistakes if mistake.field not in wrong]


def explain(error: ValidationError) -> str:
    """Says in one sentence what is wrong with a spec: the first mistake, and how many more there are."""
    first, *others = error.errors(include_url=False)
    return f"{_describe_mistake(first, _build_schema(ExperimentSpec))}" + (
        f" (and {len(others)} more)" if others else ""
    )


def _find_name_problem(resource: Mapping[str, Any]) -> Problem | None:
    """What is wrong with the Experiment's name."""
    metadata = resource.get("metadata") or {}
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if name is None:
        return None  # the API server makes one of generateName
    if not isinstance(name, str):
        return Problem("metadata.name", f"{_show(name)} is not a string; put it in quotes")
    if len(name) > MAX_NAME:
        return Problem("metadata.name", f"{name!r} has {len(name)} characters; shorten it to {MAX_NAME}")
    if "." in name:
        return Problem("metadata.name", f"{name!r} contains a dot, and pods are named after it; write - instead")
    if not _DNS_LABEL.fullmatch(name):
        return Problem("metadata.name", f"{name!r} is not a valid Kubernetes name; use only a to z, digits and -")
    return None


def _find_source_problem(resource: Mapping[str, Any], spec: ExperimentSpec) -> Problem | None:
    """What is wrong with where the search starts from."""
    source = spec.search.warm_start
    if source is None or source.experiment != resource.get("metadata", {}).get("name"):
        return None
    what = f"{source.experiment!r} is this experiment itself, which has no trials yet; name an earlier one"
    return Problem("spec.search.warmStart.experiment", what)


def _describe_mistake(mistake: Any, schema: Schema) -> Problem:
    """Where a mistake is, and what to do about it."""
    path, what = _locate(mistake, schema)
    return Problem(_format_path(("spec", *path)).replace("\n", " "), what.replace("\n", " "))


def _locate(error: Any, schema: Schema) -> tuple[Sequence[str | int], str]:
    """The path of a mistake, below the spec, and what to say of it."""
    path = tuple(part for part in error["loc"] if part != "[key]")
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, FieldError):
        return (*path, cause.path), cause.problem
    if error["type"] == "value_error" and cause is not None:
        return path, str(cause)
    if error["type"] == "extra_forbidden":
        remedy = _suggest(path, error["input"], schema)
        return path, f"{_show(error['input'])} is set in a field that does not exist; {remedy}"
    if error["type"] == "missing":
        return path, f"is missing; add it ({_find_schema(path, schema).get('description', 'it is required')})"
    template = _PROBLEMS.get(error["type"], "{value} is not valid; correct it ({message})")
    values = {"value": _show(error["input"]), "message": error["msg"]}
    return path, template.format_map(dict(error.get("ctx", {})) | values)


def _suggest(path: Sequence[str | int], value: object, schema: Schema) -> str:
    """What to do about a field that does not exist."""
    names = tuple(part for part in path if isinstance(part, str))
    if names[0] == "parameters" and names[-1] in _FUNCTIONS:
        return NO_FUNCTIONS
    if elsewhere := _ELSEWHERE.get(names):
        return elsewhere.format(value=_KATIB_WORDS.get(str(value), value) if isinstance(value, str | int) else "…")
    fields = _find_schema(path[:-1], schema).get("properties", {})
    return f"{did_you_mean(str(path[-1]), fields) or 'remove it'} (fields here: {', '.join(fields) or 'none'})"


def _find_schema(path: Sequence[str | int], schema: Schema) -> Schema:
    """The schema of a field of the spec; empty where the path leaves it."""
    for part in path:
        below = schema.get("items") if isinstance(part, int) else schema.get("properties", {}).get(part)
        schema = below or schema.get("additionalProperties") or {}
    return schema


@cache
def _build_schema(model: type[ApiModel]) -> Schema:
    """The schema of a spec; to make it takes a tenth of a second."""
    return build_structural_schema(model)


def _format_path(path: Sequence[str | int]) -> str:
    """A path as people write it: spec.parameters[0].float.min."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.startswith("["):
            text += part
        elif "." in part or "[" in part or _WORD.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f'["{part}"]'
    return text


def _show(value: object) -> str:
    """A value as in the manifest, shortened."""
    match value:
        case bool():
            text = str(value).lower()
        case None:
            text = "null"
        case Mapping():
            text = f"a map of {len(value)}" if value else "an empty map"
        case list():
            text = f"a list of {len(value)}" if value else "an empty list"
        case str():
            text = f"'{value}'"
        case _:
            text = str(value)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"
