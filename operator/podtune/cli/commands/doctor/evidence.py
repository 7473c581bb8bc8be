"""Checks of what pods have told: their Events, and what agents write of an operator that they can't reach."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from podtune.api.names import LABEL_EXPERIMENT
from podtune.api.pods.pod_template import AGENT_CONTAINER
from podtune.cli.commands.doctor.findings import Diagnosis, Health, Patient, run_check
from podtune.cli.commands.doctor.pods import is_ready
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal, ResourceNotFound
from podtune.kube.manifests import Manifest

_EVENTS = "Events of pods"
_RECENT = timedelta(minutes=15)
_ABOUT_VOLUMES = "create what it names, or correct the volume"
_REMEDIES: Mapping[str, str] = {
    "FailedMount": _ABOUT_VOLUMES,
    "FailedAttachVolume": _ABOUT_VOLUMES,
    "FailedScheduling": "give the cluster room, or ask for less in trialTemplate",
    "FailedCreatePodSandBox": "look at the network plugin of that pod's node",
    "NetworkNotReady": "look at the network plugin of that pod's node",
    "DNSConfigForming": "correct the DNS settings of that pod's node, or dnsConfig",
    "FailedCreate": "allow what it names, or have it created",
}
"""What Kubernetes says of pods that can't start, and the remedy; images have a check of their own."""
_MOST_LOGS = 5
"""How many agents' logs are read."""
_LAST_LINES = {"container": AGENT_CONTAINER, "tailLines": "300", "limitBytes": "262144"}
_SILENCE = 10.0
_UNRESOLVED = ("name or service not known", "name resolution", "no address associated", "nodename nor servname")
"""What the resolvers of libc and of musl say of a name, in small letters."""


def check_pod_events(patient: Patient) -> Iterator[Diagnosis]:
    """Whether Kubernetes has lately said why a pod of the operator or of a trial can't start."""
    told: list[Diagnosis] = []
    for namespace in dict.fromkeys((patient.home, patient.namespace)):
        told += run_check(f"{_EVENTS} in {namespace}", partial(_check_events_of, namespace), patient)
    yield from told
    if not told:
        minutes = _RECENT.seconds // 60
        yield Diagnosis(_EVENTS, Health.FINE, f"no pod that waits has had a Warning in the last {minutes} minutes")


def _check_events_of(namespace: str, patient: Patient) -> Iterator[Diagnosis]:
    waiting = _list_waiting(patient, namespace)
    newest: dict[str, Manifest] = {}
    for event in patient.api.list_all(paths.core_events(namespace), {"fieldSelector": "type=Warning"}):
        about, reason = event.get("involvedObject") or {}, event.get("reason", "")
        concerns = about.get("name") in waiting if about.get("kind") == "Pod" else namespace == patient.home
        if concerns and reason in _REMEDIES and patient.now - _RECENT <= (_read_time(event) or patient.now):
            newest[reason] = event
    for reason, event in newest.items():
        about = event["involvedObject"]
        words = f"{reason} of {about['kind']} {about['name']}: {event.get('message', '')}; {_REMEDIES[reason]}"
        yield Diagnosis(f"{_EVENTS} in {namespace}", Health.WRONG, words)


def check_agents(patient: Patient) -> Iterator[Diagnosis]:
    """Whether agents of running pods reach the operator, by what they write."""
    read = 0
    for pod in patient.api.list_all(paths.pods(patient.namespace), {"labelSelector": LABEL_EXPERIMENT}):
        if read == _MOST_LOGS:
            break
        name = pod["metadata"]["name"]
        if (pod.get("status") or {}).get("phase") != "Running" or (lines := _read_log(patient, name)) is None:
            continue
        read += 1
        if trouble := _find_trouble(lines):
            yield _explain_trouble(patient, name, trouble)
            return
    if read:
        found = f"{read} running {'pod reaches' if read == 1 else 'pods reach'} the operator"
        yield Diagnosis("agents", Health.FINE, found)
    else:
        yield Diagnosis("agents", Health.UNKNOWN, f"no pod of a trial runs in namespace {patient.namespace}")


def _list_waiting(patient: Patient, namespace: str) -> set[str]:
    """Names of the pods of experiments and of the operator that are not ready, and have not ended."""
    selectors = [LABEL_EXPERIMENT] if namespace == patient.namespace else []
    if namespace == patient.home:
        selectors.append("app.kubernetes.io/part-of=podtune")
    return {
        pod["metadata"]["name"]
        for selector in selectors
        for pod in patient.api.list_all(paths.pods(namespace), {"labelSelector": selector})
        if not is_ready(pod) and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
    }


def _read_log(patient: Patient, pod: str) -> Sequence[str] | None:
    """The last lines of a pod's agent; None where it has not started, or the pod is gone."""
    path = paths.log_of(paths.pod(patient.namespace, pod))
    try:
        return list(patient.api.read_lines(path, _LAST_LINES, _SILENCE))
    except ResourceNotFound:
        return None
    except ApiRefusal as error:
        if error.status != http.client.BAD_REQUEST:  # what the kubelet says of a container that has not started
            raise
        return None


def _find_trouble(lines: Sequence[str]) -> str:
    """Why an agent's reports are not delivered; empty where they are."""
    trouble = ""
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        match entry:
            case {"event": "report not delivered", "message": str(message)}:
                trouble = message
            case {"event": "operator answers again"}:
                trouble = ""
    return trouble


def _explain_trouble(patient: Patient, pod: str, trouble: str) -> Diagnosis:
    if any(sign in trouble.lower() for sign in _UNRESOLVED):
        words = (
            f"the agent of pod {pod} can't resolve the operator's name ({trouble}); look at the cluster's DNS, and "
            f"whether a NetworkPolicy in namespace {patient.namespace} lets port 53 through"
        )
        return Diagnosis("DNS", Health.WRONG, words)
    words = (
        f"the agent of pod {pod} can't deliver its reports ({trouble}); look at the operator, and whether a "
        f"NetworkPolicy in namespace {patient.namespace} or {patient.home} forbids it"
    )
    return Diagnosis("agents", Health.WRONG, words)


def _read_time(event: Manifest) -> datetime | None:
    """When an Event was last seen; newer components write other fields."""
    series = event.get("series") or {}
    written = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return datetime.fromisoformat(written) if written else None
