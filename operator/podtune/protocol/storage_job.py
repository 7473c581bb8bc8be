"""What the operator tells a storage pod, and what that tells of its work.

The job itself is small and comes by an environment variable. What it has to know of each trial comes by ConfigMaps,
compressed: of 10,000 trials it would fill neither a variable nor one ConfigMap. The report is the pod's termination
message.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from podtune.protocol.assignment import MAX_UID
from podtune.protocol.fields import ProtocolError, read_clipped, read_json, read_object, read_texts
from podtune.protocol.snapshot import SnapshotRecord, parse_record
from podtune.protocol.tracking import RunFacts, parse_run_facts

_CHUNK = 512 << 10
"""Compressed bytes of one ConfigMap at most, about; the API server takes 1 MiB, in base64."""
TRIALS_A_CHUNK = 1000
CHUNK_KEY = "trials.jsonl.gz"
MAX_REPORT = 3072
"""Bytes of a report; the kubelet cuts at 4096."""


class StoragePurpose(StrEnum):
    """What a storage pod is there for."""

    EXPORT = "Export"
    """Copy checkpoints to an address of their own, with a model card."""

    PRUNE = "Prune"
    """The experiment has ended: store its last records, and leave in the bucket what policy keeps, and nothing else."""
    PRUNE_STOPPED = "PruneStopped"
    """While the experiment runs: delete checkpoints that trials which were stopped do not keep."""
    PURGE = "Purge"
    """The experiment is being deleted: leave nothing of it in the bucket."""
    SNAPSHOT = "Snapshot"
    """While the experiment runs: store the records of objects that no agent stores, of trials without a pod."""


@dataclass(frozen=True, slots=True)
class StorageTask:
    """A job for a storage pod.

    Attributes:
        purpose: What is to be done.
        namespace: Namespace of the experiment.
        experiment: Its name.
        experiment_uid: Its UID, below which everything of it lies in the bucket.
        chunks: How many files with trials there are.
        export_to: URI below which exports go.
        ends_event_files: Whether TensorBoard's files are to say which trials have failed.
    """

    purpose: StoragePurpose
    namespace: str
    experiment: str
    experiment_uid: str
    chunks: int = 0
    export_to: str = ""
    ends_event_files: bool = False

    def to_json(self) -> str:
        """The job as the variable holds it."""
        return json.dumps(asdict(self), separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class ExportedCheckpoint:
    """A checkpoint to export.

    Attributes:
        uri: Where it is.
        digest: Of its manifest.
        folder: Where it goes, below the job's `export_to`.
        is_best: Whether it is the experiment's best.
        card: What its model card says, as JSON.
    """

    uri: str
    digest: str
    folder: str
    is_best: bool
    card: str


@dataclass(frozen=True, slots=True)
class StoredTrial:
    """What a storage pod needs to know about a trial.

    Attributes:
        trial: Its name.
        kept: URIs of the checkpoints that stay.
        export: The checkpoint that is to be exported.
        ledger: Decisions on the trial that no agent has stored, as JSON, oldest first.
        record: A record to store: the trial's; or the Experiment's or its warm start, whose name `trial` is then.
        uid: UID of the Trial, where its run in a tracker is to be told of it.
        run: What that run is to be shown as; None where there is no tracker.
        attempt: Number of the attempt that ended last; 0 where none has, or where there is no tracker.
    """

    trial: str
    kept: tuple[str, ...] = ()
    export: ExportedCheckpoint | None = None
    ledger: tuple[str, ...] = ()
    record: SnapshotRecord | None = None
    uid: str = ""
    run: RunFacts | None = None
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class StorageReport:
    """What came of a job.

    Attributes:
        purpose: The job's.
        ok: Whether all of it is done.
        deleted: How many objects were deleted.
        message: What was done, or why not, in a sentence.
        uri: Where the best checkpoint was exported to.
    """

    purpose: StoragePurpose
    ok: bool
    message: str
    deleted: int = 0
    uri: str = ""

    def to_json(self) -> str:
        """The report in ASCII, short enough for a termination message."""
        body = asdict(self)
        while len(text := json.dumps(body)) > MAX_REPORT:
            body["message"] = body["message"][: len(body["message"]) // 2] + "…"
        return text


def parse_task(text: str) -> StorageTask:
    """Reads a job.

    Raises:
        ProtocolError: It is none; the message names the field.
    """
    body = read_object(read_json(text), "the job")
    return StorageTask(
        purpose=_read_purpose(body),
        namespace=_read_text(body, "namespace"),
        experiment=_read_text(body, "experiment"),
        experiment_uid=_read_part_of_key(body, "experiment_uid"),
        chunks=_count(body, "chunks"),
        export_to=_read_text(body, "export_to") if "export_to" in body else "",
        ends_event_files=body.get("ends_event_files") is True,
    )


def parse_storage_report(text: str) -> StorageReport:
    """Reads a report.

    Raises:
        ProtocolError: It is none.
    """
    body = read_object(read_json(text), "the report")
    return StorageReport(
        purpose=_read_purpose(body),
        ok=body.get("ok") is True,
        message=_read_text(body, "message"),
        deleted=_count(body, "deleted"),
        uri=_read_text(body, "uri") if "uri" in body else "",
    )


def encode_chunks(trials: Iterable[StoredTrial]) -> Iterator[bytes]:
    """Writes trials into files for ConfigMaps: the same trials always give the same bytes."""
    lines: list[bytes] = []
    for trial in trials:
        lines.append(json.dumps(asdict(trial), separators=(",", ":")).encode())
        if len(lines) == TRIALS_A_CHUNK:
            yield from _compress(lines)
            lines = []
    if lines:
        yield from _compress(lines)


def _compress(lines: list[bytes]) -> Iterator[bytes]:
    data = gzip.compress(b"\n".join(lines), mtime=0)
    if len(data) <= _CHUNK or len(lines) == 1:
        yield data
        return
    middle = len(lines) // 2
    yield from _compress(lines[:middle])
    yield from _compress(lines[middle:])


def read_chunk(data: bytes) -> Iterator[StoredTrial]:
    """Reads such a file back.

    Raises:
        ProtocolError: It is none.
    """
    try:
        lines = gzip.decompress(data).splitlines()
    except (OSError, EOFError) as error:
        raise ProtocolError(f"the trials are not compressed by gzip: {error}") from error
    for line in lines:
        body = read_object(read_json(line.decode(errors="replace")), "a trial")
        yield StoredTrial(
            _read_part_of_key(body, "trial"),
            read_texts(body, "kept"),
            _export(body.get("export")),
            read_texts(body, "ledger"),
            None if body.get("record") is None else parse_record(body["record"]),
            read_clipped(body, "uid", MAX_UID),
            parse_run_facts(body.get("run")),
            _count(body, "attempt"),
        )


def _export(body: Any) -> ExportedCheckpoint | None:
    if body is None:
        return None
    body = read_object(body, "export")
    texts = {name: _read_text(body, name) for name in ("uri", "digest", "card")}
    return ExportedCheckpoint(**texts, folder=_read_part_of_key(body, "folder"), is_best=body.get("is_best") is True)


def _read_purpose(body: dict[str, Any]) -> StoragePurpose:
    try:
        return StoragePurpose(_read_text(body, "purpose"))
    except ValueError as error:
        raise ProtocolError(f"purpose: {error}; the pod's image is of another version than the operator") from error


def _read_text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise ProtocolError(f"{name} is missing or not a string")
    return value


def _read_part_of_key(body: dict[str, Any], name: str) -> str:
    """A text that is one part of a key: an empty one would make a prefix that holds everybody's."""
    value = _read_text(body, name)
    if not value or "/" in value:
        raise ProtocolError(f"{name} is {value!r}, which is not one part of a key")
    return value


def _count(body: dict[str, Any], name: str) -> int:
    value = body.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ProtocolError(f"{name} is not a whole number from 0")
    return value
