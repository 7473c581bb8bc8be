"""What the store holds of the experiment itself, and what it lets go of: snapshots, restores, stopped trials."""

from __future__ import annotations

from collections.abc import Iterator

from e2e.chaos.faults.calls import Call
from e2e.chaos.groups.group import DOUBTS, KILLS, each
from e2e.chaos.groups.stores import VOLUME_FAULTS, VOLUME_LIST_FAULTS
from e2e.chaos.perturbation import Fault, Perturbation


def list_snapshots() -> Iterator[Perturbation]:
    """While records of the experiment itself are handed out, stored and acknowledged, by agents and storage pods."""
    stores = (
        Fault.REFUSE_403,
        Fault.REFUSE_500,
        Fault.LOSE_REPLY,
        Fault.DONE_BUT_500,
        Fault.SLOW,
        Fault.OUTAGE,
        Fault.KILL_BEFORE,
        Fault.KILL_AFTER,
    )
    yield from each(stores, [("recorded", Call.S3_PUT_RECORD, n) for n in (1, 6)])
    others = [("recorded", Call.S3_LIST_RECORDS, 2), ("recorded", Call.S3_DELETE_RECORD, 1)]
    yield from each((Fault.REFUSE_503, Fault.SLOW, Fault.LOSE_REPLY), others)
    reports = [("recorded", Call.REPORT_FOR_RECORDS, n) for n in (1, 5)]
    yield from each((Fault.LOSE_REPLY, Fault.GARBLED, Fault.SLOW, *KILLS), reports)
    jobs = [
        ("recorded", Call.SNAPSHOT_JOB, 1),
        ("recorded", Call.CREATE_STORAGE_POD, 1),
        ("recorded", Call.CREATE_CHUNK, 1),
        ("recorded", Call.EXPERIMENT_END, 1),
        ("recorded", Call.PRUNE_JOB, 1),
    ]
    yield from each((*KILLS, Fault.REFUSE_500, Fault.LOSE_REPLY), jobs)
    yield from each((Fault.WATCH_CUT, Fault.WATCH_DROP, Fault.WATCH_STALE), [("recorded", Call.WATCH_PODS, 20)])
    yield from _list_snapshots_on_volume()
    yield from _list_edits()


def _list_snapshots_on_volume() -> Iterator[Perturbation]:
    """The same where the records are files of a volume."""
    steps = [("recorded-on-volume", Call.VOLUME_WRITE_RECORD, 1), ("recorded-on-volume", Call.VOLUME_RENAME_RECORD, 6)]
    yield from each(VOLUME_FAULTS, steps)
    others = [
        ("recorded-on-volume", Call.VOLUME_LIST_RECORDS, 2),
        ("recorded-on-volume", Call.VOLUME_DELETE_RECORD, 1),
    ]
    yield from each(VOLUME_LIST_FAULTS, others)
    jobs = [
        ("recorded-on-volume", Call.SNAPSHOT_JOB, 1),
        ("recorded-on-volume", Call.CREATE_STORAGE_POD, 1),
        ("recorded-on-volume", Call.PRUNE_JOB, 1),
    ]
    yield from each((*KILLS, Fault.LOSE_REPLY), jobs)


def _list_edits() -> Iterator[Perturbation]:
    """An Experiment that is changed while none of its trials runs: the second storage pod stores that."""
    steps = [
        ("edited", Call.CREATE_STORAGE_POD, 2),
        ("edited", Call.CREATE_CHUNK, 2),
        ("edited", Call.SNAPSHOT_JOB, 1),
        ("edited", Call.SNAPSHOT_JOB, 3),
    ]
    yield from each((*KILLS, Fault.REFUSE_500, Fault.LOSE_REPLY), steps)


