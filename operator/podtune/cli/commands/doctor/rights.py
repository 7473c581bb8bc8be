"""Checks of rights: the operator's, and those of whoever asks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from podtune.api.names import EXPERIMENT_PLURAL, GROUP, TRIAL_PLURAL
from podtune.cli.client.api_client import Api
from podtune.cli.commands.doctor.findings import Diagnosis, Health, Patient
from podtune.cli.commands.doctor.installation import find_account
from podtune.kube import paths

AskedRight = tuple[str, str, str]
"""API group, resource (with its part, such as pods/log) and verb."""

OPERATOR_RIGHTS: Mapping[tuple[str, str], Sequence[str]] = {
    (GROUP, "experiments"): ("get", "list", "watch", "patch", "delete"),
    (GROUP, "trials"): ("create", "get", "list", "watch", "patch", "delete"),
    (GROUP, "experiments/status"): ("update",),
    (GROUP, "trials/status"): ("update",),
    (GROUP, "experiments/finalizers"): ("update",),
    (GROUP, "trials/finalizers"): ("update",),
    ("", "pods"): ("create", "get", "list", "watch", "patch", "delete", "deletecollection"),
    ("", "services"): ("create", "get"),
    ("", "pods/log"): ("get",),
    ("", "configmaps"): ("create", "get"),
    ("apps", "controllerrevisions"): ("create", "get", "delete"),
    ("", "persistentvolumeclaims"): ("create", "get", "delete"),
    ("events.k8s.io", "events"): ("create", "patch"),
}
"""What the chart grants the operator where it serves Experiments."""
CALLER_RIGHTS: Mapping[tuple[str, str], Sequence[str]] = {
    (GROUP, EXPERIMENT_PLURAL): ("get", "list", "watch", "create", "patch"),
    (GROUP, TRIAL_PLURAL): ("get", "list", "watch", "create", "patch"),
    ("", "pods"): ("get", "list"),
    ("", "pods/log"): ("get",),
}
"""What a person needs for all that this program does with Experiments."""


def check_operator_rights(patient: Patient) -> Iterator[Diagnosis]:
    """Whether the operator may do what it does in the namespace of the Experiments."""
    account = find_account(patient.api, patient.home)
    if not account:
        yield Diagnosis("operator's rights", Health.UNKNOWN, "nobody knows its account, as no operator runs")
        return
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{patient.home}", "system:authenticated"]
    who = {"user": account, "groups": groups}
    lacking = [
        right
        for right in _list_all(OPERATOR_RIGHTS)
        if not _is_allowed(patient.api, "SubjectAccessReview", patient.namespace, right, who)
    ]
    if lacking:
        words = (
            f"{account} may not {_name_all(lacking)} in namespace {patient.namespace}; upgrade the chart podtune, or "
            f"add the namespace to its watchNamespaces, or where namespaces opt in: podtune enable {patient.namespace}"
        )
        yield Diagnosis("operator's rights", Health.WRONG, words)
    else:
        yield Diagnosis("operator's rights", Health.FINE, f"{account} has its rights in namespace {patient.namespace}")


def check_caller_rights(patient: Patient) -> Iterator[Diagnosis]:
    """Whether the caller may do what this program does for them."""
    lacking = name_lacking_rights(patient.api, patient.namespace, CALLER_RIGHTS)
    if lacking:
        words = (
            f"you may not {lacking} in namespace {patient.namespace}; ask for the role edit there, or "
            "view if you only look"
        )
        yield Diagnosis("your rights", Health.WRONG, words)
    else:
        yield Diagnosis(
            "your rights", Health.FINE, f"you have all rights that you need in namespace {patient.namespace}"
        )


def name_lacking_rights(api: Api, namespace: str, rights: Mapping[tuple[str, str], Sequence[str]]) -> str:
    """The rights that the caller lacks in a namespace, in words; empty where none is lacking.

    Args:
        api: The API server.
        namespace: Where; empty for the whole cluster.
        rights: Verbs by API group and resource.
    """
    asked = _list_all(rights)
    return _name_all(right for right in asked if not _is_allowed(api, "SelfSubjectAccessReview", namespace, right, {}))


def _is_allowed(api: Api, kind: str, namespace: str, right: AskedRight, who: Mapping[str, Any]) -> bool:
    group, resource, verb = right
    name, _, part = resource.partition("/")
    asked = {"namespace": namespace, "group": group, "resource": name, "verb": verb}
    spec = {"resourceAttributes": {**asked, **({"subresource": part} if part else {})}, **who}
    path = paths.ACCESS_REVIEWS if who else paths.SELF_ACCESS_REVIEWS
    review = api.create(path, {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "metadata": {}, "spec": spec})
    return bool((review.get("status") or {}).get("allowed"))


def _list_all(rights: Mapping[tuple[str, str], Sequence[str]]) -> Iterator[AskedRight]:
    for (group, resource), verbs in rights.items():
        for verb in verbs:
            yield group, resource, verb


def _name_all(rights: Iterable[AskedRight]) -> str:
    """Such as `create and patch trials, get pods/log`."""
    verbs: dict[str, list[str]] = {}
    for _, resource, verb in rights:
        verbs.setdefault(resource, []).append(verb)
    return ", ".join(f"{' and '.join(listed)} {resource}" for resource, listed in verbs.items())
