"""Checks of the installation: definitions, operator, leader, the way that results take, and clocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from podtune import __version__
from podtune.api.crd.generate import RESOURCES, build_definition
from podtune.api.names import LABEL_LEADER, VERSION
from podtune.cli.client.api_client import Api
from podtune.cli.commands.doctor.findings import Diagnosis, Health, Patient
from podtune.cli.commands.doctor.pods import explain_waiting, is_ready
from podtune.kube import paths
from podtune.kube.errors import ResourceNotFound
from podtune.kube.manifests import Manifest

_OPERATOR = {"labelSelector": "app.kubernetes.io/part-of=podtune,app.kubernetes.io/component=operator"}
_DNS_SERVERS = {"labelSelector": "k8s-app=kube-dns"}
_SYSTEM = "kube-system"
_MOST_SKEW = 30.0
"""Seconds that two clocks may differ by: tokens, Leases and signed requests to buckets go by them."""
_LEASE_SECONDS = 15


def check_definitions(patient: Patient) -> Iterator[Diagnosis]:
    """Whether the definitions are there, and are those of this version."""
    for resource in RESOURCES:
        try:
            found = patient.api.get(paths.definition(resource.name))
        except ResourceNotFound:
            words = f"{resource.name} is missing: this cluster does not know {resource.kind}s; install podtune-crds"
            yield Diagnosis("definitions", Health.WRONG, words)
            continue
        ours, theirs = _list_fields(build_definition(resource)), _list_fields(found)
        if lacking := sorted(ours - theirs):
            words = (
                f"{resource.name} is older than this program ({__version__}): it lacks {_name_some(lacking)}; "
                "upgrade the chart podtune-crds"
            )
            yield Diagnosis("definitions", Health.WRONG, words)
        elif unknown := sorted(theirs - ours):
            words = (
                f"{resource.name} is newer than this program ({__version__}): it has {_name_some(unknown)}; "
                "upgrade this program"
            )
            yield Diagnosis("definitions", Health.WRONG, words)
        else:
            yield Diagnosis("definitions", Health.FINE, f"{resource.name} is that of version {__version__}")


def check_operator(patient: Patient) -> Iterator[Diagnosis]:
    """Whether the operator runs, and which version it and its agents have."""
    pods = list_operator_pods(patient.api, patient.home)
    if not pods:
        words = f"no operator in namespace {patient.home}; install the chart podtune, or give --operator-namespace"
        yield Diagnosis("operator", Health.WRONG, words)
        return
    for pod in pods:
        name = pod["metadata"]["name"]
        version = (pod["metadata"].get("labels") or {}).get("app.kubernetes.io/version", "")
        if not is_ready(pod):
            yield Diagnosis("operator", Health.WRONG, f"{name} is not ready: {explain_waiting(pod)}")
        elif version and version != __version__:
            words = f"{name} has version {version}, this program {__version__}; upgrade the older one"
            yield Diagnosis("operator", Health.WRONG, words)
        else:
            agent = read_operator_settings(pod).get("PODTUNE_AGENT_IMAGE", "an unknown image")
            yield Diagnosis(
                "operator", Health.FINE, f"{name} is ready, version {version or 'unknown'}, agents of {agent}"
            )


def check_leader(patient: Patient) -> Iterator[Diagnosis]:
    """Whether somebody leads: else nothing is decided."""
    name = _find_setting(patient, "PODTUNE_LEASE_NAME") or "podtune-operator"
    remedy = f"look at the operator's log: kubectl logs -n {patient.home} deployment/podtune"
    try:
        spec = patient.api.get(paths.lease(patient.home, name)).get("spec") or {}
    except ResourceNotFound:
        words = f"there is no Lease {name} in namespace {patient.home}: no operator has ever led; {remedy}"
        yield Diagnosis("leader", Health.WRONG, words)
        return
    holder, renewed = spec.get("holderIdentity") or "", _read_time(spec.get("renewTime"))
    age = (patient.now - renewed).total_seconds() if renewed is not None else float("inf")
    if not holder or age > 2 * (spec.get("leaseDurationSeconds") or _LEASE_SECONDS):
        since = "" if renewed is None else f" since {renewed:%Y-%m-%d %H:%M:%S} UTC"
        yield Diagnosis("leader", Health.WRONG, f"no operator leads{since}: nothing is decided; {remedy}")
    elif age < -_MOST_SKEW:
        words = f"the clock of {holder}'s node is {-age:.0f} s ahead of the API server's; set up NTP there"
        yield Diagnosis("clocks", Health.WRONG, words)
    else:
        yield Diagnosis("leader", Health.FINE, f"{holder} leads")


def check_results_service(patient: Patient) -> Iterator[Diagnosis]:
    """Whether agents find the operator: its Service, the leader behind it, and DNS."""
    url = _find_setting(patient, "PODTUNE_RESULTS_URL") or f"http://podtune-results.{patient.home}.svc:8080"
    host = url.partition("://")[2].partition(":")[0]
    name, _, rest = host.partition(".")
    home = rest.partition(".")[0] or patient.home
    services = {service["metadata"]["name"] for service in patient.api.list_all(paths.services(home))}
    leaders = [
        pod
        for pod in list_operator_pods(patient.api, patient.home)
        if (pod["metadata"].get("labels") or {}).get(LABEL_LEADER)
    ]
    if name not in services:
        words = f"agents report to {url}, but namespace {home} has no Service {name}; upgrade the chart podtune"
        yield Diagnosis("results service", Health.WRONG, words)
    elif not any(is_ready(pod) for pod in leaders):
        words = f"no ready pod of the operator has the label {LABEL_LEADER}, so {url} leads nowhere; see leader"
        yield Diagnosis("results service", Health.WRONG, words)
    else:
        yield Diagnosis("results service", Health.FINE, f"{url} leads to {leaders[0]['metadata']['name']}")


def check_dns(patient: Patient) -> Iterator[Diagnosis]:
    """Whether names are resolved in the cluster: agents know operator and bucket by name."""
    servers = patient.api.list_all(paths.pods(_SYSTEM), _DNS_SERVERS)
    if not servers:
        words = f"no pod in {_SYSTEM} has the label k8s-app=kube-dns; another DNS server may do"
        yield Diagnosis("DNS", Health.UNKNOWN, words)
    elif not any(map(is_ready, servers)):
        words = (
            f"no DNS server is ready ({explain_waiting(servers[0])}), so agents find neither operator nor bucket; "
            f"look at the pods of {_SYSTEM} with the label k8s-app=kube-dns"
        )
        yield Diagnosis("DNS", Health.WRONG, words)
    else:
        yield Diagnosis("DNS", Health.FINE, f"{sum(map(is_ready, servers))} of {len(servers)} DNS servers are ready")


def check_clocks(patient: Patient) -> Iterator[Diagnosis]:
    """Whether this machine and the API server have the same time."""
    if patient.there is None:
        yield Diagnosis("clocks", Health.UNKNOWN, "the API server does not say its time")
        return
    skew = (patient.here - patient.there).total_seconds()
    if abs(skew) > _MOST_SKEW:
        which = "ahead of" if skew > 0 else "behind"
        words = f"this machine is {abs(skew):.0f} s {which} the API server: logins and buckets refuse it; set up NTP"
        yield Diagnosis("clocks", Health.WRONG, words)
    else:
        yield Diagnosis("clocks", Health.FINE, f"this machine and the API server differ by {abs(skew):.0f} s")


def list_operator_pods(api: Api, home: str) -> Sequence[Manifest]:
    """The operator's pods; those that have ended left out."""
    pods = api.list_all(paths.pods(home), _OPERATOR)
    return [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]


