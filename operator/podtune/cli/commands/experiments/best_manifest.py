"""The best configuration as a manifest: a Job that trains with it, or an Experiment of one trial."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from podtune.api.document_checks import check_document
from podtune.api.names import API_VERSION, EXPERIMENT_KIND
from podtune.api.pods.parameter_text import format_labels
from podtune.api.pods.pod_template import find_trial_container
from podtune.api.pods.template_policy import UNKNOWN_POLICY
from podtune.api.resources.experiment import MAX_NAME, ExperimentSpec
from podtune.api.tuning.search_space import parse_configuration
from podtune.api.validation import InvalidSpec, parse_experiment
from podtune.cli.client.resources import ExperimentView, read_experiment
from podtune.cli.errors import CliError
from podtune.cli.views.tables import collect_best
from podtune.kube.manifests import Manifest
from podtune.runner.resources import compose_limits
from podtune.runner.trial.parameters import decode_configuration
from podtune.trial.layout import ENV_PARAMETER_PREFIX, ENV_SEED

_ALL_RUNGS = 1 << 30
"""A whole training has passed them all, and has what is given to the trials at the last."""
_OF_THE_SEARCH = ("scheduler", "suspend", "resume", "maxPendingTrials", "constraints")
"""What one trial needs no more."""


class ManifestKind(StrEnum):
    """What trains with the best configuration."""

    JOB = "job"
    EXPERIMENT = "experiment"


def parse_kind(written: str) -> ManifestKind:
    """Reads what a manifest is to be.

    Raises:
        CliError: It is neither.
    """
    try:
        return ManifestKind(written.lower())
    except ValueError as error:
        raise CliError(f"--as: {written!r} is neither job nor experiment; write one of them") from error


def build_best_manifest(item: Manifest, kind: ManifestKind) -> Manifest:
    """Builds a manifest that trains with an Experiment's best configuration.

    Raises:
        CliError: There is no result yet, or no such manifest can be made of the Experiment.
    """
    view = read_experiment(item)
    collect_best(view)  # says what is missing where there is no result yet
    try:
        spec = parse_experiment(item, UNKNOWN_POLICY)
    except InvalidSpec as error:
        raise CliError(f"the Experiment can't be used: {error}") from error
    return _build_job(view, spec) if kind is ManifestKind.JOB else _build_experiment(view, spec)


def _build_job(view: ExperimentView, spec: ExperimentSpec) -> Manifest:
    """A Job of the trial's pod, without an agent: its program gets the parameters from the environment."""
    template = spec.trial_template
    if template.roles or template.replicas > 1:
        raise CliError(
            f"the trials of {view.name} are gangs of pods, which a Job has no such pods for; use --as experiment"
        )
    parameters = _list_best(view)
    limits = compose_limits(spec, parse_configuration(spec.parameters, parameters), _ALL_RUNGS)
    if limits.problem:
        raise CliError(f"the limits of the best configuration can't be told: {limits.problem}")
    pod = copy.deepcopy(template.spec)
    variables = {f"{ENV_PARAMETER_PREFIX}{name}": value for name, value in parameters.items()}
    variables[ENV_SEED] = str(spec.search.seed)
    given = [{"name": name, "value": value.replace("$", "$$")} for name, value in variables.items()]
    for container in (*pod["containers"], *pod.get("initContainers", ())):
        container["env"] = [*given, *(container.get("env") or ())]
        if container.get("name") == find_trial_container(pod):
            _set_limits(container, limits.limits)
    pod.setdefault("restartPolicy", "Never")
    metadata = {
        "labels": format_labels(template.metadata.labels, parameters),
        "annotations": dict(template.metadata.annotations),
    }
    kept = {kind: entries for kind, entries in metadata.items() if entries}
    body = {
        "backoffLimit": spec.failures.max_failures,
        "template": {**({"metadata": kept} if kept else {}), "spec": pod},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _name(view), "spec": body}


def _build_experiment(view: ExperimentView, spec: ExperimentSpec) -> Manifest:
    """An Experiment of one trial, in which nothing searches, compares or stops early on account of other trials."""
    values = decode_configuration(spec.parameters, _list_best(view))
    sampled = {parameter.name for parameter in spec.parameters if parameter.is_sampled}
    body = {key: value for key, value in copy.deepcopy(dict(view.spec)).items() if key not in _OF_THE_SEARCH}
    initial: dict[str, Any] = {"parameters": {name: value for name, value in values.items() if name in sampled}}
    body["search"] = {"algorithm": "random", "maxTrials": 1, "seed": spec.search.seed, "initial": [initial]}
    body["objective"].pop("others", None)
    body["maxConcurrentTrials"] = 1
    for of_all in ("experiment", "now"):
        body.get("stop", {}).pop(of_all, None)
    manifest = {"apiVersion": API_VERSION, "kind": EXPERIMENT_KIND, "metadata": _name(view), "spec": body}
    if problems := check_document(manifest, UNKNOWN_POLICY):
        raise CliError(f"no Experiment can be made of the best configuration of {view.name}: {problems[0]}")
    return manifest


def _list_best(view: ExperimentView) -> Mapping[str, str]:
    best = view.status.best
    assert best is not None  # `collect_best` has looked
    return best.parameters


def _name(view: ExperimentView) -> dict[str, Any]:
    return {"name": f"{view.name[: MAX_NAME - 5]}-best", **({"namespace": view.namespace} if view.namespace else {})}


def _set_limits(container: dict[str, Any], limits: Mapping[str, str]) -> None:
    """Replaces limits of a container, and what it requests of the same resources; "0" removes one."""
    if not limits:
        return
    resources = container.setdefault("resources", {})
    whole = {**(resources.get("limits") or {}), **limits}
    resources["limits"] = {name: amount for name, amount in whole.items() if amount != "0"}
    if resources.get("requests"):
        resources["requests"] = {name: text for name, text in resources["requests"].items() if name not in limits}
