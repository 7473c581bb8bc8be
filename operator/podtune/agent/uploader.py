"""The thread that works in the bucket: checkpoints in, what is not kept any more out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TypeVar

from podtune.agent.attempt import Attempt
from podtune.agent.checkpoint_queue import PendingCheckpoint
from podtune.agent.event_log import EventLog, Repeated
from podtune.protocol.messages import MAX_MESSAGE, CheckpointCommit, LedgerEntry, StoreProblem, ledger_lines
from podtune.storage.address import CheckpointAddress, TrialAddress
from podtune.storage.backoff import Backoff
from podtune.storage.errors import StoreError
from podtune.storage.garbage import GarbageCollector
from podtune.storage.local_tree import MissingTree, UnusableTree, delete_tree, open_tree
from podtune.storage.object_store import ObjectStore
from podtune.storage.parts import Commit, commit_alone
from podtune.storage.syncer import Taken, stored_digest, upload_checkpoint, upload_file
from podtune.trial import layout

FIRST_WAIT = 0.5
LONGEST_WAIT = 15.0
LAST_WORD = 1.0
"""Seconds that the operator's answer to the last report is waited for."""
PERMANENT_WAIT = 30.0
"""Seconds until a store is tried again that somebody has to mend first."""

_T = TypeVar("_T")


