"""Trials that have failed for good, as TensorBoard's event files show them.

The agent of a failed attempt does not know whether it was the last one, and TensorBoard takes back no word on an end.
So a storage pod stores the end of such a trial, in a file of its own: after the operator has recorded it, and however
the last agent went. If the trial is retried later, its next agent deletes that file.
"""

from __future__ import annotations

from collections.abc import Iterable

from podtune.agent.trackers.event_file_names import find_last_attempt, format_failure_file, is_failure_file
from podtune.protocol.storage_job import StoredTrial
from podtune.protocol.tracking import RunStatus
from podtune.storage.address import StoreAddress
from podtune.storage.checkpoint.address import TrialAddress
from podtune.storage.event_files.events import encode_version
from podtune.storage.event_files.hparams import SessionStatus, encode_session_end
from podtune.storage.object_store import ObjectStore


def store_failed_ends(
    store: ObjectStore, address: StoreAddress, experiment_uid: str, trials: Iterable[StoredTrial], now: float
) -> int:
    """Stores the ends of failed trials that have event files, and returns of how many. It may be repeated.

    Raises:
        StoreError: The store can't do it now, or at all.
    """
    count = 0
    for trial in trials:
        if trial.run is not None and trial.run.status is RunStatus.FAILED:
            prefix = TrialAddress(address, experiment_uid, trial.trial).event_files(trial.trial)
            count += _store_failed_end(store, prefix, trial.attempt, now)
    return count


def _store_failed_end(store: ObjectStore, prefix: str, attempt: int, now: float) -> bool:
    """Stores the end of one trial, unless it is there, or an attempt has followed; whether it did so."""
    names = [key.removeprefix(prefix) for key in store.list(prefix)]
    own = format_failure_file(attempt)
    if own in names or not 0 < find_last_attempt(names) <= attempt:
        return False
    store.put_bytes(f"{prefix}{own}", encode_version(now) + encode_session_end(now, SessionStatus.FAILURE))
    return True


def delete_failed_ends(store: ObjectStore, prefix: str) -> None:
    """Deletes what says that a trial has failed, since it goes on.

    Raises:
        StoreError: The store can't do it now, or at all.
    """
    ended = [key for key in store.list(prefix) if is_failure_file(key.removeprefix(prefix))]
    if ended:
        store.delete(ended)
