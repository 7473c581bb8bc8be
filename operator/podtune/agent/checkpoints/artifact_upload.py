"""When artifacts are stored: periodically, after checkpoints, and at the end, one pass at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

from podtune.agent.checkpoints.store_retry import make_backoff
from podtune.agent.checkpoints.upload_task import TaskContext, UploadTask
from podtune.agent.event_log import LogThrottle
from podtune.agent.results import read_times
from podtune.agent.sync_settings import ArtifactSettings
from podtune.storage.backoff import ExponentialBackoff
from podtune.storage.checkpoint.artifacts import ArtifactSync
from podtune.storage.checkpoint.local_tree import UnusableTree, build_matcher
from podtune.storage.errors import StoreError
from podtune.trial import layout

OWN = frozenset(
    {
        layout.PARAMETERS,
        layout.RESULTS,
        layout.CHECKPOINTS,
        layout.RESTORED,
        layout.RESTORE_INFO,
        layout.CONTROL,
        layout.ENDPOINT_TOKEN,
        layout.SITE_PACKAGES,
        read_times.FILE,
    }
)
"""What the shared directory holds besides the program's own files."""

_TEMPORARY = tuple(f".{name}" for name in OWN)


class ArtifactUpload(UploadTask):
    """Stores artifacts periodically, without delaying checkpoints.

    A pass stops when there is a checkpoint, and continues after it. A failed pass is retried after a delay that grows
    up to the period.
    """

    def __init__(
        self, context: TaskContext, settings: ArtifactSettings, sync: ArtifactSync, backoff: ExponentialBackoff
    ) -> None:
        self._attempt = context.attempt
        self._shutdown = context.shutdown
        self._timeout = context.settings.sync.timeout
        self._log = context.log
        self._settings = settings
        self._sync = sync
        self._backoff = backoff
        self._due_at = time.monotonic() + settings.period
        self._failures = LogThrottle()
        self._problems: tuple[str, ...] = ()

    @property
    def due_in(self) -> float | None:
        """See `UploadTask.due_in`."""
        return max(0.0, self._due_at - time.monotonic())

    def on_checkpoint_stored(self) -> None:
        """Makes a pass due, where that is wanted after checkpoints."""
        if self._settings.on_checkpoint:
            self._due_at = time.monotonic()

    def run(self) -> None:
        """Makes a pass, until something is more urgent."""
        self._make_pass(self._shutdown.is_urgent)

    def finish(self) -> None:
        """Stores what has changed since the last pass, while there is time."""
        if not self._shutdown.cancel_token.is_cancelled:
            self._make_pass(self._is_fenced)

    def _is_fenced(self) -> bool:
        return self._attempt.fenced

    def _make_pass(self, leave_off: Callable[[], bool]) -> None:
        cancel_token = self._shutdown.cancel_token
        cancel_token.set_deadline(self._timeout, "checkpoints.sync.timeout")
        try:
            done = self._sync.run(leave_off, cancel_token.check)
        except (StoreError, UnusableTree, OSError) as error:
            if self._failures.should_log():
                self._log.warning("artifacts not stored", message=str(error), times=self._failures.count)
            self._due_at = time.monotonic() + min(self._settings.period, self._backoff.draw_wait())
            return
        self._backoff.reset()
        self._failures = LogThrottle()
        if done.files:
            self._log.info("artifacts stored", files=done.files, bytes=done.size, complete=done.is_complete)
        if done.problems and done.problems != self._problems:
            self._log.warning("artifacts passed over", message=done.problems[0], files=len(done.problems))
        self._problems = done.problems
        self._due_at = time.monotonic() + (self._settings.period if done.is_complete else 0.0)


def make_artifact_upload(context: TaskContext, rng: Random) -> ArtifactUpload | None:
    """The upload of an attempt's artifacts; None if none are kept."""
    settings = context.settings
    wanted = settings.sync.artifacts
    if wanted is None:
        return None
    excluded = build_matcher(wanted.exclude)
    sync = ArtifactSync(
        context.store,
        context.address,
        settings.attempt,
        settings.directory,
        build_matcher(wanted.include),
        skipped=lambda path: _is_own(path) or excluded(path),
    )
    return ArtifactUpload(context, wanted, sync, make_backoff(rng))


def _is_own(path: str) -> bool:
    """Whether it is one of ours, or about to become one: these are written under another name first."""
    return path in OWN or path.startswith(_TEMPORARY)
