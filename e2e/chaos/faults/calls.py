"""Which call a request is: by that a perturbation says where it strikes.

A trial's life is a handful of writes. The writes of its status look alike from outside, so what they say tells them
apart: `trial-end` is the first that holds a completion time.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from podtune.api.names import LABEL_STORAGE
from podtune.protocol.storage_job import StoragePurpose
from podtune.storage.snapshots.record_store import SNAPSHOT_FOLDER


class Call(StrEnum):
    """A kind of request."""

    CREATE_TRIAL = "create-trial"
    ADOPT_TRIAL = "adopt-trial"
    CREATE_POD = "create-pod"
    CREATE_STORAGE_POD = "create-storage-pod"
    CREATE_CHUNK = "create-chunk"
    CREATE_SERVICE = "create-service"
    OPEN_GATE = "open-gate"
    TRIAL_PENDING = "trial-pending"
    TRIAL_RUNNING = "trial-running"
    TRIAL_CHECKPOINT = "trial-checkpoint"
    TRIAL_REQUEST = "trial-request"
    TRIAL_DECISION = "trial-decision"
    ATTEMPT_END = "attempt-end"
    TRAINING_END = "training-end"
    TRIAL_REFUSED = "trial-refused"
    TRIAL_END = "trial-end"
    EXPERIMENT_STATUS = "experiment-status"
    SNAPSHOT_JOB = "snapshot-job"
    PRUNE_JOB = "prune-job"
    EXPERIMENT_END = "experiment-end"
    DELETE_POD = "delete-pod"
    DELETE_PODS = "delete-pods"
    KEEP_REVISION = "keep-revision"
    EVENT = "event"
    POD_LOG = "pod-log"
    FOLLOW_LOG = "follow-log"
    READ = "read"
    TOKEN_REVIEW = "token-review"
    LIST = "list"
    LEASE = "lease"
    WATCH_EXPERIMENTS = "watch-experiments"
    WATCH_TRIALS = "watch-trials"
    WATCH_PODS = "watch-pods"
    REPORT = "report"
    REPORT_FOR_RECORDS = "report-for-records"
    AGENT_LOG = "agent-log"
    S3_PUT = "s3-put"
    S3_PUT_MANIFEST = "s3-put-manifest"
    S3_PUT_SEGMENT = "s3-put-segment"
    S3_PUT_RECORD = "s3-put-record"
    S3_PART = "s3-part"
    S3_GET = "s3-get"
    S3_GET_MANIFEST = "s3-get-manifest"
    S3_LIST = "s3-list"
    S3_LIST_RECORDS = "s3-list-records"
    S3_DELETE = "s3-delete"
    S3_DELETE_RECORD = "s3-delete-record"
    VOLUME_OPEN = "volume-open"
    VOLUME_CREATE = "volume-create"
    VOLUME_WRITE = "volume-write"
    VOLUME_WRITE_MANIFEST = "volume-write-manifest"
    VOLUME_WRITE_HISTORY = "volume-write-history"
    VOLUME_WRITE_RECORD = "volume-write-record"
    VOLUME_SYNC = "volume-sync"
    VOLUME_RENAME = "volume-rename"
    VOLUME_RENAME_MANIFEST = "volume-rename-manifest"
    VOLUME_RENAME_RECORD = "volume-rename-record"
    VOLUME_READ = "volume-read"
    VOLUME_READ_MANIFEST = "volume-read-manifest"
    VOLUME_LIST = "volume-list"
    VOLUME_LIST_RECORDS = "volume-list-records"
    VOLUME_DELETE = "volume-delete"
    VOLUME_DELETE_RECORD = "volume-delete-record"
    OTHER = "other"


WRITES = (
    Call.CREATE_TRIAL,
    Call.ADOPT_TRIAL,
    Call.CREATE_POD,
    Call.CREATE_STORAGE_POD,
    Call.CREATE_CHUNK,
    Call.CREATE_SERVICE,
    Call.OPEN_GATE,
    Call.TRIAL_PENDING,
    Call.TRIAL_RUNNING,
    Call.TRIAL_CHECKPOINT,
    Call.TRIAL_REQUEST,
    Call.TRIAL_DECISION,
    Call.ATTEMPT_END,
    Call.TRAINING_END,
    Call.TRIAL_REFUSED,
    Call.TRIAL_END,
    Call.DELETE_POD,
    Call.DELETE_PODS,
    Call.EXPERIMENT_STATUS,
    Call.SNAPSHOT_JOB,
    Call.PRUNE_JOB,
    Call.EXPERIMENT_END,
    Call.KEEP_REVISION,
    Call.EVENT,
)
"""Everything that the operator writes for an experiment."""

VOLUME_WRITES = (
    Call.VOLUME_CREATE,
    Call.VOLUME_WRITE,
    Call.VOLUME_WRITE_MANIFEST,
    Call.VOLUME_WRITE_HISTORY,
    Call.VOLUME_WRITE_RECORD,
)
"""What takes room on a volume."""
VOLUME_CHANGES = (
    *VOLUME_WRITES,
    Call.VOLUME_RENAME,
    Call.VOLUME_RENAME_MANIFEST,
    Call.VOLUME_RENAME_RECORD,
    Call.VOLUME_DELETE,
    Call.VOLUME_DELETE_RECORD,
)
VOLUME_CALLS = (
    *VOLUME_CHANGES,
    Call.VOLUME_OPEN,
    Call.VOLUME_SYNC,
    Call.VOLUME_READ,
    Call.VOLUME_READ_MANIFEST,
    Call.VOLUME_LIST,
    Call.VOLUME_LIST_RECORDS,
)
RECORDS = f"/{SNAPSHOT_FOLDER}/"
_RECORD_CALLS = {"PUT": Call.S3_PUT_RECORD, "GET": Call.S3_LIST_RECORDS, "HEAD": Call.S3_LIST_RECORDS}
_RECORD_FILE_CALLS = {
    "pwrite": Call.VOLUME_WRITE_RECORD,
    "rename": Call.VOLUME_RENAME_RECORD,
    "scandir": Call.VOLUME_LIST_RECORDS,
    "unlink": Call.VOLUME_DELETE_RECORD,
}
"""Of records on a volume; what else happens to their files happens to all files alike."""
_UNFINISHED = re.compile(r"\.podtune-[0-9a-f]{16}-(.+)")
_WATCHES = {
    "experiments": Call.WATCH_EXPERIMENTS,
    "trials": Call.WATCH_TRIALS,
    "pods": Call.WATCH_PODS,
}


_CREATIONS = {
    "pods": Call.CREATE_POD,
    "controllerrevisions": Call.KEEP_REVISION,
    "services": Call.CREATE_SERVICE,
    "configmaps": Call.CREATE_CHUNK,
}
_CHANGES = {"pods": Call.OPEN_GATE, "trials": Call.ADOPT_TRIAL}
_JOBS = ((StoragePurpose.SNAPSHOT, Call.SNAPSHOT_JOB), (StoragePurpose.PRUNE, Call.PRUNE_JOB))


@dataclass(frozen=True)
class Request:
    """A request as it came.

    Attributes:
        call: What it is.
        subject: Name of the experiment that it is about; empty where it is about none or all.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    call: Call
    subject: str


