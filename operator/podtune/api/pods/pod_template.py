"""What a trial template may contain: an allow-list of pod fields, none of which reaches outside the pod.

The operator creates pods in its users' namespaces with its own rights, so a field that is not known to be harmless is
refused, with the field's path and the remedy. The tables below are the list. They stay within the Pod Security standard
"baseline", and a pod can meet "restricted".
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

from podtune.api.base import FieldError
from podtune.api.names import GROUP, LABEL_MANAGED_BY
from podtune.api.pods.pod_checks import (
    Check,
    CheckAll,
    Refuse,
    allow_anything,
    allow_fields,
    allow_one_of,
    allow_only,
    check_each,
    forbid,
    write_literal,
)
from podtune.api.pods.pod_references import list_claim_references, list_secret_references
from podtune.api.pods.template_policy import (
    DEFAULT_POLICY,
    TemplatePolicy,
    build_policy_fields,
    check_annotation_domains,
    is_listed,
    restrict_image,
)
from podtune.trial.layout import DIRECTORY

AGENT_CONTAINER = "podtune-agent"
AGENT_UID = 60532
"""The agent's user and group. Of its own: 65532, which many images use, would let a program touch the agent's files."""
RESTORE_CONTAINER = "podtune-restore"
RESERVED_PREFIX = "podtune-"
RESERVED_VARIABLES = "PODTUNE_"
TRIAL_CONTAINER = "trial"
VARIABLE_OF_TRIAL = re.compile(r"(?<!\$)\$\(PODTUNE_(PARAM_|TRIAL|ATTEMPT|SEED|DISPLAY_NAME)")
"""A reference that Kubernetes expands when the container starts."""

_QUALIFIED_NAME = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def find_trial_container(spec: Mapping[str, Any]) -> str:
    """Name of the container that trains: the one named trial, or else the first."""
    names = [str(container.get("name", "")) for container in spec.get("containers", [])]
    return TRIAL_CONTAINER if TRIAL_CONTAINER in names else names[0]


def check_pod_spec(spec: Mapping[str, Any], policy: TemplatePolicy = DEFAULT_POLICY) -> None:
    """Checks a trial template's pod spec against the allow-list.

    Raises:
        FieldError: A field is missing or not allowed; the error names it, its value and the remedy.
    """
    if not spec.get("containers"):
        raise FieldError("containers", "is missing or empty; name at least the container that trains")
    build_allow_list(policy)(spec, "")
    _check_images(spec, policy)
    _check_unique_names(spec)
    _check_denied_secrets(spec, policy)
    _check_denied_claims(spec, policy)


def build_allow_list(policy: TemplatePolicy) -> Check:
    """The fields that a pod's spec may have, each with its check."""
    return allow_fields(_POD | build_policy_fields(policy))


def check_reusable(spec: Mapping[str, Any], labels: Mapping[str, str]) -> None:
    """Checks that a pod can be given another trial: nothing that is fixed with the pod depends on the trial.

    Raises:
        FieldError: A container's command, arguments or environment, or a label, refer to what differs from trial to
            trial.
    """
    for key, text in labels.items():
        if VARIABLE_OF_TRIAL.search(text):
            raise FieldError(
                f"metadata.labels.{key}",
                f"{text!r} differs from trial to trial, but reuse is true; remove it, or reuse",
            )
    for kind in ("containers", "initContainers"):
        for position, container in enumerate(spec.get(kind) or ()):
            for field in ("command", "args", "env"):
                if VARIABLE_OF_TRIAL.search(json.dumps(container.get(field) or [])):
                    raise FieldError(
                        f"spec.{kind}[{position}].{field}",
                        "refers to a $(PODTUNE_…) variable, which differs from trial to trial, but reuse is true; read "
                        "it in the program with podtune.trial, or remove reuse",
                    )


