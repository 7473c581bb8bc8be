"""The thread that works in the bucket, one task at a time: it stores checkpoints and deletes those no longer kept."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random

from podtune.agent.checkpoints.artifact_upload import make_artifact_upload
from podtune.agent.checkpoints.checkpoint_upload import CheckpointUpload
from podtune.agent.checkpoints.garbage_collection import GarbageCollection
from podtune.agent.checkpoints.ledger_upload import LedgerUpload
from podtune.agent.checkpoints.store_check import StoreCheck
from podtune.agent.checkpoints.store_retry import StoreRetry
from podtune.agent.checkpoints.upload_task import Shutdown, TaskContext, UploadTask
from podtune.agent.event_log import EventLog
from podtune.agent.settings import Settings
from podtune.agent.state.attempt import Attempt
from podtune.storage.checkpoint.address import TrialAddress
from podtune.storage.checkpoint.content_index import ContentIndex
from podtune.storage.checkpoint.shards import Commit, commit_alone
from podtune.storage.cleanup.garbage import GarbageCollector
from podtune.storage.object_store import ObjectStore


class Uploader(threading.Thread):
    """Runs the task that is due, the most urgent first, and at the end what is left of each.

    Attributes:
        is_finished: Whether all that could be done after the program's end has been done; hold `changed`.
    """

    def __init__(
        self,
        attempt: Attempt,
        *,
        settings: Settings,
        address: TrialAddress,
        store: ObjectStore,
        log: EventLog,
        rng: Random,
        commit: Commit = commit_alone,
        is_checked: bool = False,
    ) -> None:
        super().__init__(name="uploader", daemon=True)
        self._attempt = attempt
        self._shutdown = Shutdown(attempt)
        context = TaskContext(attempt, settings, address, store, log, self._shutdown)
        retry = StoreRetry(context, rng, has_worked=is_checked)
        content_index = ContentIndex(address.prefix)
        collector = GarbageCollector(store, address, settings.attempt, content_index)
        artifacts = make_artifact_upload(context, rng)
        self._checkpoints = CheckpointUpload(
            context, retry, content_index, collector, commit=commit, artifacts=artifacts
        )
        self._tasks: tuple[UploadTask, ...] = (
            self._checkpoints,
            StoreCheck(context, retry),
            LedgerUpload(context),
            *([artifacts] if artifacts else []),
            GarbageCollection(context, collector),
        )
        self.is_finished = False

    def call_when_stored(self, then: Callable[[], None]) -> None:
        """Has this called whenever a checkpoint is stored, before anything else is done: the agent may be killed."""
        self._checkpoints.call_when_stored(then)

    def finish(self) -> None:
        """The program has ended: what waits is stored, and what it has written beside it.

        Where the operator has told it to end, for a pause or for good, nothing but the newest checkpoint is wanted.
        """
        with self._attempt.changed:
            self._shutdown.has_begun = True
            if self._attempt.wants["shouldStop"]:
                self.hurry()
            self._attempt.changed.notify_all()

    def hurry(self) -> None:
        """Time is getting short: of the checkpoints that wait only the newest counts; hold `changed`."""
        self._checkpoints.give_up_all_but_newest()

    def cancel(self) -> None:
        """There is no time left: what is being stored in parts is given up."""
        self._shutdown.cancel_token.cancel()
        with self._attempt.changed:
            self._attempt.changed.notify_all()

    def run(self) -> None:
        """Works until the program has ended and everything is stored, or the attempt is fenced."""
        while task := self._wait_for_task():
            task.run()
        if not self._attempt.fenced:
            for task in self._tasks:
                task.finish()
        with self._attempt.changed:
            self.is_finished = True
            self._attempt.changed.notify_all()

    def _wait_for_task(self) -> UploadTask | None:
        """Waits for a due task; returns the most urgent one, or None once there is no checkpoint left to store."""
        with self._attempt.changed:
            while not self._shutdown.is_over:
                waits = [(task, task.due_in) for task in self._tasks]
                for task, due_in in waits:
                    if due_in == 0:
                        return task
                self._attempt.changed.wait(min((due_in for _, due_in in waits if due_in is not None), default=None))
        return None