def read_operator_settings(pod: Manifest) -> Mapping[str, str]:
    """The settings in the environment of an operator's pod."""
    variables = [entry for container in pod["spec"]["containers"] for entry in container.get("env") or ()]
    return {entry["name"]: entry.get("value", "") for entry in variables}


def find_account(api: Api, home: str) -> str:
    """The user that the operator is; empty where it does not run."""
    pods = api.list_all(paths.pods(home), _OPERATOR)
    accounts = [pod["spec"].get("serviceAccountName", "") for pod in pods]
    return f"system:serviceaccount:{home}:{accounts[0]}" if accounts and accounts[0] else ""


def _find_setting(patient: Patient, name: str) -> str:
    return next(
        (read_operator_settings(pod).get(name, "") for pod in list_operator_pods(patient.api, patient.home)), ""
    )


def _list_fields(definition: Manifest) -> set[str]:
    """The paths of all fields of a definition's version."""
    versions = (definition.get("spec") or {}).get("versions") or ()
    schema = next((entry.get("schema") or {} for entry in versions if entry.get("name") == VERSION), {})
    return set(_walk(schema.get("openAPIV3Schema") or {}, ""))


def _walk(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, below in (schema.get("properties") or {}).items():
        yield f"{path}.{name}".lstrip(".")
        yield from _walk(below, f"{path}.{name}")
    if isinstance(items := schema.get("items"), Mapping):
        yield from _walk(items, f"{path}[]")
    if isinstance(others := schema.get("additionalProperties"), Mapping):
        yield from _walk(others, f"{path}.*")


def _name_some(fields: Sequence[str]) -> str:
    more = len(fields) - 1
    return fields[0] + (f" and {more} more {'field' if more == 1 else 'fields'}" if more else "")


def _read_time(written: str | None) -> datetime | None:
    return datetime.fromisoformat(written) if written else None
