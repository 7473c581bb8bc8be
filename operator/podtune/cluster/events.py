"""The Events that people read with `kubectl describe` and `kubectl events`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from podtune.api.names import API_VERSION, EXPERIMENT_KIND, GROUP, TRIAL_KIND
from podtune.cluster.client import MERGE, ClusterClient
from podtune.kube import paths
from podtune.kube.errors import ResourceExists, ResourceNotFound
from podtune.kube.manifests import Manifest
from podtune.runner.actions import EmitEvent
from podtune.runner.records import Experiment

MAX_NOTE = 1024
"""Bytes, not characters: the API server counts so."""
MAX_WORD = 128
_DIGEST_DIGITS = 16
"""In hexadecimal: enough to tell the Events about one object apart."""


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
    body = _make_body({"apiVersion": "v1", "kind": "ConfigMap", **config_map}, note, reason, now)
    metadata = {"name": f"{name}.{reason.lower()}", "namespace": namespace}
    return body | {"metadata": metadata, "type": "Warning", "reportingInstance": name[:MAX_WORD]}


async def publish_event(client: ClusterClient, body: Manifest) -> None:
    """Creates an Event, or counts it in the one of its name: what comes again is one line in `kubectl describe`.

    Whichever operator made that one: its count goes on. It begins anew once the API server has dropped the Event,
    which it does an hour after it was last seen.

    Raises:
        ApiError: The API server does not take it.
    """
    namespace = body["metadata"]["namespace"]
    try:
        await client.request("POST", paths.events(namespace), body=body, idempotent=True)
    except ResourceExists:
        try:
            await _count_again(client, paths.event(namespace, body["metadata"]["name"]), body["eventTime"])
        except ResourceNotFound:  # it has just expired
            await client.request("POST", paths.events(namespace), body=body, idempotent=True)


async def _count_again(client: ClusterClient, path: str, now: str) -> None:
    # A patch that changes nothing is answered with the object, and needs no right to read Events.
    known = await client.request("PATCH", path, body={}, content_type=MERGE)
    series = known.get("series") or {"count": 1, "lastObservedTime": known.get("eventTime")}
    if series["lastObservedTime"] != now:  # else the answer to our own first request was lost
        seen = {"count": series["count"] + 1, "lastObservedTime": now}
        await client.request("PATCH", path, body={"series": seen}, content_type=MERGE)


def _make(namespace: str, regarding: dict[str, str], message: str, action: EmitEvent, reporter: Reporter) -> Manifest:
    kind = "Warning" if action.warning else "Normal"
    told = "\n".join((*regarding.values(), kind, action.reason, message))
    digest = hashlib.sha256(told.encode(errors="replace")).hexdigest()[:_DIGEST_DIGITS]
    body = _make_body(regarding, message, action.reason, reporter.now())
    return body | {
        "metadata": {"name": f"{regarding['name']}.{digest}", "namespace": namespace},
        "type": kind,
        "reportingInstance": reporter.instance[:MAX_WORD],
    }


def _make_body(regarding: dict[str, str], message: str, reason: str, now: str) -> Manifest:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
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
