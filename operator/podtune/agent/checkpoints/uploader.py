"""The thread that works in the bucket: checkpoints in, what is not kept any more out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar

from podtune.agent.checkpoints.artifact_keeper import make_keeper
from podtune.agent.event_log import EventLog, LogThrottle
from podtune.agent.settings import Settings
from podtune.agent.state.attempt import Attempt
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.checkpoint_queue import PendingCheckpoint
from podtune.protocol.messages import MAX_REPORTED_MESSAGE, CheckpointCommit, LedgerLine, StoreProblem, ledger_lines
from podtune.storage.backoff import ExponentialBackoff
from podtune.storage.cancel import CancelToken
from podtune.storage.checkpoint.address import CheckpointAddress, TrialAddress
from podtune.storage.checkpoint.content_index import ContentIndex
from podtune.storage.checkpoint.local_cache import LocalCache
from podtune.storage.checkpoint.local_tree import LocalFile, UnusableTree, delete_tree, open_tree
from podtune.storage.checkpoint.manifest import ManifestFile
from podtune.storage.checkpoint.shards import Commit, commit_alone
from podtune.storage.checkpoint.syncer import CheckpointInfo, stored_digest, upload_checkpoint, upload_file
from podtune.storage.cleanup.garbage import GarbageCollector
from podtune.storage.cleanup.prune import abort_uploads
from podtune.storage.errors import StoreError
from podtune.storage.object_store import ObjectStore
from podtune.trial import layout

FIRST_WAIT = 0.5
_LONGEST_WAIT = 15.0
CHECK_WAIT = 5.0
"""Seconds that the first report is waited for before the bucket is looked at."""
LAST_WORD = 1.0
"""Seconds that the operator's answer to the last report is waited for."""
PERMANENT_WAIT = 30.0
"""Seconds until a store is tried again that somebody has to mend first."""
LONGEST_WAIT_ENDING = 5.0
"""Seconds until a store is tried again once the program has ended, for whatever it fails."""

_T = TypeVar("_T")