def check_secret_references(spec: Mapping[str, Any], secret: str, path: str = "trialTemplate") -> None:
    """Checks that a trial's own containers can't see the credentials of the checkpoint store.

    Args:
        spec: The pod's spec.
        secret: Name of the Secret.
        path: Where the template stands.

    Raises:
        FieldError: The pod spec refers to the Secret.
    """
    reason = "holds the credentials of the checkpoint store, which trials may not see"
    remedy = "remove it, checkpoints are stored without it"
    _refuse_reference(list_secret_references(spec), secret, path, f"{reason}; {remedy}")


def check_claim_references(spec: Mapping[str, Any], claim: str, path: str = "trialTemplate") -> None:
    """Checks that a trial's own containers can't mount the volume that checkpoints are stored on.

    Args:
        spec: The pod's spec.
        claim: Name of the claim.
        path: Where the template stands.

    Raises:
        FieldError: The pod spec refers to its claim.
    """
    why = "is the checkpoint store, which trials may not see; remove it, the agent mounts it"
    _refuse_reference(list_claim_references(spec), claim, path, why)


def check_labels(labels: Mapping[str, str]) -> None:
    """Checks the keys of a trial template's labels.

    Raises:
        FieldError: A key is not one, or is the operator's own.
    """
    _check_keys("labels", labels)


def check_annotations(annotations: Mapping[str, str], policy: TemplatePolicy = DEFAULT_POLICY) -> None:
    """Checks the keys of a trial template's annotations.

    Raises:
        FieldError: A key is not one, is the operator's own, or is of a domain that the administrator does not allow.
    """
    _check_keys("annotations", annotations)
    check_annotation_domains(annotations, policy)


def _refuse_reference(references: Iterator[tuple[str, str]], refused: str, template: str, why: str) -> None:
    for path, name in references:
        if name == refused:
            raise FieldError(f"{template}.spec.{path}", f"{name!r} {why}")


def _check_keys(kind: str, entries: Mapping[str, str]) -> None:
    for key in entries:
        if not _QUALIFIED_NAME.fullmatch(key):
            raise FieldError(kind, f"{key!r} is not a key; write it like team or example.com/team")
        domain = key.partition("/")[0]
        if domain == GROUP or domain.endswith(f".{GROUP}") or key == LABEL_MANAGED_BY:
            raise FieldError(kind, f"{key!r} is reserved for the operator; choose another key")


def _check_images(spec: Mapping[str, Any], policy: TemplatePolicy) -> None:
    check = restrict_image(policy)
    for kind in ("initContainers", "containers"):
        for position, container in enumerate(spec.get(kind) or ()):
            if container.get("image"):
                check(container["image"], f"{kind}[{position}].image")


def _check_denied_secrets(spec: Mapping[str, Any], policy: TemplatePolicy) -> None:
    """The kubelet alone sees a Secret that images are pulled with, so that one is no container's to read."""
    for path, name in list_secret_references(spec):
        if is_listed(name, policy.denied_secrets) and not path.startswith("imagePullSecrets"):
            raise FieldError(
                path,
                f"{name!r} is denied to trials by the operator's administrator (setting deniedSecrets); remove it",
            )


def _check_denied_claims(spec: Mapping[str, Any], policy: TemplatePolicy) -> None:
    for path, name in list_claim_references(spec):
        if is_listed(name, policy.denied_claims):
            raise FieldError(
                path, f"{name!r} is kept from trials by the operator's administrator (setting deniedClaims); remove it"
            )


# --- the checks that the tables below are made of


def _refuse_prefix(prefix: str) -> Check:
    return Refuse(
        lambda value: str(value).startswith(prefix),
        f"type(value) == string && value.startsWith({write_literal(prefix)})",
        f"begins with {prefix}, which is reserved for the operator; rename it",
    )


def _is_under_ours(mounted: str) -> bool:
    ours = f"{DIRECTORY}/"
    return f"{mounted}/".startswith(ours) or ours.startswith(f"{mounted.rstrip('/')}/")


def _is_reserved_domain(domain: str) -> bool:
    return domain == GROUP or domain.endswith(f".{GROUP}")