def experiment_of(name: str) -> str:
    """The experiment that a trial, a pod or an experiment of this name belongs to."""
    return name.partition("-")[0]


def classify_api(
    method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
) -> tuple[Call, str]:
    """Which call of the operator's to the API server this is, and which experiment it is about."""
    words = [word for word in path.split("/") if word]
    if "tokenreviews" in words:
        return Call.TOKEN_REVIEW, _token_subject(body)
    if "leases" in words:
        return Call.LEASE, ""
    resource = next((word for word in words if word in (*_WATCHES, *_CREATIONS, "events")), "")
    if not resource or "namespaces" not in words:
        return Call.OTHER, ""
    rest = words[words.index(resource) + 1 :]
    name = rest[0] if rest else ""
    if method == "GET":
        if "watch" in query and query["watch"] in ("true", "1", "True"):
            return _WATCHES.get(resource, Call.OTHER), ""
        if rest[1:] == ["log"]:
            follows = query.get("follow") == "true"
            return (Call.FOLLOW_LOG if follows else Call.POD_LOG), experiment_of(name)
        return (Call.READ, experiment_of(name)) if name else (Call.LIST, "")
    if method == "DELETE":
        if name:
            return (Call.DELETE_POD if resource == "pods" else Call.OTHER), experiment_of(name)
        found = re.search(r"\(([a-z0-9-]+)", query.get("labelSelector", ""))
        return Call.DELETE_PODS, experiment_of(found[1]) if found else ""
    return _classify_write(method, resource, rest, _json(body))


def _classify_write(method: str, resource: str, rest: list[str], content: Mapping[str, Any]) -> tuple[Call, str]:
    name = rest[0] if rest else ""
    if method == "POST":
        if resource == "events":
            return Call.EVENT, experiment_of(str(content.get("regarding", {}).get("name", "")))
        metadata = content.get("metadata", {})
        made = experiment_of(str(metadata.get("name", "")).removeprefix("gang-"))
        if LABEL_STORAGE in metadata.get("labels", {}) and resource == "pods":
            return Call.CREATE_STORAGE_POD, made
        return _CREATIONS.get(resource, Call.CREATE_TRIAL), made
    if rest[1:] == ["status"]:
        status = content.get("status") or {}
        call = _experiment_stage(status) if resource == "experiments" else _trial_stage(status)
        return call, experiment_of(name)
    if method == "PATCH" and resource in _CHANGES:
        return _CHANGES[resource], experiment_of(name)
    return Call.OTHER, ""


def _experiment_stage(status: Mapping[str, Any]) -> Call:
    if status.get("completionTime"):
        return Call.EXPERIMENT_END
    jobs = status.get("storage", {}).get("jobs", ())
    due = {job["purpose"] for job in jobs if job["state"] not in ("Done", "Failed")}
    return next((call for purpose, call in _JOBS if purpose in due), Call.EXPERIMENT_STATUS)