class Uploader(threading.Thread):
    """Stores one checkpoint after the other, and never gives one up because of the store.

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
        """Prepares the thread.

        Args:
            attempt: What there is to store.
            settings: The attempt, and how things are stored.
            address: Where the trial is in the bucket.
            store: The bucket.
            log: Where to tell of what was stored, and of trouble.
            rng: Source of jitter.
            commit: Makes a checkpoint count once its files are stored.
            is_checked: Whether the store was looked at already.
        """
        super().__init__(name="uploader", daemon=True)
        self._attempt = attempt
        self._attempt_id = settings.attempt
        self._configuration = settings.configuration
        self._directory = settings.directory
        self._sync = settings.sync
        self._options = replace(settings.sync.options, writer=settings.rank)
        self._follows = settings.follows
        """Rank 0 deletes old checkpoints, and does not tell of it: only the newest is sure to be there."""
        self._address = address
        self._store = store
        self._commit = commit
        self._log = log
        self._rng = rng
        self._backoff = ExponentialBackoff(FIRST_WAIT, _LONGEST_WAIT, rng)
        self._failures = LogThrottle()
        self._content_index = ContentIndex(address.prefix)
        self._cache = LocalCache(settings.scratch) if settings.scratch else None
        self._garbage = GarbageCollector(store, address, settings.attempt, self._content_index)
        self._cancel_token = CancelToken(time.monotonic)
        self._artifacts = make_keeper(settings, store, log, ExponentialBackoff(FIRST_WAIT, _LONGEST_WAIT, rng))
        self._stored_here: set[CheckpointAddress] = set()
        self._tried: PendingCheckpoint | None = None
        """The checkpoint that was tried last; what follows is about that one."""
        self._done: dict[LocalFile, ManifestFile] = {}
        """What is stored of it."""
        self._tries = 0
        """How often that has failed."""
        self._collected_for: tuple[str, ...] | None = None
        self._checked = is_checked
        self._cleared = False
        self._ledger_tried = 0
        self._ending = False
        self._when_stored: Callable[[], None] = _do_nothing
        self.is_finished = False

    def when_stored(self, then: Callable[[], None]) -> None:
        """Has this called whenever a checkpoint is stored, before anything else is done: the agent may be killed."""
        with self._attempt.changed:
            self._when_stored = then

    def finish(self) -> None:
        """The program has ended: what waits is stored, and what it has written beside it.

        Where the operator has told it to end, for a pause or for good, nothing but the newest checkpoint is wanted.
        """
        with self._attempt.changed:
            self._ending = True
            if self._attempt.wants["shouldStop"]:
                self.hurry()
            self._attempt.changed.notify_all()

    def hurry(self) -> None:
        """Time is getting short: of the checkpoints that wait only the newest counts; hold `changed`."""
        for given_up in self._attempt.checkpoints.give_up_all_but_newest():
            self._log.warning("checkpoint given up", step=given_up.step, message="the program has ended")

    def cancel(self) -> None:
        """There is no time left: what is being stored in parts is given up."""
        self._cancel_token.cancel()
        with self._attempt.changed:
            self._attempt.changed.notify_all()

    def run(self) -> None:
        """Works until the program has ended and everything is stored, or the attempt is fenced."""
        while True:
            with self._attempt.changed:
                self._attempt.changed.wait_for(self._has_work, self._artifacts.due_in if self._artifacts else None)
                if self._is_over:
                    break
                pending = self._attempt.checkpoints.start() if self._attempt.checkpoints.has_work else None
                decided = self._has_decisions
            if pending is not None:
                self._upload(pending)
            elif not self._checked:
                self._check()
            elif decided:
                self._upload_ledger()
            elif self._artifacts and not self._artifacts.due_in:
                self._artifacts.run(self._is_needed, self._cancel_token)
            elif self._has_garbage:
                self._collect_garbage()
        if not self._attempt.fenced:
            self._upload_history()
            self._upload_rest_of_ledger()
            self._upload_rest_of_artifacts()
            self._collect_last_garbage()
        with self._attempt.changed:
            self.is_finished = True
            self._attempt.changed.notify_all()

    def _has_work(self) -> bool:
        return (
            self._ending
            or self._attempt.fenced
            or not self._checked
            or self._attempt.checkpoints.has_work
            or self._has_decisions
            or self._has_garbage
        )

    @property
    def _is_over(self) -> bool:
        """Whether nothing more is to be stored but what is stored at the end."""
        stored = self._ending and self._attempt.checkpoints.is_stored
        return self._attempt.fenced or stored or self._cancel_token.is_cancelled

    @property
    def _is_pressed(self) -> bool:
        """Whether there is a checkpoint to be stored, which will tell what a check would."""
        return self._attempt.checkpoints.has_work

    def _is_needed(self) -> bool:
        """Whether something else is more urgent than artifacts."""
        with self._attempt.changed:
            return self._ending or self._attempt.fenced or self._attempt.checkpoints.has_work

    @property
    def _has_garbage(self) -> bool:
        """Whether other checkpoints are kept than those that were when old ones were last deleted."""
        return self._attempt.kept != self._collected_for

    @property
    def _has_decisions(self) -> bool:
        """Whether there are decisions that it has not tried to store yet."""
        return self._attempt.last_decision > self._ledger_tried

    def _check(self) -> None:
        """Checks early whether checkpoints can be stored; the first report comes first."""
        with self._attempt.changed:
            self._attempt.changed.wait_for(
                lambda: self._attempt.is_known or self._is_over or self._is_pressed, CHECK_WAIT
            )
            if self._is_over or self._is_pressed:
                return
        try:
            self._store.check()
        except StoreError as error:
            self._report(error)
            self._wait(error.permanent)
            return
        self._checked = True
        self._backoff.reset()
        if self._failures.count:
            self._failures = LogThrottle()
            with self._attempt.changed:
                self._attempt.set_store_problem(None)
                self._attempt.changed.notify_all()

    def _upload(self, pending: PendingCheckpoint) -> None:
        started = time.monotonic()
        if pending is not self._tried:
            self._tried, self._tries, self._done = pending, 0, {}
        address = self._address_of(pending)
        try:
            digest = self._stored(pending, address)
        except StoreError as error:
            self._retry(pending, error)
            return
        except (UnusableTree, OSError) as error:
            self._give_up(pending, error)
            return
        self._checked = True
        self._backoff.reset()
        self._failures = LogThrottle()
        self._stored_here.add(address)
        self._garbage.known.add(address)
        with self._attempt.changed:
            ref = CheckpointRef(address.uri, digest, pending.step)
            self._attempt.commit(CheckpointCommit(ref, pending.seq, pending.metric))
            self._when_stored()
            self._attempt.changed.notify_all()
        seconds = round(time.monotonic() - started, 3)
        self._log.info("checkpoint stored", step=pending.step, uri=address.uri, seconds=seconds)
        self._keep_on_scratch(pending, address)
        self._delete_local(pending)
        if self._artifacts:
            self._artifacts.checkpoint_stored()

    def _retry(self, pending: PendingCheckpoint, error: StoreError) -> None:
        """Has a checkpoint wait for the store, unless it has waited long enough."""
        self._tries += 1
        if self._tries > self._sync.retries:
            self._give_up(pending, error, f"{error} (given up after {self._sync.retries} retries)")
            return
        self._report(error)
        with self._attempt.changed:
            self._attempt.checkpoints.retry()
        self._wait(error.permanent)

    def _address_of(self, pending: PendingCheckpoint) -> CheckpointAddress:
        """Its address in the bucket; a program that counts iterations itself may take two checkpoints at one step."""
        address = self._address.checkpoint(self._attempt_id, str(pending.step))
        with_seq = self._address.checkpoint(self._attempt_id, f"{pending.step}.{pending.seq}")
        return with_seq if address in self._stored_here else address

    def _stored(self, pending: PendingCheckpoint, address: CheckpointAddress) -> str:
        # An agent that was restarted reads of checkpoints that it had stored before. What is committed stays as it is.
        digest = stored_digest(self._store, address)
        if digest is not None:
            self._content_index.load(self._store, address)
            return digest
        self._learn_of_earlier()
        self._cancel_token.set_deadline(self._sync.timeout, "checkpoints.sync.timeout")
        written = "" if pending.metric is None else repr(pending.metric)
        info = CheckpointInfo(
            self._attempt_id, pending.step, pending.step, written, pending.time_total, self._configuration
        )
        with open_tree(self._directory, (layout.CHECKPOINTS, pending.name)) as tree:
            digest = upload_checkpoint(
                self._store,
                tree,
                address,
                info,
                options=self._options,
                content_index=self._content_index,
                cancel_token=self._cancel_token,
                done=self._done,
                commit=self._commit,
            )
        if self._follows:
            self._content_index.forget_all_but(address)
        return digest

    def _learn_of_earlier(self) -> None:
        """Looks up the trial's checkpoints that this process has not stored: what they hold need not be stored again.

        Raises:
            StoreError: The store can't be asked.
        """
        if not self._sync.options.reuses:
            return
        with self._attempt.changed:
            restored = self._attempt.restored
            uris = [*(self._attempt.kept or ()), *([restored.uri] if restored and restored.uri else [])]
        self._garbage.learn(uris)

    def _give_up(self, pending: PendingCheckpoint, error: Exception, why: str = "") -> None:
        message = f"the checkpoint of step {pending.step} can't be stored: {why or error}"
        self._log.error("checkpoint given up", step=pending.step, message=message)
        with self._attempt.changed:
            self._attempt.checkpoints.give_up()
            # Not permanent: the program's next checkpoint may be a good one.
            reason = error.reason if isinstance(error, StoreError) else "UnusableCheckpoint"
            self._attempt.set_store_problem(StoreProblem(reason, message[:MAX_REPORTED_MESSAGE], permanent=False))
            self._attempt.changed.notify_all()
        self._delete_local(pending)

    def _keep_on_scratch(self, pending: PendingCheckpoint, address: CheckpointAddress) -> None:
        """Leaves a copy for the next attempt, where there is a volume that outlives this one."""
        manifest = self._content_index.get(address)
        if self._cache is None or manifest is None:
            return
        cache = self._cache

        def keep() -> int:
            with open_tree(self._directory, (layout.CHECKPOINTS, pending.name)) as tree:
                return cache.keep(tree, manifest)

        self._try(keep, "keep the checkpoint on the scratch volume")

    def _delete_local(self, pending: PendingCheckpoint) -> None:
        try:
            delete_tree(self._directory, (layout.CHECKPOINTS, pending.name))
        except (UnusableTree, OSError) as error:
            self._log.warning(
                "checkpoint stays on disk",
                checkpoint=pending.name,
                message=f"{error}; make its directories writable for everyone, or it takes up space until the end",
            )

    def _collect_last_garbage(self) -> None:
        """Deletes what the last checkpoint has made superfluous, once that is recorded, if it comes soon."""
        with self._attempt.changed:
            if not self._attempt.checkpoints.commits and not self._has_garbage:
                return
            self._attempt.changed.wait_for(
                lambda: self._attempt.fenced or not self._attempt.checkpoints.commits, LAST_WORD
            )
            recorded = not self._attempt.fenced and not self._attempt.checkpoints.commits
        if recorded and self._has_garbage:
            self._collect_garbage()

    def _collect_garbage(self) -> None:
        if not self._cleared:
            self._cleared = True
            aborted = self._try(
                lambda: abort_uploads(self._store, self._address.prefix, spare=self._address.attempt(self._attempt_id)),
                "look for unfinished uploads",
            )
            if aborted:
                self._log.info("unfinished uploads aborted", uploads=aborted)
        with self._attempt.changed:
            kept = self._attempt.kept
            protected = {commit.checkpoint.uri for commit in self._attempt.checkpoints.commits}
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

    def _upload_rest_of_artifacts(self) -> None:
        if self._artifacts and not self._cancel_token.is_cancelled:
            self._artifacts.run(lambda: self._attempt.fenced, self._cancel_token)

    def _upload_rest_of_ledger(self) -> None:
        """Stores what is not stored of the decisions, the operator's last word included if it comes soon."""
        with self._attempt.changed:
            self._attempt.changed.wait_for(lambda: self._attempt.is_informed, LAST_WORD)
            is_stored = self._attempt.last_decision == self._attempt.ledger_stored
        if not is_stored:
            self._upload_ledger()

    def _upload_ledger(self) -> None:
        """Stores all decisions on the trial that are known, as they come: this attempt may end without a last word."""
        with self._attempt.changed:
            entries = tuple(self._attempt.ledger)
        self._ledger_tried = entries[-1].number
        if self._try(lambda: self._put_ledger(entries), "store the ledger"):
            with self._attempt.changed:
                self._attempt.ledger_stored = entries[-1].number

    def _put_ledger(self, entries: Sequence[LedgerLine]) -> bool:
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
        if self._failures.should_log():
            self._log.warning("store problem", reason=error.reason, message=str(error), failures=self._failures.count)
        with self._attempt.changed:
            self._attempt.set_store_problem(
                StoreProblem(error.reason, str(error)[:MAX_REPORTED_MESSAGE], error.permanent)
            )
            self._attempt.changed.notify_all()

    def _wait(self, permanent: bool) -> None:
        """Waits until the store is to be tried again: not long any more once the program has ended."""
        is_ending = self._ending
        is_mended_by_others = permanent and not is_ending
        seconds = self._rng.uniform(PERMANENT_WAIT / 2, PERMANENT_WAIT) if is_mended_by_others else self._backoff.next()
        with self._attempt.changed:
            if is_ending:
                over, seconds = self._cancel_token, min(seconds, LONGEST_WAIT_ENDING)
                self._attempt.changed.wait_for(lambda: self._attempt.fenced or over.is_cancelled, seconds)
            else:
                self._attempt.changed.wait_for(lambda: self._ending or self._attempt.fenced, seconds)


def _do_nothing() -> None:
    """Nobody has to be told of a checkpoint but by reports, as long as the program runs."""
