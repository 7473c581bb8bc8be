"""When artifacts are stored: every so often, after checkpoints, and at the end. One pass at a time, none left out."""

from __future__ import annotations

import time
from collections.abc import Callable

from podtune.agent.event_log import EventLog, LogThrottle
from podtune.agent.results import read_times
from podtune.agent.settings import Settings
from podtune.agent.sync_settings import ArtifactSettings
from podtune.storage.backoff import ExponentialBackoff
from podtune.storage.cancel import CancelToken
from podtune.storage.checkpoint.artifacts import ArtifactSync
from podtune.storage.checkpoint.local_tree import UnusableTree, matcher
from podtune.storage.errors import StoreError
from podtune.storage.object_store import ObjectStore
from podtune.trial import layout

OWN = frozenset(
    {
        layout.PARAMETERS,
        layout.RESULTS,
        layout.CHECKPOINTS,
        layout.RESTORED,
        layout.RESTORE_INFO,
        layout.CONTROL,
        read_times.FILE,
    }
)
"""What the shared directory holds besides the program's own files."""

_TEMPORARY = tuple(f".{name}" for name in OWN)


class ArtifactKeeper:
    """Decides when a pass is due. For one thread.

    Artifacts never hold up checkpoints: a pass leaves off when there is one, and goes on after it. One that fails is
    tried again after a while, which grows up to the period.
    """

    def __init__(
        self,
        settings: ArtifactSettings,
        sync: ArtifactSync,
        log: EventLog,
        *,
        backoff: ExponentialBackoff,
        timeout: float,
    ) -> None:
        """Waits for the first period.

        Args:
            settings: How often.
            sync: Stores what has changed.
            log: Where to tell of what was stored, and of trouble.
            backoff: Waits after a failure.
            timeout: Seconds that a pass may take.
        """
        self._settings = settings
        self._sync = sync
        self._log = log
        self._backoff = backoff
        self._timeout = timeout
        self._due_at = time.monotonic() + settings.period
        self._failures = LogThrottle()
        self._problems: tuple[str, ...] = ()

    @property
    def due_in(self) -> float:
        """Seconds until the next pass; 0 when it is due."""
        return max(0.0, self._due_at - time.monotonic())

    def checkpoint_stored(self) -> None:
        """Makes a pass due, where that is wanted after checkpoints."""
        if self._settings.on_checkpoint:
            self._due_at = time.monotonic()

    def run(self, leave_off: Callable[[], bool], cancel_token: CancelToken) -> bool:
        """Makes a pass; returns whether everything that has changed is stored."""
        cancel_token.set_deadline(self._timeout, "checkpoints.sync.timeout")
        try:
            done = self._sync.run(leave_off, cancel_token.check)
        except (StoreError, UnusableTree, OSError) as error:
            if self._failures.should_log():
                self._log.warning("artifacts not stored", message=str(error), failures=self._failures.count)
            self._due_at = time.monotonic() + min(self._settings.period, self._backoff.next())
            return False
        self._backoff.reset()
        self._failures = LogThrottle()
        if done.files:
            self._log.info("artifacts stored", files=done.files, bytes=done.size, complete=done.is_complete)
        if done.problems and done.problems != self._problems:
            self._log.warning("artifacts passed over", message=done.problems[0], files=len(done.problems))
        self._problems = done.problems
        self._due_at = time.monotonic() + (self._settings.period if done.is_complete else 0.0)
        return done.is_complete


def make_keeper(
    settings: Settings, store: ObjectStore, log: EventLog, backoff: ExponentialBackoff
) -> ArtifactKeeper | None:
    """The keeper of an attempt's artifacts; None where none are to be kept."""
    wanted = settings.sync.artifacts
    if wanted is None or settings.store is None:
        return None
    excluded = matcher(wanted.exclude)
    sync = ArtifactSync(
        store,
        settings.store,
        settings.attempt,
        settings.directory,
        matcher(wanted.include),
        skipped=lambda path: _is_own(path) or excluded(path),
    )
    return ArtifactKeeper(wanted, sync, log, backoff=backoff, timeout=settings.sync.timeout)


def _is_own(path: str) -> bool:
    """Whether it is one of ours, or about to become one: these are written under another name first."""
    return path in OWN or path.startswith(_TEMPORARY)