def _trial_stage(status: Mapping[str, Any]) -> Call:
    """What a status says that the ones before it did not."""
    last, evaluation = status.get("lastAttempt"), status.get("evaluation")
    if status.get("completionTime"):
        return Call.TRIAL_REFUSED if status.get("reason") == "Refused" else Call.TRIAL_END
    if last and evaluation and evaluation.get("attempt") == last.get("attempt", 0) + 1 == status.get("attempt", 0) + 1:
        return Call.TRAINING_END
    if last and last.get("attempt") == status.get("attempt"):
        return Call.ATTEMPT_END
    if status.get("decision"):
        return Call.TRIAL_DECISION
    if status.get("state") != "RUNNING":
        return Call.TRIAL_PENDING
    if (status.get("checkpointRequest") or {"checkpoint": True}).get("checkpoint") is None:
        return Call.TRIAL_REQUEST
    return Call.TRIAL_CHECKPOINT if status.get("checkpoint") else Call.TRIAL_RUNNING


def classify_report(
    method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
) -> tuple[Call, str]:
    """Which call of an agent's to the operator this is."""
    words = path.split("/")
    trial = words[words.index("trials") + 1] if "trials" in words else ""
    if method == "GET" and words[-1:] == ["log"]:
        return (Call.OTHER if query.get("follow") == "false" else Call.AGENT_LOG), experiment_of(trial)
    if method != "POST":
        return Call.OTHER, experiment_of(trial)
    return (Call.REPORT_FOR_RECORDS if _json(body).get("stored") else Call.REPORT), experiment_of(trial)


def classify_s3(
    method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
) -> tuple[Call, str]:
    """Which call of an agent's to the bucket this is; keys hold the trial's name, but for the Experiment's records."""
    key = path
    subject = _s3_subject(key) or _s3_subject(query.get("prefix", "")) or _s3_subject(body[:4096].decode("latin-1"))
    if RECORDS in key or RECORDS in query.get("prefix", "") or RECORDS in body[:4096].decode("latin-1"):
        return _RECORD_CALLS.get(method, Call.S3_DELETE_RECORD), subject
    if method == "PUT":
        if "partNumber" in query:
            return Call.S3_PART, subject
        if key.endswith("/manifest.json"):
            return Call.S3_PUT_MANIFEST, subject
        if re.search(r"/(results|logs)/\d+/[^/]+$", key):
            return Call.S3_PUT_SEGMENT, subject
        return Call.S3_PUT, subject
    if method == "GET" and ("list-type" in query or "prefix" in query):
        return Call.S3_LIST, subject
    if method in ("GET", "HEAD"):
        return (Call.S3_GET_MANIFEST if key.endswith("/manifest.json") else Call.S3_GET), subject
    if method == "DELETE" or (method == "POST" and "delete" in query):
        return Call.S3_DELETE, subject
    return Call.S3_PART if method == "POST" else Call.OTHER, subject


def classify_volume(operation: str, path: str) -> tuple[Call, str]:
    """Which call of an agent's to the file system of its store this is: `operation` is that of `os`.

    Paths hold the trial's name, but for the Experiment's records.
    """
    subject, name = _s3_subject(path), path.rpartition("/")[2]
    final = found[1] if (found := _UNFINISHED.fullmatch(name)) else name
    if final == "Probe":
        return Call.OTHER, subject
    if RECORDS in path and operation in _RECORD_FILE_CALLS:
        return _RECORD_FILE_CALLS[operation], subject
    is_manifest = final == "manifest.json"
    match operation:
        case "open":
            return Call.VOLUME_OPEN, subject
        case "create":
            return Call.VOLUME_CREATE, subject
        case "pwrite" if final.endswith((".jsonl", ".jsonl.gz")):
            return Call.VOLUME_WRITE_HISTORY, subject
        case "pwrite":
            return Call.VOLUME_WRITE_MANIFEST if is_manifest else Call.VOLUME_WRITE, subject
        case "fsync":
            return Call.VOLUME_SYNC, subject
        case "rename":
            return Call.VOLUME_RENAME_MANIFEST if is_manifest else Call.VOLUME_RENAME, subject
        case "pread":
            return Call.VOLUME_READ_MANIFEST if is_manifest else Call.VOLUME_READ, subject
        case "scandir":
            return Call.VOLUME_LIST, subject
        case "unlink":
            return Call.VOLUME_DELETE, subject
        case _:
            return Call.OTHER, subject


def _s3_subject(text: str) -> str:
    found = re.search(r"/([a-z][a-z0-9]+)-\d+/", text)
    return found[1] if found else ""


def _token_subject(body: bytes) -> str:
    """The experiment whose agent the reviewed token is of: bound tokens name their pod."""
    token = str(_json(body).get("spec", {}).get("token", ""))
    parts = token.split(".")
    if len(parts) != 3:
        return ""
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return ""
    return experiment_of(str(claims.get("kubernetes.io", {}).get("pod", {}).get("name", "")))


def _json(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