_IS_NO_NAME: Check = Refuse(
    lambda value: not isinstance(value, str) or not value,
    'type(value) != string || value == ""',
    "is not a name; write a string",
)
_NAME: Check = CheckAll((_IS_NO_NAME, _refuse_prefix(RESERVED_PREFIX)))
_VARIABLE = _refuse_prefix(RESERVED_VARIABLES)
# In CEL, no path can be followed back up: one with .. is left to the operator.
_MOUNT_PATH: Check = Refuse(
    lambda value: _is_under_ours(posixpath.normpath(f"/{str(value).lstrip('/')}")),
    f'type(value) == string && !(".." in value.split("/")) && '
    f'("/" + value.split("/").filter(part, !(part in ["", "."])).join("/") + "/").matches('
    f"{write_literal(f'(?s)^(/+|{re.escape(DIRECTORY)}/.*)$')})",
    f"would cover {DIRECTORY}, the operator's own volume; mount it elsewhere",
)
_PROFILE = allow_fields(
    {"type": allow_one_of(("RuntimeDefault", "Localhost"), "RuntimeDefault"), "localhostProfile": allow_anything}
)
_GATE: Check = Refuse(
    lambda value: _is_reserved_domain(str(value).partition("/")[0]),
    f"type(value) == string && value.matches({write_literal(f'(?s)^([^/]*[.])?{re.escape(GROUP)}(/.*)?$')})",
    "is reserved for the operator; choose another name",
)
_USER_OR_GROUP: Check = Refuse(
    lambda value: bool(value == AGENT_UID),
    f"value == {AGENT_UID}",
    "is reserved for the agent; choose another number",
)


def _require_form(form: str) -> Check:
    return Refuse(
        lambda value: not re.fullmatch(form, str(value)),
        f"!((type(value) == string || type(value) == int) && string(value).matches({write_literal(f'^(?:{form})$')}))",
        f"is not of the form {form}; correct it",
    )


# --- the allow-list

