"""Checks the values in a trial template that the API server would otherwise refuse with the first pod.

The Experiment's definition leaves a pod's spec open, so the API server accepts anything there. `pod_template` says
which fields are allowed; this module checks their values: types that people mix up, names that must match, amounts, and
references to unknown variables. It does not validate pods completely: other mistakes are refused with the first pod,
which then holds the experiment.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from podtune.api.base import FieldError
from podtune.api.pods.container_resources import check_resources
from podtune.api.pods.parameter_text import REFERENCE, find_reference_problem
from podtune.api.pods.pod_checks import Check, check_each, show_value
from podtune.api.pods.quantities import parse_quantity
from podtune.api.suggestions import did_you_mean
from podtune.trial import layout

MAX_LABEL = 63
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_VARIABLES = frozenset(
    {
        layout.ENV_DIRECTORY,
        layout.ENV_TRIAL,
        layout.ENV_EXPERIMENT,
        layout.ENV_ATTEMPT,
        layout.ENV_DISPLAY_NAME,
        layout.ENV_INDEX,
        layout.ENV_RANK,
        layout.ENV_REPLICAS,
        layout.ENV_ROLE,
        layout.ENV_ROLE_INDEX,
        layout.ENV_ROLE_REPLICAS,
        layout.ENV_ROLES,
        layout.ENV_SEED,
        layout.ENV_REUSE,
    }
)
PULL_POLICIES = ("Always", "IfNotPresent", "Never")


def check_pod_values(spec: Mapping[str, Any]) -> None:
    """Checks the values in a pod's spec whose fields are all allowed.

    Raises:
        FieldError: A pod with it would be refused.
    """
    _require_fields(_POD)(spec, "")
    volumes = [volume.get("name") for volume in spec.get("volumes") or ()]
    for path, container in _list_containers(spec):
        mounted: set[str] = set()
        for position, mount in enumerate(container.get("volumeMounts") or ()):
            field_path = f"{path}.volumeMounts[{position}]"
            if mount.get("name") not in volumes:
                known = ", ".join(map(repr, volumes)) or "none"
                problem = f"{mount.get('name')!r} is not among the pod's volumes ({known}); add it to volumes"
                raise FieldError(f"{field_path}.name", problem)
            target = mount.get("mountPath")
            if target is None:
                raise FieldError(f"{field_path}.mountPath", "is missing; set the path in the container")
            if target in mounted:
                raise FieldError(f"{field_path}.mountPath", f"{target!r} is used twice; change one of them")
            mounted.add(target)


def check_references(spec: Mapping[str, Any], parameters: Collection[str]) -> None:
    """Checks the `$(PODTUNE_…)` variables that a template refers to: Kubernetes would leave an unknown one as text.

    Raises:
        FieldError: There is no such variable.
    """
    for path, text in _list_expanded(spec):
        for match in REFERENCE.finditer(text):
            name = match[1] or ""
            prefix = layout.ENV_PARAMETER_PREFIX
            if name.startswith(prefix) and (problem := find_reference_problem(name, parameters)):
                raise FieldError(path, problem)
            if name.startswith("PODTUNE_") and not name.startswith(prefix) and name not in _VARIABLES:
                meant = did_you_mean(name, _VARIABLES).rstrip("?") or f"there are {', '.join(sorted(_VARIABLES))}"
                raise FieldError(path, f"'$({name})' is not a variable of a trial; correct the name ({meant})")


def _list_containers(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for kind in ("initContainers", "containers"):
        for position, container in enumerate(spec.get(kind) or ()):
            yield f"{kind}[{position}]", container


def _list_expanded(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Path and text of all that Kubernetes expands."""
    for path, container in _list_containers(spec):
        for field in ("command", "args"):
            for position, text in enumerate(container.get(field) or ()):
                yield f"{path}.{field}[{position}]", str(text)
        for position, variable in enumerate(container.get("env") or ()):
            yield f"{path}.env[{position}].value", str(variable.get("value") or "")
        for position, mount in enumerate(container.get("volumeMounts") or ()):
            yield f"{path}.volumeMounts[{position}].subPathExpr", str(mount.get("subPathExpr") or "")


