"""Stores what is kept of an attempt beside its checkpoints: the decisions on the trial, and the history of results."""

from __future__ import annotations

from podtune.agent.checkpoints.store_retry import warn_of_failure
from podtune.agent.checkpoints.upload_task import LAST_WORD, TaskContext, UploadTask
from podtune.protocol.messages import encode_ledger
from podtune.storage.checkpoint.local_tree import open_tree
from podtune.storage.checkpoint.syncer import upload_file
from podtune.trial import layout


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
        with warn_of_failure(self._log, "store the ledger"):
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


class HistoryUpload(UploadTask):
    """Stores the file of results as it is at the end."""

    def __init__(self, context: TaskContext) -> None:
        self._attempt = context.attempt
        self._directory = context.settings.directory
        self._store = context.store
        self._log = context.log
        self._key = context.address.history(context.settings.attempt)

    def finish(self) -> None:
        """See `UploadTask.finish`."""
        if not self._attempt.outbox.last_seq:
            return
        with warn_of_failure(self._log, "store the results' history"), open_tree(self._directory, ()) as tree:
            upload_file(self._store, tree, layout.RESULTS, self._key)
