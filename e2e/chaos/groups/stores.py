"""Between the agents and their store: a bucket, or a volume."""

from __future__ import annotations

from collections.abc import Iterator

from e2e.chaos.faults.calls import Call
from e2e.chaos.groups.group import each
from e2e.chaos.perturbation import Fault, Perturbation

STORE_FAULTS = (
    Fault.REFUSE_403,
    Fault.REFUSE_404,
    Fault.REFUSE_409,
    Fault.REFUSE_412,
    Fault.REFUSE_500,
    Fault.REFUSE_503,
    Fault.LOSE_REQUEST,
    Fault.LOSE_REPLY,
    Fault.DONE_BUT_500,
    Fault.SLOW,
    Fault.TWICE,
    Fault.OUTAGE,
    Fault.KILL_BEFORE,
    Fault.KILL_AFTER,
)
READ_FAULTS = (
    Fault.REFUSE_403,
    Fault.REFUSE_404,
    Fault.REFUSE_500,
    Fault.REFUSE_503,
    Fault.LOSE_REPLY,
    Fault.SLOW,
    Fault.TRUNCATED,
    Fault.BIT_FLIPPED,
)
VOLUME_FAULTS = (
    Fault.DISK_FULL,
    Fault.READ_ONLY,
    Fault.STALE_HANDLE,
    Fault.IO_ERROR,
    Fault.DONE_BUT_IO_ERROR,
    Fault.SLOW,
    Fault.KILL_BEFORE,
    Fault.KILL_AFTER,
)
VOLUME_LIST_FAULTS = (Fault.READ_ONLY, Fault.STALE_HANDLE, Fault.IO_ERROR, Fault.SLOW)
FOLLOW_FAULTS = (Fault.REFUSE_429, Fault.REFUSE_500, Fault.REFUSE_503, Fault.LOSE_REQUEST, Fault.WATCH_CUT)


def list_bucket() -> Iterator[Perturbation]:
    """Between the agent and S3: the agent is killed at every step of an upload."""
    uploads = [
        ("stored", Call.S3_LIST, 1),
        ("stored", Call.S3_PUT, 1),
        ("stored", Call.S3_PUT, 5),
        ("stored", Call.S3_PUT_MANIFEST, 1),
        ("stored", Call.S3_PUT_MANIFEST, 3),
        ("stored", Call.S3_PUT_SEGMENT, 1),
    ]
    yield from each(STORE_FAULTS, uploads)
    yield from each(READ_FAULTS, [("stored", Call.S3_GET, 1), ("stored", Call.S3_GET_MANIFEST, 1)])
    yield from each((Fault.REFUSE_403, Fault.REFUSE_503, Fault.LOSE_REPLY), [("stored", Call.S3_DELETE, 1)])
    parts = [("large", Call.S3_PART, n) for n in (1, 2, 4)]
    yield from each((Fault.REFUSE_500, Fault.LOSE_REPLY, Fault.KILL_BEFORE, Fault.KILL_AFTER), parts)
    full_disk = [("full", Call.S3_PUT_MANIFEST, n) for n in (1, 2, 3)] + [("full", Call.S3_PUT_SEGMENT, 1)]
    yield from each((Fault.REFUSE_503, Fault.SLOW, Fault.LOSE_REPLY, Fault.KILL_AFTER), full_disk)


def list_segments() -> Iterator[Perturbation]:
    """While results and output are on their way into the bucket, by segments that are stored again and again."""
    yield from each(STORE_FAULTS, [("kept", Call.S3_PUT_SEGMENT, n) for n in (1, 4, 9)])
    yield from each(FOLLOW_FAULTS, [("kept", call, n) for call in (Call.FOLLOW_LOG, Call.AGENT_LOG) for n in (1, 2)])
    yield from each(VOLUME_FAULTS, [("kept-on-volume", Call.VOLUME_WRITE_HISTORY, n) for n in (1, 4, 9)])


def list_ends() -> Iterator[Perturbation]:
    """While the last checkpoint of an attempt is on its way: of one that ends by itself, stops, pauses or crashes."""
    last = [
        ("saved", Call.S3_PUT_MANIFEST, 1),
        ("stopped", Call.S3_PUT_MANIFEST, 2),
        ("paused", Call.S3_PUT_MANIFEST, 1),
    ]
    yield from each((Fault.OUTAGE, Fault.SLOW), last)
    yield Perturbation("hasty", Call.S3_PUT_MANIFEST, 1, Fault.OUTAGE)
    yield from each((Fault.KILL_BEFORE,), [("draining", Call.TRIAL_CHECKPOINT, 1), ("cut-short", Call.ATTEMPT_END, 1)])
    yield Perturbation("cut-short", Call.TRIAL_END, 1, Fault.KILL_AFTER)


VOLUME_READ_FAULTS = (Fault.STALE_HANDLE, Fault.IO_ERROR, Fault.SLOW, Fault.TRUNCATED, Fault.BIT_FLIPPED)


def list_volume() -> Iterator[Perturbation]:
    """Between the agent and the file system of its store, at every step of a file from its creation to its name."""
    steps = [
        ("stored-on-volume", Call.VOLUME_CREATE, 2),
        ("stored-on-volume", Call.VOLUME_WRITE, 1),
        ("stored-on-volume", Call.VOLUME_WRITE, 4),
        ("stored-on-volume", Call.VOLUME_SYNC, 2),
        ("stored-on-volume", Call.VOLUME_RENAME, 3),
        ("stored-on-volume", Call.VOLUME_WRITE_MANIFEST, 1),
        ("stored-on-volume", Call.VOLUME_RENAME_MANIFEST, 1),
        ("stored-on-volume", Call.VOLUME_RENAME_MANIFEST, 3),
        ("stored-on-volume", Call.VOLUME_WRITE_HISTORY, 1),
    ]
    yield from each(VOLUME_FAULTS, steps)
    reads = [("stored-on-volume", Call.VOLUME_READ, 1), ("stored-on-volume", Call.VOLUME_READ_MANIFEST, 1)]
    yield from each(VOLUME_READ_FAULTS, reads)
    others = [("stored-on-volume", Call.VOLUME_LIST, 1), ("stored-on-volume", Call.VOLUME_DELETE, 1)]
    yield from each(VOLUME_LIST_FAULTS, others)
    parts = [("large-on-volume", Call.VOLUME_WRITE, n) for n in (2, 40, 200)]
    yield from each((Fault.DISK_FULL, Fault.STALE_HANDLE, Fault.KILL_BEFORE, Fault.KILL_AFTER), parts)
    last = [
        ("saved-on-volume", Call.VOLUME_RENAME_MANIFEST, 1),
        ("stopped-on-volume", Call.VOLUME_RENAME_MANIFEST, 2),
        ("paused-on-volume", Call.VOLUME_RENAME_MANIFEST, 1),
    ]
    yield from each((Fault.DISK_FULL, Fault.READ_ONLY, Fault.STALE_HANDLE, Fault.SLOW), last)
    yield from each((Fault.READ_ONLY, Fault.STALE_HANDLE), [("hasty-on-volume", Call.VOLUME_RENAME_MANIFEST, 1)])
