"""What a trial runs with: the parameters of its spec, until an exploit gives it others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from podtune.api.json_values import decode_value
from podtune.api.resources.trial import TrialSpec, TrialStatus
from podtune.api.tuning.search_space import Parameter, parse_configuration

Parameters = Mapping[str, str]
"""Written values by parameter name."""


def find_effective(spec: TrialSpec, status: TrialStatus) -> dict[str, str]:
    """What the trial runs with, or will run with next."""
    return status.parameters or spec.parameters


def make_effective(spec: TrialSpec, status: TrialStatus) -> TrialSpec:
    """The spec as if it held what the trial runs with."""
    return spec.model_copy(update={"parameters": status.parameters}) if status.parameters else spec


def decode_configuration(parameters: Sequence[Parameter], written: Parameters) -> dict[str, JsonValue]:
    """The configuration as a program reads it: in its own types, and in the manifest's order."""
    return {name: decode_value(value) for name, value in parse_configuration(parameters, written).items()}


def find_best(spec: TrialSpec, status: TrialStatus) -> dict[str, str]:
    """What the trial's best value was reached with."""
    return status.best_parameters or spec.parameters


def find_changed(spec: TrialSpec, parameters: Parameters) -> dict[str, str]:
    """Parameters as a status holds them: empty where they are the spec's."""
    return {} if dict(parameters) == spec.parameters else dict(parameters)


def compute_fingerprint(parameters: Parameters) -> str:
    """Identifies the parameters of a status by 12 characters; empty for the spec's.

    A checkpoint carries it: a trial never continues from weights with other parameters than they were trained with,
    unless an exploit says so.
    """
    if not parameters:
        return ""
    return hashlib.sha256(json.dumps(parameters, sort_keys=True).encode()).hexdigest()[:12]


def compute_configuration_digest(spec: TrialSpec) -> str:
    """Identifies the configuration that a trial trains with: a SHA-256, in hexadecimal.

    The manifests of its checkpoints hold it. So a checkpoint whose Trial is gone still says which configuration may
    continue from it.
    """
    content = {"parameters": spec.parameters, "seed": spec.seed}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def list_differences(before: Parameters, after: Parameters) -> dict[str, str]:
    """By name, each value that changes, such as `0.1 → 0.12`."""
    return {name: f"{before.get(name, '-')} → {value}" for name, value in after.items() if before.get(name) != value}