class Uploader(threading.Thread):
    """Stores one checkpoint after the other, and never gives one up because of the store.

    Attributes:
        is_finished: Whether all that could be done after the program's end has been done; use it with `changed` held.
    """

    def __init__(
        self,
        attempt: Attempt,
        changed: threading.Condition,
        *,
        attempt_id: str,
        directory: Path,
        address: TrialAddress,
        store: ObjectStore,
        log: EventLog,
        rng: Random,
        commit: Commit = commit_alone,
    ) -> None:
        """Prepares the thread.

        Args:
            attempt: What there is to store; used only with `changed` held.
            changed: Guards `attempt` and `is_finished`.
            attempt_id: The attempt's id.
            directory: The directory shared with the training program.
            address: Place of the trial in the bucket.
            store: The bucket.
            log: Where to tell of what was stored, and of trouble.
            rng: Source of jitter.
            commit: Makes a checkpoint count once its files are stored.
        """
        super().__init__(name="uploader", daemon=True)
        self._attempt = attempt
        self._changed = changed
        self._attempt_id = attempt_id
        self._directory = directory
        self._address = address
        self._store = store
        self._commit = commit
        self._log = log
        self._rng = rng
        self._backoff = Backoff(FIRST_WAIT, LONGEST_WAIT, rng)
        self._failures = Repeated()
        self._garbage = GarbageCollector(store, address, attempt_id)
        self._collected_for: tuple[str, ...] | None = None
        self._checked = False
        self._ledger_tried = 0
        self._ending = False
        self.is_finished = False

    def finish(self) -> None:
        """The program has ended: the newest checkpoint counts now, and what it has written is stored beside it."""
        with self._changed:
            self._ending = True
            for given_up in self._attempt.checkpoints.give_up_all_but_newest():
                self._log.warning("checkpoint given up", step=given_up.step, message="the program has ended")
            self._changed.notify_all()

    def run(self) -> None:
        """Works until the program has ended and everything is stored, or the attempt is fenced."""
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work)
                if self._attempt.fenced or (self._ending and self._attempt.checkpoints.is_stored):
                    break
                pending = self._attempt.checkpoints.start() if self._attempt.checkpoints.has_work else None
                decided = self._has_decisions
            if pending is not None:
                self._upload(pending)
            elif not self._checked:
                self._check()
            elif decided:
                self._upload_ledger()
            else:
                self._collect_garbage()
        if not self._attempt.fenced:
            self._upload_history()
            self._upload_rest_of_ledger()
        with self._changed:
            self.is_finished = True
            self._changed.notify_all()

    def _has_work(self) -> bool:
        return (
            self._ending
            or self._attempt.fenced
            or not self._checked
            or self._attempt.checkpoints.has_work
            or self._has_decisions
            or self._attempt.kept != self._collected_for
        )

    @property
    def _has_decisions(self) -> bool:
        """Whether there are decisions that it has not tried to store yet."""
        return self._attempt.last_decision > self._ledger_tried

    def _check(self) -> None:
        """Finds out early whether there will be a place for checkpoints."""
        try:
            self._store.check()
        except StoreError as error:
            self._report(error)
            self._wait(error.permanent)
            return
        self._checked = True
        self._backoff.reset()
        if self._failures.count:
            self._failures = Repeated()
            with self._changed:
                self._attempt.set_store_problem(None)
                self._changed.notify_all()

    def _upload(self, pending: PendingCheckpoint) -> None:
        started = time.monotonic()
        address = self._address_of(pending)
        try:
            digest = self._stored(pending, address)
        except StoreError as error:
            self._report(error)
            with self._changed:
                if self._ending and error.permanent:  # nobody is going to mend it in the seconds that are left
                    self._attempt.checkpoints.give_up()
                    return
                self._attempt.checkpoints.retry()
            self._wait(error.permanent)
            return
        except (UnusableTree, OSError) as error:
            self._give_up(pending, error)
            return
        self._checked = True
        self._backoff.reset()
        self._failures = Repeated()
        self._garbage.known.add(address)
        with self._changed:
            self._attempt.commit(CheckpointCommit(pending.step, pending.seq, address.uri, digest))
            self._changed.notify_all()
        seconds = round(time.monotonic() - started, 3)
        self._log.info("checkpoint stored", step=pending.step, uri=address.uri, seconds=seconds)
        self._delete_local(pending)

    def _address_of(self, pending: PendingCheckpoint) -> CheckpointAddress:
        """Its place in the bucket; a program that counts iterations itself may take two checkpoints at one step."""
        address = self._address.checkpoint(self._attempt_id, str(pending.step))
        with_seq = self._address.checkpoint(self._attempt_id, f"{pending.step}.{pending.seq}")
        return with_seq if address in self._garbage.known else address

    def _stored(self, pending: PendingCheckpoint, address: CheckpointAddress) -> str:
        taken = Taken(self._attempt_id, step=pending.step, iteration=pending.step, metric=pending.metric)
        try:
            with open_tree(self._directory, (layout.CHECKPOINTS, pending.name)) as tree:
                return upload_checkpoint(self._store, tree, address, taken, commit=self._commit)
        except MissingTree:
            # An agent that was restarted reads of checkpoints that it had stored, and deleted here, before.
            digest = stored_digest(self._store, address)
            if digest is None:
                raise
            return digest

    def _give_up(self, pending: PendingCheckpoint, error: Exception) -> None:
        message = f"the checkpoint of step {pending.step} can't be stored: {error}"
        self._log.error("checkpoint given up", step=pending.step, message=message)
        with self._changed:
            self._attempt.checkpoints.give_up()
            # Not permanent: the program's next checkpoint may be a good one.
            self._attempt.set_store_problem(StoreProblem("UnusableCheckpoint", message[:MAX_MESSAGE], permanent=False))
            self._changed.notify_all()
        self._delete_local(pending)

    def _delete_local(self, pending: PendingCheckpoint) -> None:
        try:
            delete_tree(self._directory, (layout.CHECKPOINTS, pending.name))
        except (UnusableTree, OSError) as error:
            self._log.warning(
                "checkpoint stays on disk",
                checkpoint=pending.name,
                message=f"{error}; make its directories writable for everyone, or it takes up space until the end",
            )

    def _collect_garbage(self) -> None:
        with self._changed:
            kept = self._attempt.kept
            protected = {commit.uri for commit in self._attempt.checkpoints.commits}
        deleted = self._try(lambda: self._garbage.collect(kept or (), protected), "delete old checkpoints")
        self._collected_for = kept
        if deleted:
            self._log.info("checkpoints deleted", uris=deleted)

    def _upload_history(self) -> None:
        def upload() -> None:
            with open_tree(self._directory, ()) as tree:
                upload_file(self._store, tree, layout.RESULTS, self._address.history(self._attempt_id))

        if self._attempt.outbox.last_seq:
            self._try(upload, "store the results' history")

    def _upload_rest_of_ledger(self) -> None:
        """Stores what is not stored of the decisions, the operator's last word included if it comes soon."""
        with self._changed:
            self._changed.wait_for(lambda: self._attempt.is_informed, LAST_WORD)
            is_stored = self._attempt.last_decision == self._attempt.ledger_stored
        if not is_stored:
            self._upload_ledger()

    def _upload_ledger(self) -> None:
        """Stores all decisions on the trial that are known, as they come: this attempt may end without a last word."""
        with self._changed:
            entries = tuple(self._attempt.ledger)
        self._ledger_tried = entries[-1].number
        if self._try(lambda: self._put_ledger(entries), "store the ledger"):
            with self._changed:
                self._attempt.ledger_stored = entries[-1].number

    def _put_ledger(self, entries: Sequence[LedgerEntry]) -> bool:
        self._store.put_bytes(self._address.ledger(self._attempt_id), ledger_lines(entries))
        return True

    def _try(self, action: Callable[[], _T], doing: str) -> _T | None:
        """Does once what can be done without: that it has failed is told, but no reason to call the store unusable."""
        try:
            return action()
        except (StoreError, UnusableTree, OSError) as error:
            self._log.warning(f"can't {doing}", message=str(error))
        return None

    def _report(self, error: StoreError) -> None:
        if self._failures.is_worth_saying():
            self._log.warning("store problem", reason=error.reason, message=str(error), failures=self._failures.count)
        with self._changed:
            self._attempt.set_store_problem(StoreProblem(error.reason, str(error)[:MAX_MESSAGE], error.permanent))
            self._changed.notify_all()

    def _wait(self, permanent: bool) -> None:
        """Waits until the store is to be tried again: not long any more once the program has ended."""
        seconds = self._rng.uniform(PERMANENT_WAIT / 2, PERMANENT_WAIT) if permanent else self._backoff.next()
        with self._changed:
            if self._ending:
                self._changed.wait_for(lambda: self._attempt.fenced, min(seconds, FIRST_WAIT))
            else:
                self._changed.wait_for(lambda: self._ending or self._attempt.fenced, seconds)