# --- the checks that the tables below are made of


def _check_text(value: Any, path: str) -> None:
    if not isinstance(value, str):
        raise FieldError(path, f"{show_value(value)} is not a string; put it in quotes")


def _check_whole(value: Any, path: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise FieldError(path, f"{show_value(value)} is not a whole number; write one without quotes")


def _check_boolean(value: Any, path: str) -> None:
    if not isinstance(value, bool):
        raise FieldError(path, f"{show_value(value)} is neither true nor false; write one of the two")


def _check_amount(value: Any, path: str) -> None:
    parsed = parse_quantity(value)
    if parsed is None or parsed < 0:
        raise FieldError(path, f"{show_value(value)} is not a quantity; write it like 500m or 16Gi")


def _check_label(value: Any, path: str) -> None:
    _check_text(value, path)
    if len(value) > MAX_LABEL or not _LABEL.fullmatch(value):
        problem = (
            f"is not a valid container name; use up to {MAX_LABEL} lowercase letters, digits and -, such as my-trial"
        )
        raise FieldError(path, f"{show_value(value)} {problem}")


def _check_sub_path(value: Any, path: str) -> None:
    _check_text(value, path)
    if value.startswith("/") or ".." in value.split("/"):
        raise FieldError(path, f"{show_value(value)} points outside the volume; write a path inside it, without '..'")


def _require_one_of(*choices: str) -> Check:
    def check(value: Any, path: str) -> None:
        if value not in choices:
            raise FieldError(path, f"{show_value(value)} is not one of the choices; use {', '.join(choices)}")

    return check


def _require_fields(known: Mapping[str, Check]) -> Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, Mapping):
            raise FieldError(path, f"{show_value(value)} is not a map; write fields below it")
        for name, entry in value.items():
            if entry is not None and name in known:
                known[name](entry, f"{path}.{name}" if path else name)

    return check


_SECURITY: Mapping[str, Check] = {
    "runAsUser": _check_whole,
    "runAsGroup": _check_whole,
    "runAsNonRoot": _check_boolean,
    "readOnlyRootFilesystem": _check_boolean,
    "fsGroup": _check_whole,
    "supplementalGroups": check_each(_check_whole),
}
_CONTAINER: Mapping[str, Check] = {
    "name": _check_label,
    "image": _check_text,
    "imagePullPolicy": _require_one_of(*PULL_POLICIES),
    "command": check_each(_check_text),
    "args": check_each(_check_text),
    "workingDir": _check_text,
    "env": check_each(_require_fields({"name": _check_text, "value": _check_text})),
    "ports": check_each(
        _require_fields(
            {"name": _check_text, "containerPort": _check_whole, "protocol": _require_one_of("TCP", "UDP", "SCTP")}
        )
    ),
    "resources": check_resources,
    "volumeMounts": check_each(
        _require_fields(
            {
                "name": _check_text,
                "mountPath": _check_text,
                "readOnly": _check_boolean,
                "subPath": _check_sub_path,
                "subPathExpr": _check_sub_path,
            }
        )
    ),
    "securityContext": _require_fields(_SECURITY),
}
_POD: Mapping[str, Check] = {
    "containers": check_each(_require_fields(_CONTAINER)),
    "initContainers": check_each(_require_fields(_CONTAINER)),
    "volumes": check_each(
        _require_fields(
            {"name": _check_text, "emptyDir": _require_fields({"medium": _check_text, "sizeLimit": _check_amount})}
        )
    ),
    "enableServiceLinks": _check_boolean,
    "imagePullSecrets": check_each(_require_fields({"name": _check_text})),
    "priorityClassName": _check_text,
    "runtimeClassName": _check_text,
    "schedulerName": _check_text,
    "securityContext": _require_fields(_SECURITY),
    "terminationGracePeriodSeconds": _check_whole,
    "tolerations": check_each(
        _require_fields(
            {
                "key": _check_text,
                "operator": _check_text,
                "value": _check_text,
                "effect": _check_text,
                "tolerationSeconds": _check_whole,
            }
        )
    ),
}
