"""Stores one checkpoint after the other, and gives one up because of the store only after all its retries."""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from podtune.agent.checkpoints.artifact_upload import ArtifactUpload
from podtune.agent.checkpoints.store_retry import StoreRetry, warn_of_failure
from podtune.agent.checkpoints.upload_task import TaskContext, UploadTask
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.checkpoint_queue import PendingCheckpoint
from podtune.protocol.messages import MAX_REPORTED_MESSAGE, CheckpointCommit, StoreProblem
from podtune.storage.cancel import CancelToken
from podtune.storage.checkpoint.address import CheckpointAddress
from podtune.storage.checkpoint.content_index import ContentIndex
from podtune.storage.checkpoint.local_cache import LocalCache
from podtune.storage.checkpoint.local_tree import LocalFile, UnusableTree, delete_tree, open_tree
from podtune.storage.checkpoint.manifest import CheckpointManifest, ManifestFile
from podtune.storage.checkpoint.shards import Commit
from podtune.storage.checkpoint.syncer import CheckpointInfo, read_stored_digest, upload_checkpoint
from podtune.storage.cleanup.garbage import GarbageCollector
from podtune.storage.errors import StoreError, TimedOut
from podtune.storage.object_store import ObjectStore
from podtune.trial import layout


@dataclass(slots=True)
class _Progress:
    """How far the upload of a checkpoint has come."""

    pending: PendingCheckpoint
    failures: int = 0
    done: dict[LocalFile, ManifestFile] = field(default_factory=dict)


class _StepSet:
    """Steps, eight bytes each: an attempt may store hundreds of thousands of checkpoints; a set takes ten times that.

    Steps usually rise, so that adding one moves none of the others.
    """

    def __init__(self) -> None:
        self._steps = array("q")

    def add(self, step: int) -> None:
        if step not in self:
            insort(self._steps, step)

    def __contains__(self, step: int) -> bool:
        place = bisect_left(self._steps, step)
        return place < len(self._steps) and self._steps[place] == step


class _UploadCancelToken(CancelToken):
    """Cancels a checkpoint with all else, and as soon as the operator says that none is kept."""

    def __init__(self, context: TaskContext) -> None:
        super().__init__(time.monotonic)
        self._attempt = context.attempt
        self._of_all = context.shutdown.cancel_token

    def check(self) -> None:
        """See `CancelToken.check`."""
        self.check_kept()
        if self._of_all.is_cancelled:
            self.cancel()
        super().check()

    def check_kept(self) -> None:
        """Asks whether to go on, no matter how long it has taken.

        Raises:
            TimedOut: None is kept.
        """
        if self._attempt.discards:
            raise TimedOut("no checkpoint of the trial is kept")