def list_restores() -> Iterator[Perturbation]:
    """An experiment that its cluster loses, at moments in which the store knows more of some of it than of the rest.

    The last of them lose one that was edited while none of its trials ran, and one that meets another fault once it is
    restored: its operator dies, or it is lost again.
    """
    moments = [
        ("recorded", Call.S3_PUT_RECORD, 3),
        ("recorded", Call.S3_PUT_RECORD, 6),
        ("recorded", Call.S3_PUT_RECORD, 11),
        ("recorded", Call.S3_PUT_MANIFEST, 3),
        ("recorded", Call.S3_PUT_MANIFEST, 8),
        ("recorded", Call.REPORT_FOR_RECORDS, 6),
        ("recorded", Call.ATTEMPT_END, 1),
        ("recorded", Call.TRIAL_END, 1),
        ("recorded", Call.CREATE_TRIAL, 2),
        ("recorded", Call.CREATE_TRIAL, 3),
        ("recorded", Call.CREATE_POD, 3),
        ("recorded", Call.SNAPSHOT_JOB, 1),
        ("recorded", Call.CREATE_STORAGE_POD, 1),
        ("recorded", Call.TRIAL_END, 3),
        ("recorded-on-volume", Call.VOLUME_WRITE_RECORD, 3),
        ("recorded-on-volume", Call.VOLUME_RENAME_RECORD, 6),
        ("recorded-on-volume", Call.VOLUME_RENAME_RECORD, 11),
        ("recorded-on-volume", Call.VOLUME_DELETE_RECORD, 2),
        ("recorded-on-volume", Call.VOLUME_RENAME_MANIFEST, 3),
        ("recorded-on-volume", Call.VOLUME_RENAME_MANIFEST, 8),
        ("recorded-on-volume", Call.VOLUME_WRITE_HISTORY, 6),
        ("recorded-on-volume", Call.ATTEMPT_END, 1),
        ("recorded-on-volume", Call.TRIAL_END, 1),
        ("recorded-on-volume", Call.CREATE_TRIAL, 3),
        ("recorded-on-volume", Call.SNAPSHOT_JOB, 1),
        ("recorded-on-volume", Call.TRIAL_END, 3),
    ]
    edited = [("edited", Call.CREATE_POD, 2), ("edited", Call.CREATE_TRIAL, 2)]
    yield from each((Fault.LOSE_CLUSTER,), [*moments, *edited])
    lives = [(Call.TRIAL_END, 1), (Call.REPORT_FOR_RECORDS, 6), (Call.CREATE_TRIAL, 2)]
    yield from each((Fault.LOSE_TWICE, Fault.LOSE_THEN_KILL), [("recorded", *moment) for moment in lives])


def list_discards() -> Iterator[Perturbation]:
    """While trials are stopped that keep no checkpoint: nothing is waited for, all of theirs is deleted.

    The first decision, the first pod that is deleted, the first trial that ends and the first three manifests are those
    of the trial that runs to its end.
    """
    steps = [
        ("discarding", Call.TRIAL_DECISION, 2),
        ("discarding", Call.TRIAL_DECISION, 3),
        ("discarding", Call.DELETE_POD, 2),
        ("discarding", Call.TRIAL_END, 2),
        ("discarding", Call.TRIAL_END, 3),
        ("discarding", Call.EXPERIMENT_END, 1),
        ("discarding", Call.PRUNE_JOB, 1),
    ]
    yield from each(KILLS, steps)
    yield from each((*DOUBTS, Fault.LATE_AGAIN), [steps[0], steps[2], steps[3]])
    yield from each((Fault.LOSE_REPLY, Fault.SLOW, Fault.GARBLED), [("discarding", Call.REPORT, n) for n in (8, 12)])
    stores = [("discarded", Call.S3_PUT_MANIFEST, 4), ("discarded", Call.S3_DELETE, 2)]
    faults = (Fault.REFUSE_403, Fault.REFUSE_503, Fault.LOSE_REPLY, Fault.SLOW, Fault.OUTAGE, *KILLS)
    yield from each(faults, stores)
    files = [("discarded-on-volume", Call.VOLUME_RENAME_MANIFEST, 4)]
    yield from each(VOLUME_FAULTS, files)
    deletions = [("discarded-on-volume", Call.VOLUME_DELETE, n) for n in (1, 6)]
    yield from each((Fault.READ_ONLY, Fault.STALE_HANDLE, Fault.IO_ERROR, Fault.SLOW, *KILLS), deletions)