_ENVIRONMENT = {
    "name": _VARIABLE,
    "value": allow_anything,
    "valueFrom": allow_fields(
        dict.fromkeys(("configMapKeyRef", "fieldRef", "resourceFieldRef", "secretKeyRef"), allow_anything)
    ),
}
_HANDLER = {
    "exec": allow_anything,
    "grpc": allow_anything,
    "sleep": allow_anything,
    # No host: the kubelet would send the request, from the node's network.
    "httpGet": allow_fields(dict.fromkeys(("path", "port", "scheme", "httpHeaders"), allow_anything)),
    "tcpSocket": allow_fields({"port": allow_anything}),
}
_PROBE = allow_fields(
    _HANDLER
    | dict.fromkeys(
        (
            "failureThreshold",
            "initialDelaySeconds",
            "periodSeconds",
            "successThreshold",
            "terminationGracePeriodSeconds",
            "timeoutSeconds",
        ),
        allow_anything,
    )
)
_CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": allow_only(False),
    "appArmorProfile": _PROFILE,
    "capabilities": allow_fields({"drop": check_each(allow_anything), "add": forbid("trials get no capabilities")}),
    "privileged": allow_only(False),
    "readOnlyRootFilesystem": allow_anything,
    "runAsGroup": _USER_OR_GROUP,
    "runAsNonRoot": allow_anything,
    "runAsUser": _USER_OR_GROUP,
    "seccompProfile": _PROFILE,
}
_POD_SECURITY = {
    "appArmorProfile": _PROFILE,
    "fsGroup": _USER_OR_GROUP,
    "fsGroupChangePolicy": allow_anything,
    "runAsGroup": _USER_OR_GROUP,
    "runAsNonRoot": allow_anything,
    "runAsUser": _USER_OR_GROUP,
    "seccompProfile": _PROFILE,
    "supplementalGroups": check_each(_USER_OR_GROUP),
    "supplementalGroupsPolicy": allow_anything,
}
_CONTAINER: dict[str, Check] = {
    "name": _NAME,
    "image": allow_anything,
    "imagePullPolicy": allow_anything,
    "command": allow_anything,
    "args": allow_anything,
    "workingDir": allow_anything,
    "env": check_each(allow_fields(_ENVIRONMENT)),
    "envFrom": check_each(
        allow_fields({"prefix": _VARIABLE, "configMapRef": allow_anything, "secretRef": allow_anything})
    ),
    "ports": check_each(allow_fields(dict.fromkeys(("name", "containerPort", "protocol"), allow_anything))),
    "resources": allow_anything,
    "resizePolicy": allow_anything,
    "volumeMounts": check_each(
        allow_fields(
            {
                # The operator's volumes hold the agent's credentials.
                "name": _NAME,
                "mountPath": _MOUNT_PATH,
                "readOnly": allow_anything,
                "recursiveReadOnly": allow_anything,
                "subPath": allow_anything,
                "subPathExpr": allow_anything,
            }
        )
    ),
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "startupProbe": _PROBE,
    "lifecycle": allow_fields(
        {"postStart": allow_fields(_HANDLER), "preStop": allow_fields(_HANDLER), "stopSignal": allow_anything}
    ),
    "terminationMessagePath": allow_anything,
    "terminationMessagePolicy": allow_anything,
    "securityContext": allow_fields(_CONTAINER_SECURITY),
}
_VOLUME = allow_fields(
    {
        "name": _NAME,
        "configMap": allow_anything,
        "downwardAPI": allow_anything,
        "emptyDir": allow_anything,
        "ephemeral": allow_anything,
        "persistentVolumeClaim": allow_anything,
        "projected": allow_fields(
            {
                "defaultMode": allow_anything,
                # No serviceAccountToken: a trial gets no Kubernetes credentials, whatever their audience.
                "sources": check_each(
                    allow_fields(dict.fromkeys(("configMap", "downwardAPI", "secret"), allow_anything))
                ),
            }
        ),
        "secret": allow_anything,
    }
)
_POD: dict[str, Check] = {
    "containers": check_each(allow_fields(_CONTAINER)),
    # A native sidecar of the user's own is fine.
    "initContainers": check_each(allow_fields(_CONTAINER | {"restartPolicy": allow_only("Always")})),
    "volumes": check_each(_VOLUME),
    "restartPolicy": allow_only("Never"),
    "automountServiceAccountToken": allow_only(False),
    "hostIPC": allow_only(False),
    "hostNetwork": allow_only(False),
    "hostPID": allow_only(False),
    "hostUsers": allow_only(False),
    "shareProcessNamespace": allow_only(False),
    "schedulingGates": check_each(allow_fields({"name": _GATE})),
    "imagePullSecrets": check_each(allow_fields({"name": allow_anything})),
    "securityContext": allow_fields(_POD_SECURITY),
    # The agent is in the same pod: it would look for the operator where these send it, and take its token there.
    "dnsPolicy": allow_one_of(
        ("ClusterFirst", "ClusterFirstWithHostNet"), "the agent finds the operator through the cluster's DNS"
    ),
    "dnsConfig": allow_fields(
        {
            "nameservers": forbid("the agent finds the operator through the cluster's DNS"),
            "searches": forbid("the agent finds the operator through the cluster's DNS; write names in full"),
            # They are written into a file of lines, where another line would name another server.
            "options": check_each(
                allow_fields({"name": _require_form("[a-z0-9-]+"), "value": _require_form("[0-9]*")})
            ),
        }
    ),
} | dict.fromkeys(
    (
        "affinity",
        "enableServiceLinks",
        "nodeSelector",
        "os",
        "preemptionPolicy",
        "resourceClaims",
        "resources",
        "runtimeClassName",
        "schedulerName",
        "terminationGracePeriodSeconds",
        "topologySpreadConstraints",
    ),
    allow_anything,
)


def _check_unique_names(spec: Mapping[str, Any]) -> None:
    seen: set[str] = set()
    for kind in ("initContainers", "containers"):
        for position, container in enumerate(spec.get(kind) or ()):
            path = f"{kind}[{position}]"
            for field in ("name", "image"):
                if not container.get(field):
                    raise FieldError(f"{path}.{field}", f"is missing; give the container its {field}")
            if container["name"] in seen:
                raise FieldError(f"{path}.name", f"{container['name']!r} is used twice; rename one of them")
            seen.add(container["name"])
