"""What of a manifest can be had on one machine, and what takes the place of the rest.

The search, the scheduler and all other decisions stay as they are. The store becomes a folder. What a program needs and
this machine can't give is refused by its field before anything starts, unless a command of the user's own takes the
place of the container's.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podtune.api.pods.pod_template import find_trial_container
from podtune.api.resources.experiment import ExperimentSpec
from podtune.cli.client.run_directory import STORE_CLAIM
from podtune.cli.errors import CliError
from podtune.kube.manifests import Manifest
from podtune.local.program import COMPUTED_FIELDS, is_computed
from podtune.local.volumes import ConfigMaps, find_missing_volumes
from podtune.protocol.agent_environment import SOURCE_NAMES

_NONE: ConfigMaps = {}
_OWN_COMMAND = "or give the command to run here after --"


@dataclass(frozen=True, slots=True)
class LocalManifest:
    """An Experiment that can be run here.

    Attributes:
        resource: The manifest, changed where it had to be.
        notes: What was passed over, a sentence each.
    """

    resource: Manifest
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Machine:
    """What there is here."""

    environ: Mapping[str, str]
    config_maps: ConfigMaps
    has_images: bool


class NotLocal(CliError):
    """The experiment asks for what can't be had on one machine.

    Attributes:
        problems: What that is, a sentence each: field, value and remedy.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n  ".join(("this machine can't run it:", *problems)))
        self.problems = tuple(problems)


def adapt(
    resource: Mapping[str, Any],
    command: Sequence[str],
    environ: Mapping[str, str],
    config_maps: ConfigMaps = _NONE,
    *,
    in_containers: bool = False,
) -> LocalManifest:
    """Adapts an Experiment that is right by itself.

    Args:
        resource: The manifest.
        command: What to run in the place of the training container's command; empty for that.
        environ: The caller's environment: the program inherits it.
        config_maps: What travels with the manifest.
        in_containers: Whether programs run in containers of their images.

    Raises:
        NotLocal: It can't be run here.
    """
    adapted = copy.deepcopy(dict(resource))
    spec: dict[str, Any] = adapted["spec"]
    problems = [*_find_missing_cluster(spec)]
    if in_containers:
        problems += _find_missing_endpoint(spec.get("results") or {})
    problems += _find_shared_port(spec)
    notes = [*_adapt_checkpoints(spec.get("checkpoints") or {})]
    if spec["trialTemplate"].pop("reuse", False):
        notes.append("trialTemplate.reuse: each trial gets a process of its own")
    spec.pop("ttlSecondsAfterFinished", None)
    if not problems:
        pod_spec = spec["trialTemplate"]["spec"]
        if command:
            notes += _put_command(pod_spec, command, environ, in_containers=in_containers)
        machine = _Machine(environ, config_maps, in_containers)
        for path, template in list_templates(spec):
            otherwise = _OWN_COMMAND if template is spec["trialTemplate"] else "or remove spec.evaluation"
            problems += _find_missing_of_pod(template["spec"], f"{path}.spec", machine, otherwise)
    if problems:
        raise NotLocal(problems)
    return LocalManifest(adapted, tuple(notes))


