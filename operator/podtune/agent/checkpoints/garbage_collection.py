"""Deletes checkpoints that are no longer kept, whenever the operator's list of kept checkpoints changes."""

from __future__ import annotations

from podtune.agent.checkpoints.store_retry import warn_of_failure
from podtune.agent.checkpoints.upload_task import LAST_WORD, TaskContext, UploadTask
from podtune.storage.checkpoint.address import CheckpointAddress
from podtune.storage.cleanup.garbage import GarbageCollector
from podtune.storage.cleanup.prune import abort_uploads


class GarbageCollection(UploadTask):
    """Decides when old checkpoints are deleted. The first time, uploads that earlier attempts left are aborted, too."""

    def __init__(self, context: TaskContext, collector: GarbageCollector) -> None:
        self._attempt = context.attempt
        self._attempt_id = context.settings.attempt
        self._address = context.address
        self._store = context.store
        self._log = context.log
        self._collector = collector
        self._collected_for: tuple[str, ...] | None = None
        """The checkpoints that were kept when old ones were last deleted."""
        self._left: set[CheckpointAddress] = set()
        """Those that were there after it, of a trial that keeps none: others have been stored since."""
        self._has_aborted_uploads = False

    @property
    def due_in(self) -> float | None:
        """See `UploadTask.due_in`."""
        return 0.0 if self._has_garbage else None

    @property
    def _has_garbage(self) -> bool:
        is_news = self._attempt.kept != self._collected_for
        return is_news or (self._attempt.discards and self._collector.known != self._left)

    def run(self) -> None:
        """Deletes what is neither kept nor on its way to being recorded."""
        if not self._has_aborted_uploads:
            self._has_aborted_uploads = True
            self._abort_uploads()
        with self._attempt.changed:
            kept = self._attempt.kept
            discards = self._attempt.discards
            commits = () if discards else self._attempt.checkpoints.commits
            protected = {commit.checkpoint.uri for commit in commits}
        self._collected_for = kept
        with warn_of_failure(self._log, "old checkpoints not deleted"):
            deleted = self._collector.collect(kept or (), protected, discards=discards)
            if deleted:
                self._log.info("checkpoints deleted", uris=deleted)
        self._left = set(self._collector.known)

    def finish(self) -> None:
        """Deletes what the last checkpoint has made superfluous, once that is recorded, if it comes soon."""
        with self._attempt.changed:
            if not self._attempt.checkpoints.commits and not self._has_garbage:
                return
            self._attempt.changed.wait_for(lambda: self._attempt.fenced or self._is_recorded, LAST_WORD)
            is_due = not self._attempt.fenced and self._is_recorded and self._has_garbage
        if is_due:
            self.run()

    @property
    def _is_recorded(self) -> bool:
        """Whether nothing is stored that the operator may still record."""
        return self._attempt.discards or not self._attempt.checkpoints.commits

    def _abort_uploads(self) -> None:
        with warn_of_failure(self._log, "unfinished uploads not looked for"):
            aborted = abort_uploads(self._store, self._address.prefix, spare=self._address.attempt(self._attempt_id))
            if aborted:
                self._log.info("unfinished uploads aborted", uploads=aborted)
