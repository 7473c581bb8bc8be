"""The Events that people read with `kubectl describe` and `kubectl events`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from podtune.api.names import API_VERSION, EXPERIMENT_KIND, GROUP, TRIAL_KIND
from podtune.kube.manifests import Manifest
from podtune.runner.actions import EmitEvent
from podtune.runner.records import Experiment

MAX_NOTE = 1024
"""Bytes, not characters: the API server counts so."""
MAX_WORD = 128


@dataclass(frozen=True, slots=True)
class Reporter:
    """Who the operator is in the Events that it emits.

    Attributes:
        instance: Our own name, such as that of our pod.
        now: The present time, RFC 3339 with microseconds.
        trial_uid: UID of a trial, by the Experiment's UID and the trial's name; empty where it is not known.
            Without it `kubectl describe` does not find the Event.
        namespace: The operator's own namespace; empty where it has none.
        lease: Name of its Lease, which is there as long as the operator is installed.
    """

    instance: str
    now: Callable[[], str]
    trial_uid: Callable[[str, str], str]
    namespace: str = ""
    lease: str = ""


def make_event(experiment: Experiment, action: EmitEvent, reporter: Reporter) -> Manifest:
    """The Event about something that happened to an Experiment or one of its Trials."""
    if action.trial:
        kind, name, uid = TRIAL_KIND, action.trial, reporter.trial_uid(experiment.uid, action.trial)
    else:
        kind, name, uid = EXPERIMENT_KIND, experiment.name, experiment.uid
    regarding = {
        "apiVersion": API_VERSION,
        "kind": kind,
        "namespace": experiment.namespace,
        "name": name,
        "uid": uid,
    }
    return _make(experiment.namespace, regarding, action.message, action, reporter)


def make_own_event(experiment: Experiment, action: EmitEvent, reporter: Reporter) -> Manifest:
    """The Event in the operator's own namespace about something that an Experiment left behind.

    An Event is about an object of its own namespace: here the operator's Lease, with the Experiment beside it.
    """
    regarding = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "namespace": reporter.namespace,
        "name": reporter.lease,
    }
    message = f"Experiment {experiment.namespace}/{experiment.name}: {action.message}"
    body = _make(reporter.namespace, regarding, message, action, reporter)
    body["related"] = {
        "apiVersion": API_VERSION,
        "kind": EXPERIMENT_KIND,
        "namespace": experiment.namespace,
        "name": experiment.name,
        "uid": experiment.uid,
    }
    return body


def make_config_map_warning(config_map: Manifest, reason: str, note: str, now: str) -> Manifest:
    """The Event about a ConfigMap of the operator's own; what comes again has the same name.

    Args:
        config_map: Namespace, name and UID.
        reason: Why, in one word.
        note: Why, in a sentence.
        now: The present time, RFC 3339 with microseconds.
    """
    namespace, name = config_map["namespace"], config_map["name"]
    body = _make_body(namespace, {"apiVersion": "v1", "kind": "ConfigMap", **config_map}, note, reason, now)
    body["metadata"] = {"name": f"{name}.{reason.lower()}", "namespace": namespace}
    return body | {"type": "Warning", "reportingInstance": name[:MAX_WORD]}


def count_again(count: int, now: str) -> Manifest:
    """What is to be changed in an Event that comes again; `count` includes the first time."""
    return {"series": {"count": count, "lastObservedTime": now}}


def _make(namespace: str, regarding: dict[str, str], message: str, action: EmitEvent, reporter: Reporter) -> Manifest:
    body = _make_body(namespace, regarding, message, action.reason, reporter.now())
    return body | {
        "type": "Warning" if action.warning else "Normal",
        "reportingInstance": reporter.instance[:MAX_WORD],
    }


def _make_body(namespace: str, regarding: dict[str, str], message: str, reason: str, now: str) -> Manifest:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": f"{regarding['name']}-", "namespace": namespace},
        "eventTime": now,
        "reportingController": f"{GROUP}/operator",
        "reason": reason[:MAX_WORD],
        "action": "Reconcile",
        "note": clip_bytes(message, MAX_NOTE),
        "regarding": regarding,
    }


def clip_bytes(text: str, limit: int) -> str:
    """Shortens a text to at most `limit` bytes of UTF-8, with an ellipsis where something is missing."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= limit:
        return text
    return encoded[: limit - len("…".encode())].decode(errors="ignore") + "…"
