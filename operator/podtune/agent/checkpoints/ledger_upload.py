"""Stores the decisions on the trial that an attempt has heard of."""

from __future__ import annotations

from podtune.agent.checkpoints.store_retry import warn_of_failure
from podtune.agent.checkpoints.upload_task import LAST_WORD, TaskContext, UploadTask
from podtune.protocol.messages import encode_ledger


class LedgerUpload(UploadTask):
    """Stores all decisions that are known, as they come: this attempt may end without a last word."""

    def __init__(self, context: TaskContext) -> None:
        self._attempt = context.attempt
        self._store = context.store
        self._log = context.log
        self._key = context.address.ledger(context.settings.attempt)
        self._tried = 0
        """Number of the last decision that it has tried to store."""

    @property
    def due_in(self) -> float | None:
        """See `UploadTask.due_in`."""
        return 0.0 if self._attempt.last_decision > self._tried else None

    def run(self) -> None:
        """Stores the decisions, all in one object."""
        with self._attempt.changed:
            entries = tuple(self._attempt.ledger)
        self._tried = entries[-1].number
        with warn_of_failure(self._log, "ledger not stored"):
            self._store.put_bytes(self._key, encode_ledger(entries))
            with self._attempt.changed:
                self._attempt.ledger_stored = entries[-1].number

    def finish(self) -> None:
        """Stores what is not stored of them, the operator's last word included if it comes soon."""
        with self._attempt.changed:
            self._attempt.changed.wait_for(lambda: self._attempt.is_informed, LAST_WORD)
            is_stored = self._attempt.last_decision == self._attempt.ledger_stored
        if not is_stored:
            self.run()
