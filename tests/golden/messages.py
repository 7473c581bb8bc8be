"""What an agent and an operator say to each other, one message of each kind with every field set."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from podtune.protocol.assignment import Assignment
from podtune.protocol.checkpoint import CheckpointRef, encode_restore_list, parse_restore_list
from podtune.protocol.messages import (
    CheckpointCommit,
    FinalCommit,
    LedgerLine,
    Reply,
    Report,
    Restored,
    RestoreFailure,
    Result,
    StoreProblem,
    Unstored,
    encode_ledger,
    parse_final_commit,
    parse_ledger,
    parse_reply,
    parse_report,
)
from podtune.protocol.snapshot import SnapshotRecord, StoredVersions
from podtune.protocol.storage_job import StoragePurpose, StorageReport, StorageTask, parse_storage_report, parse_task
from podtune.storage.checkpoint.manifest import CheckpointManifest, ManifestFile, parse_manifest

_ATTEMPT = "0b5e8f0a-6c1d-4f6e-9d63-0a8f5f5f5a01/12.3"
_DIGEST = f"sha256:{'ab' * 32}"
_CHECKPOINT = CheckpointRef("s3://bucket/experiment/digits-12/attempt/checkpoint_000004", _DIGEST, 4)
_RESULT = Result(7, 1700000000.5, {"accuracy": 0.5, "epoch": 4, "note": "x", "ok": True}, 4, True)
_COMMIT = CheckpointCommit(_CHECKPOINT, 7, 0.5)
_RESTORED = Restored(_CHECKPOINT, 0.25, "an earlier one is gone")
_PROBLEM = StoreProblem("AccessDenied", "the bucket refuses the credentials", permanent=True)
_UNSTORED = Unstored(since=5, seq=7, step=4, waits=True)
_DECISION = LedgerLine(2, "2026-01-01T00:00:00Z", 3, 4, "PAUSE", "it is paused at 4 iterations", {"milestone": "4"})
_FINAL = FinalCommit(
    _ATTEMPT, 7, 6, _RESULT, (_COMMIT,), _RESTORED, _PROBLEM, done=True, complete=False, ledger=2, unstored=_UNSTORED
)
_NEXT = Assignment(
    trial="digits-13",
    number=2,
    attempt="0b5e8f0a-6c1d-4f6e-9d63-0a8f5f5f5a01/13.2",
    parameters={"lr": 0.1, "units": 16, "kind": "adam", "nesterov": True},
    seed=7,
    restore_from=(_CHECKPOINT,),
    restore_or_fail=True,
    find=True,
    configuration="c0ffee",
)
_RECORD = SnapshotRecord("", 42, '{"kind":"Experiment"}', has_warm_start=True)
_CHUNKS = ("ab" * 32, "cd" * 32)
_FILES = (
    ManifestFile("weights", 3, "ab" * 32),
    ManifestFile(
        "optimizer",
        (8 << 20) + 1,
        hashlib.sha256(bytes.fromhex("".join(_CHUNKS))).hexdigest(),
        chunk_size=8 << 20,
        chunks=_CHUNKS,
        object="objects/1",
        split=True,
    ),
)
_MANIFEST = CheckpointManifest(
    attempt="attempt", step=4, iteration=4, metric="0.5", created="2026-01-01T00:00:00Z", files=_FILES
)


@dataclass(frozen=True)
class Message:
    """A message, how it is written, and what reads it."""

    value: object
    text: str
    parse: Callable[[str], object]


_REPORT = Report(
    _ATTEMPT,
    "Draining",
    (_RESULT,),
    (_COMMIT,),
    _RESTORED,
    _PROBLEM,
    2,
    _FINAL,
    RestoreFailure(1, "no checkpoint is whole"),
    _UNSTORED,
    StoredVersions(41, 40, lacks_warm_start=True),
)
_REPLY = Reply(7, 6, (_CHECKPOINT.uri,), "PAUSE", True, (_CHECKPOINT.uri,), (_DECISION,), _NEXT, records=(_RECORD,))
_TASK = StorageTask(
    StoragePurpose.EXPORT, "team", "digits", "0b5e8f0a-6c1d-4f6e-9d63-0a8f5f5f5a02", 2, "s3://bucket/models"
)
_DONE = StorageReport(StoragePurpose.EXPORT, True, "exported", 3, "s3://bucket/models/digits")

MESSAGES = {
    "report": Message(_REPORT, _REPORT.to_json().decode(), lambda text: parse_report(text.encode())),
    "reply": Message(_REPLY, _REPLY.to_json().decode(), lambda text: parse_reply(text.encode())),
    "finalCommit": Message(_FINAL, _FINAL.to_json(), parse_final_commit),
    "restoreList": Message((_CHECKPOINT,), encode_restore_list([_CHECKPOINT]), parse_restore_list),
    "ledger": Message((_DECISION,), encode_ledger([_DECISION]).decode(), lambda text: parse_ledger(text.encode())),
    "storageTask": Message(_TASK, _TASK.to_json(), parse_task),
    "storageReport": Message(_DONE, _DONE.to_json(), parse_storage_report),
    "manifest": Message(_MANIFEST, _MANIFEST.to_bytes().decode(), lambda text: parse_manifest(text.encode())),
}
"""The messages, by their kinds."""
