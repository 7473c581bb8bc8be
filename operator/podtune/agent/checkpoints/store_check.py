"""Checks early whether checkpoints can be stored: the user learns of a wrong bucket before hours of training."""

from __future__ import annotations

from podtune.agent.checkpoints.store_retry import StoreRetry
from podtune.agent.checkpoints.upload_task import TaskContext, UploadTask
from podtune.storage.errors import StoreError

CHECK_WAIT = 5.0
"""Seconds that the first report is waited for before the bucket is looked at."""


class StoreCheck(UploadTask):
    """Checks the bucket until it works. A checkpoint that is being stored makes the check superfluous."""

    def __init__(self, context: TaskContext, retry: StoreRetry) -> None:
        """Has not looked yet.

        Args:
            context: What it works with.
            retry: Knows whether the store has worked; waits when it has not.
        """
        self._attempt = context.attempt
        self._store = context.store
        self._shutdown = context.shutdown
        self._retry = retry

    @property
    def due_in(self) -> float | None:
        """See `UploadTask.due_in`."""
        return None if self._retry.has_worked else 0.0

    def run(self) -> None:
        """Checks the bucket; the first report comes first."""
        with self._attempt.changed:
            self._attempt.changed.wait_for(lambda: self._attempt.is_known or self._shutdown.is_urgent(), CHECK_WAIT)
        if self._shutdown.is_urgent():
            return
        try:
            self._store.check()
        except StoreError as error:
            self._retry.back_off(error)
        else:
            self._retry.record_success()