class CheckpointUpload(UploadTask):
    """Takes checkpoints from the attempt's queue into the bucket, the oldest first."""

    def __init__(
        self,
        context: TaskContext,
        retry: StoreRetry,
        content_index: ContentIndex,
        collector: GarbageCollector,
        *,
        commit: Commit,
        artifacts: ArtifactUpload | None,
    ) -> None:
        settings = context.settings
        self._attempt = context.attempt
        self._settings = settings
        self._options = replace(settings.sync.options, writer=settings.rank)
        self._address = context.address
        self._store = context.store
        self._log = context.log
        self._shutdown = context.shutdown
        self._cancel_token = _UploadCancelToken(context)
        self._retry = retry
        self._content_index = content_index
        self._collector = collector
        self._commit = commit
        self._artifacts = artifacts
        self._cache = LocalCache(settings.scratch) if settings.scratch else None
        self._stored_steps = _StepSet()
        self._progress: _Progress | None = None
        """That of the checkpoint that was tried last."""
        self._when_stored: Callable[[], None] | None = None

    @property
    def due_in(self) -> float | None:
        """See `UploadTask.due_in`."""
        return 0.0 if self._attempt.checkpoints.has_work else None

    def call_when_stored(self, then: Callable[[], None]) -> None:
        """See `Uploader.call_when_stored`."""
        with self._attempt.changed:
            self._when_stored = then

    def give_up_all_but_newest(self) -> None:
        """Time is getting short: of the checkpoints that wait only the newest counts; hold `changed`."""
        for given_up in self._attempt.checkpoints.give_up_all_but_newest():
            self._log.warning("checkpoint given up", step=given_up.step, message="the program has ended")

    def run(self) -> None:
        """Tries to store the oldest checkpoint that waits; where the store fails, waits before the next try."""
        started = time.monotonic()
        with self._attempt.changed:
            pending = self._attempt.checkpoints.start()
        if self._progress is None or self._progress.pending is not pending:
            self._progress = _Progress(pending)
        address = self._build_address(pending)
        try:
            digest = self._upload(self._progress, address)
        except StoreError as error:
            if self._attempt.discards:
                self._discard(pending)
            else:
                self._try_again(self._progress, error)
        except (UnusableTree, OSError) as error:
            self._give_up(pending, "UnusableCheckpoint", str(error))
        else:
            self._record(pending, address, digest)
            seconds = round(time.monotonic() - started, 3)
            self._log.info("checkpoint stored", step=pending.step, uri=address.uri, seconds=seconds)
            self._keep_on_scratch(pending, address)
            self._delete_local(pending)
            if self._artifacts:
                self._artifacts.on_checkpoint_stored()

    def _build_address(self, pending: PendingCheckpoint) -> CheckpointAddress:
        """Its address in the bucket; a program that counts iterations itself may take two checkpoints at one step."""
        is_second = pending.step in self._stored_steps
        name = f"{pending.step}.{pending.seq}" if is_second else str(pending.step)
        return self._address.checkpoint(self._settings.attempt, name)

    def _upload(self, progress: _Progress, address: CheckpointAddress) -> str:
        """Stores what is not stored of it yet; returns its digest."""
        # An agent that was restarted reads of checkpoints that it had stored before. What is committed stays as it is.
        digest = read_stored_digest(self._store, address)
        if digest is not None:
            self._content_index.load(self._store, address)
            return digest
        self._learn_of_earlier()
        self._cancel_token.set_deadline(self._settings.sync.timeout, "checkpoints.sync.timeout")
        with open_tree(self._settings.directory, (layout.CHECKPOINTS, progress.pending.name)) as tree:
            digest = upload_checkpoint(
                self._store,
                tree,
                address,
                self._build_info(progress.pending),
                options=self._options,
                content_index=self._content_index,
                cancel_token=self._cancel_token,
                done=progress.done,
                commit=self._commit_if_kept,
            )
        if self._settings.follows:
            # Rank 0 deletes old checkpoints, and does not tell of it: only the newest is sure to be there.
            self._content_index.forget_all_but(address)
        return digest

    def _build_info(self, pending: PendingCheckpoint) -> CheckpointInfo:
        metric = "" if pending.metric is None else repr(pending.metric)
        attempt, configuration = self._settings.attempt, self._settings.configuration
        return CheckpointInfo(attempt, pending.step, pending.step, metric, pending.time_total, configuration)

    def _learn_of_earlier(self) -> None:
        """Looks up the trial's checkpoints that this process has not stored: what they hold need not be stored again.

        Raises:
            StoreError: The store can't be asked.
        """
        if not self._options.reuses:
            return
        with self._attempt.changed:
            restored = self._attempt.restored
            uris = [*(self._attempt.kept or ()), *([restored.uri] if restored and restored.uri else [])]
        self._collector.learn(uris)

    def _record(self, pending: PendingCheckpoint, address: CheckpointAddress, digest: str) -> None:
        """Has the operator told that it is stored, and first of all writes it down: the agent may be killed."""
        self._stored_steps.add(pending.step)
        self._collector.known.add(address)
        with self._attempt.changed:
            ref = CheckpointRef(address.uri, digest, pending.step)
            self._attempt.commit(CheckpointCommit(ref, pending.seq, pending.metric))
            if self._when_stored:
                self._when_stored()
            self._attempt.changed.notify_all()
        self._retry.record_success()

    def _try_again(self, progress: _Progress, error: StoreError) -> None:
        """Has it wait for the store, unless it has waited long enough."""
        progress.failures += 1
        retries = self._settings.sync.retries
        if progress.failures > retries:
            self._give_up(progress.pending, error.reason, f"{error} (given up after {retries} retries)")
            with self._attempt.changed:
                if not self._shutdown.has_begun:
                    self._retry.wait(error)  # or the next failure would take its place before the operator is told
            return
        with self._attempt.changed:
            self._attempt.checkpoints.retry()
        self._retry.back_off(error)

    def _give_up(self, pending: PendingCheckpoint, reason: str, why: str) -> None:
        message = f"the checkpoint of step {pending.step} can't be stored: {why}"
        self._log.error("checkpoint given up", step=pending.step, message=message)
        with self._attempt.changed:
            self._attempt.checkpoints.give_up()
            # Not permanent: the program's next checkpoint may be a good one.
            self._attempt.set_store_problem(StoreProblem(reason, message[:MAX_REPORTED_MESSAGE], permanent=False))
            self._attempt.changed.notify_all()
        self._delete_local(pending)

    def _commit_if_kept(
        self, store: ObjectStore, address: CheckpointAddress, manifest: CheckpointManifest
    ) -> CheckpointManifest:
        """Stores the manifest, unless the operator has said meanwhile that none is kept."""
        self._cancel_token.check_kept()
        return self._commit(store, address, manifest)

    def _discard(self, pending: PendingCheckpoint) -> None:
        """Leaves a checkpoint alone that was on its way when the operator said that none is kept."""
        self._log.info("checkpoint discarded", step=pending.step)
        with self._attempt.changed:
            self._attempt.checkpoints.give_up()
            self._attempt.changed.notify_all()
        self._delete_local(pending)

    def _keep_on_scratch(self, pending: PendingCheckpoint, address: CheckpointAddress) -> None:
        """Leaves a copy for the next attempt, where there is a volume that outlives this one."""
        manifest = self._content_index.get(address)
        if self._cache is None or manifest is None:
            return
        with (
            warn_of_failure(self._log, "checkpoint not kept on the scratch volume"),
            open_tree(self._settings.directory, (layout.CHECKPOINTS, pending.name)) as tree,
        ):
            self._cache.keep(tree, manifest)

    def _delete_local(self, pending: PendingCheckpoint) -> None:
        try:
            delete_tree(self._settings.directory, (layout.CHECKPOINTS, pending.name))
        except (UnusableTree, OSError) as error:
            self._log.warning(
                "checkpoint stays on disk",
                checkpoint=pending.name,
                message=f"{error}; make its directories writable for everyone, or it takes up space until the end",
            )
