"""Checks whether the API server asks the authors of Experiments for rights of their own, by the chart's policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from podtune.cli.client.resources import list_experiments
from podtune.cli.commands.doctor.findings import Diagnosis, Health, Patient
from podtune.cli.errors import CliError
from podtune.kube import paths
from podtune.kube.manifests import Manifest

_SUBJECT = "authors' rights"
_OURS = {"labelSelector": "app.kubernetes.io/part-of=podtune"}
_POLICY = "-user-rights"
"""Ends the name of the chart's policy."""
_NAME_LABEL = "kubernetes.io/metadata.name"
_MOST_NAMES = 5


def check_authors(patient: Patient) -> Iterator[Diagnosis]:
    """Whether the policy looks at Experiments of the namespace, and which of them are older than it.

    Both are decisions of the administrator's, so neither is a problem. An Experiment that is older may still have been
    looked at, by a policy that was installed before this one, or when its templates were changed.
    """
    bindings = patient.api.list_all(paths.POLICY_BINDINGS, _OURS)
    ours = [binding for binding in bindings if _is_in_force(binding["spec"], patient.namespace)]
    if not ours:
        words = (
            f"no policy asks who makes an Experiment in namespace {patient.namespace} whether they may use what it "
            "names; set admissionPolicy.userRights where not all of them may create pods"
        )
        yield Diagnosis(_SUBJECT, Health.FINE, words)
        return
    since = min(binding["metadata"]["creationTimestamp"] for binding in ours)
    older = _list_older(patient, since)
    words = f"the policy asks who makes an Experiment in namespace {patient.namespace} for their rights since {since}"
    if older:
        more = len(older) - _MOST_NAMES
        named = ", ".join(older[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
        words += f"; it has not looked at what was there before, unless it was changed: {named}"
    yield Diagnosis(_SUBJECT, Health.FINE, words)


def _list_older(patient: Patient, since: str) -> list[str]:
    try:
        experiments = list_experiments(patient.api, patient.namespace)
    except CliError:  # the definitions are missing, which another check says
        return []
    return [experiment.name for experiment in experiments if experiment.created < since]


def _is_in_force(binding: Manifest, namespace: str) -> bool:
    """Whether a binding is of the policy, denies, and is for the namespace, as far as the chart writes bindings."""
    selector: dict[str, Any] = (binding.get("matchResources") or {}).get("namespaceSelector") or {}
    return (
        binding["policyName"].endswith(_POLICY)
        and "Deny" in binding.get("validationActions", ())
        and not selector.get("matchLabels")
        and all(
            (asked["key"], asked["operator"]) == (_NAME_LABEL, "In") and namespace in asked["values"]
            for asked in selector.get("matchExpressions") or ()
        )
    )