def find_missing_variables(resource: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    """Says which variables an adapted Experiment needs and the environment lacks, as when it is resumed elsewhere."""
    return [
        problem
        for path, template in list_templates(resource["spec"])
        for container in _list_containers(template["spec"], f"{path}.spec")
        for problem in _find_missing_variables(*container, environ, "")
    ]


def list_templates(spec: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The templates of an Experiment's pods, of training and of evaluations, each with its path."""
    yield "spec.trialTemplate", spec["trialTemplate"]
    if template := (spec.get("evaluation") or {}).get("template"):
        yield "spec.evaluation.template", template


def _find_missing_cluster(spec: Mapping[str, Any]) -> Iterator[str]:
    """What only a cluster has."""
    template = spec["trialTemplate"]
    if spec.get("suspend"):
        yield "spec.suspend: is true, so nothing would start; remove it"
    if (spec.get("search") or {}).get("warmStart"):
        yield "spec.search.warmStart: the earlier experiment is in the cluster; remove it, or write search.initial"
    for position, entry in enumerate((spec.get("search") or {}).get("initial") or ()):
        if entry.get("restoreFrom"):
            yield (
                f"spec.search.initial[{position}].restoreFrom: another experiment's checkpoint is in the cluster; "
                "remove it"
            )
    if template.get("roles"):
        yield "spec.trialTemplate.roles: gangs need a cluster; write spec with one container to try the program here"
    if template.get("replicas", 1) != 1:
        yield f"spec.trialTemplate.replicas: {template['replicas']} pods need a cluster; remove it to try one here"


def _find_missing_endpoint(results: Mapping[str, Any]) -> Iterator[str]:
    """What needs the loopback that a program and its agent share; a container has its own."""
    for name in SOURCE_NAMES:
        if results.get(name) is not None:
            yield f"spec.results.{name}: a container can't reach the agent on this machine; leave out --container"
    if results.get("scrape") is not None:
        yield "spec.results.scrape: the agent on this machine can't reach into a container; leave out --container"


def _find_shared_port(spec: Mapping[str, Any]) -> Iterator[str]:
    """A port that several programs would listen on: here, they share the loopback."""
    scrape = (spec.get("results") or {}).get("scrape")
    concurrent = spec.get("maxConcurrentTrials", ExperimentSpec.model_fields["max_concurrent_trials"].default)
    if scrape is not None and concurrent != 1:
        yield (
            f"spec.results.scrape.port: {concurrent} trials at a time can't share port {scrape['port']} of this "
            "machine; set maxConcurrentTrials to 1"
        )


def _adapt_checkpoints(checkpoints: dict[str, Any]) -> Iterator[str]:
    """Has a folder be the store; what is about another one goes."""
    if not checkpoints.get("store"):
        return
    checkpoints["store"] = {"volume": {"claimName": STORE_CLAIM}}
    checkpoints.pop("scratch", None)
    checkpoints.pop("deletionPolicy", None)
    export = checkpoints.get("export")
    if export and export.pop("to", None):
        yield "checkpoints.export.to: checkpoints are exported to the folder that is the store"


def _put_command(
    pod_spec: dict[str, Any], command: Sequence[str], environ: Mapping[str, str], *, in_containers: bool
) -> Iterator[str]:
    """Puts a command in the place of the training container's; what belongs to its image goes with that, or stays."""
    name = find_trial_container(pod_spec)
    trial = next(container for container in pod_spec["containers"] if container.get("name", "") == name)
    trial["command"] = list(command)
    trial.pop("args", None)
    others = [container.get("name", "") for container in pod_spec["containers"] if container is not trial]
    others += [container.get("name", "") for container in pod_spec.pop("initContainers", None) or ()]
    pod_spec["containers"] = [trial]
    if others:
        yield f"trialTemplate: the containers {', '.join(others)} are passed over"
    if not in_containers:
        if pod_spec.pop("volumes", None):
            yield "trialTemplate: volumes are passed over"
        trial.pop("volumeMounts", None)
    lacking = [entry["name"] for entry in trial.get("env") or () if not _is_had(entry, environ)]
    if lacking:
        trial["env"] = [entry for entry in trial["env"] if entry["name"] not in lacking]
        yield f"trialTemplate: the variables {', '.join(lacking)} are passed over; export them to have them"
    if trial.pop("envFrom", None):
        yield "trialTemplate: envFrom is passed over; export its variables to have them"


def _list_containers(pod_spec: Mapping[str, Any], path: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    for position, container in enumerate(pod_spec["containers"]):
        yield container, f"{path}.containers[{position}]"


def _find_missing_of_pod(pod_spec: Mapping[str, Any], path: str, machine: _Machine, otherwise: str) -> Iterator[str]:
    """What of a pod can't be had here."""
    training = find_trial_container(pod_spec)
    for position, container in enumerate(pod_spec.get("initContainers") or ()):
        name = container.get("name", "")
        yield f"{path}.initContainers[{position}]: {name!r} can't run here; do its work before, remove it, {otherwise}"
    for position, problem in find_missing_volumes(pod_spec, machine.config_maps):
        yield f"{path}.volumes[{position}]: {problem}, {otherwise}"
    for container, place in _list_containers(pod_spec, path):
        if container.get("name", "") != training:
            yield f"{place}: {container.get('name', '')!r} can't run here; remove it, {otherwise}"
            continue
        if not container.get("command") and not machine.has_images:
            yield f"{place}.command: is missing; write it, {otherwise}, or have its image run by --container"
        if container.get("envFrom"):
            yield f"{place}.envFrom: can't be read here; export its variables instead, {otherwise}"
        yield from _find_missing_variables(container, place, machine.environ, f", {otherwise}")


def _find_missing_variables(
    container: Mapping[str, Any], place: str, environ: Mapping[str, str], otherwise: str
) -> Iterator[str]:
    for position, entry in enumerate(container.get("env") or ()):
        if _is_had(entry, environ):
            continue
        name, source = entry["name"], entry["valueFrom"]
        kind = next(iter(source), "")
        if kind == "fieldRef":
            remedy = f"use one of {', '.join(COMPUTED_FIELDS)}"
        else:
            remedy = f"export {name}, whose value is then taken from your environment"
        yield f"{place}.env[{position}].valueFrom.{kind}: {name} can't be looked up here; {remedy}{otherwise}"


def _is_had(entry: Mapping[str, Any], environ: Mapping[str, str]) -> bool:
    """Whether a variable has a value here."""
    source = entry.get("valueFrom")
    if not source or entry["name"] in environ:
        return True
    if "fieldRef" in source:
        return is_computed(source["fieldRef"].get("fieldPath", ""))
    return any(isinstance(reference, Mapping) and reference.get("optional") for reference in source.values())
