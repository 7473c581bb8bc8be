"""Getting a checkpoint back: only whole, and if not this one, then the one before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from podtune.protocol.checkpoint import CheckpointRef
from podtune.storage.address import StoreAddress
from podtune.storage.backoff import ExponentialBackoff
from podtune.storage.checkpoint.address import MANIFEST, CheckpointAddress, TrialAddress, parse_checkpoint_uri
from podtune.storage.checkpoint.download import CheckpointTooLarge, CorruptCheckpoint, Download, LocalSource
from podtune.storage.checkpoint.manifest import (
    MAX_MANIFEST_BYTES,
    CheckpointManifest,
    InvalidManifest,
    digest_of,
    parse_manifest,
)
from podtune.storage.directory import Directory
from podtune.storage.errors import (
    AccessDenied,
    BucketNotFound,
    InvalidCredentials,
    NotFound,
    StoreError,
    TimedOut,
    Unreachable,
)
from podtune.storage.object_store import ReadableStore

MAX_LOOKED_AT = 100
"""How many manifests are read, those of the highest steps; a trial keeps at most 40 checkpoints."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RestoreOutcome:
    """What came of a restore.

    Attributes:
        checkpoint: What was restored; None for a fresh start.
        manifest: Its manifest.
        message: What went wrong on the way; empty when nothing did.
        local_bytes: How much of it did not have to come from the bucket.
    """

    checkpoint: CheckpointRef | None
    manifest: CheckpointManifest | None
    message: str
    local_bytes: int = 0


class Restorer:
    """Restores the first of several checkpoints that is whole.

    A store that does not answer is asked again until patience is at an end, and then that is an error: what it holds
    may be whole, and going on from less would throw it away. The same holds where the store refuses our credentials.
    What is missing or damaged stays so: then the next one is tried, and after the last a fresh start is the outcome.
    The next one is also tried where a single checkpoint may not be read, or is too large for the disk, but a fresh
    start would throw that one away.
    """

    def __init__(
        self,
        store: ReadableStore,
        address: StoreAddress,
        *,
        backoff: ExponentialBackoff,
        patience: float,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        local: LocalSource | None = None,
        timeout: float = float("inf"),
    ) -> None:
        """Prepares a restore.

        Args:
            store: Where the checkpoints are.
            address: The store's address: what is elsewhere can't be reached through it.
            backoff: Waits between two tries.
            patience: Seconds after which a store that does not answer is given up.
            clock: Monotonic time in seconds.
            sleep: Waits.
            local: Where files may be had without the store.
            timeout: Seconds that the restore may take in all.
        """
        self._store = store
        self._address = address
        self._backoff = backoff
        self._give_up_at = clock() + patience
        self._end = clock() + timeout
        self._timeout = timeout
        self._clock = clock
        self._sleep = sleep
        self._local = local

    def find(self, trial: TrialAddress, configuration: str) -> tuple[CheckpointRef, ...]:
        """Finds what a trial may go on from that no record tells of; see `find_checkpoints`.

        Raises:
            StoreError: The store does not answer, or does not let us look.
        """
        return self._try_patiently(lambda: find_checkpoints(self._store, trial, configuration))

    def restore(self, candidates: Sequence[CheckpointRef], parent: Directory, name: str) -> RestoreOutcome:
        """Restores into a directory that is there afterwards only if something was restored.

        Args:
            candidates: The one to try first at the front.
            parent: Where the directory lies.
            name: What it is called. It does not have to exist; what it holds is deleted.

        Raises:
            OSError: Files can't be written here, or there is no room for any of the checkpoints.
            StoreError: The store does not answer, or not in time, or does not let us read what may be whole.
        """
        problems: list[str] = []
        kept_from: AccessDenied | CheckpointTooLarge | None = None
        for candidate in candidates:
            parent.remove(name)
            try:
                download = self._restore_one(candidate, parent, name)
            except (CorruptCheckpoint, InvalidManifest, StoreError, OSError) as error:
                if not _is_of_the_checkpoint(error):
                    raise
                if isinstance(error, AccessDenied | CheckpointTooLarge):
                    kept_from = error
                problems.append(f"step {candidate.step} was not restored: {error}")
                continue
            return RestoreOutcome(candidate, download.manifest, "; ".join(problems), download.local_bytes)
        parent.remove(name)
        if kept_from is not None:
            raise kept_from
        return RestoreOutcome(None, None, "; ".join(problems))

    def _restore_one(self, candidate: CheckpointRef, parent: Directory, name: str) -> Download:
        address = parse_checkpoint_uri(self._address, candidate.uri)
        manifest = self._try_patiently(lambda: self._fetch_manifest(candidate, address))
        unfinished = f".{name}"
        parent.remove(unfinished)
        target = parent.join(unfinished)
        download = Download(self._store, address, manifest, target, local=self._local, checked=self._check)
        try:
            self._try_patiently(download.run)
            parent.rename(unfinished, name)
        finally:
            parent.remove(unfinished)
        return download

    def _fetch_manifest(self, candidate: CheckpointRef, address: CheckpointAddress) -> CheckpointManifest:
        try:
            data = self._store.get_bytes(address.manifest, MAX_MANIFEST_BYTES)
        except NotFound as error:
            raise CorruptCheckpoint("its manifest is missing") from error
        if digest_of(data) != candidate.digest:
            raise CorruptCheckpoint(f"its manifest is not the one that was committed: {digest_of(data)}")
        return parse_manifest(data)

    def _check(self) -> None:
        if self._clock() > self._end:
            raise TimedOut(f"it took longer than checkpoints.sync.timeout of {self._timeout:g} s; raise it")

    def _try_patiently(self, attempt: Callable[[], _T]) -> _T:
        while True:
            try:
                return attempt()
            except Unreachable:
                wait_for = self._backoff.draw_wait()
                if self._clock() + wait_for > self._give_up_at:
                    raise
                self._sleep(wait_for)


def _is_of_the_checkpoint(error: Exception) -> bool:
    """Whether it speaks of one checkpoint alone, and will be the same at another time, and on most other nodes."""
    if isinstance(error, CheckpointTooLarge):
        return True
    if isinstance(error, InvalidCredentials | BucketNotFound | OSError):
        return False
    return not isinstance(error, StoreError) or error.permanent


def find_checkpoints(store: ReadableStore, trial: TrialAddress, configuration: str) -> tuple[CheckpointRef, ...]:
    """Finds the checkpoints of a trial that were taken with a configuration, where no record of them is left.

    The trial's prefix holds the experiment's UID, so nothing is found that an earlier experiment of the same name has
    left. Below it the manifests say what each checkpoint was trained with.

    A manifest that does not say what its checkpoint was taken with fits no configuration, nor does one that can't be
    read.

    Args:
        store: The bucket.
        trial: The trial's address in it.
        configuration: Digest of what the trial trains with; nothing is found where it is empty.

    Returns:
        What was found: the one that has come furthest first, of several that have come as far the newest.

    Raises:
        StoreError: The store can't be asked now, or at all.
    """
    if not configuration:
        return ()
    found: list[tuple[CheckpointManifest, CheckpointRef]] = []
    for address in _list_addresses(store, trial):
        try:
            data = store.get_bytes(address.manifest, MAX_MANIFEST_BYTES)
            manifest = parse_manifest(data)
        except (NotFound, InvalidManifest):
            continue  # it goes at this moment, or is none
        if manifest.configuration == configuration:
            found.append((manifest, CheckpointRef(address.uri, digest_of(data), manifest.step)))
    found.sort(key=lambda pair: (pair[0].iteration, pair[0].created), reverse=True)
    return tuple(candidate for _, candidate in found)


def _list_addresses(store: ReadableStore, trial: TrialAddress) -> list[CheckpointAddress]:
    """The addresses of the checkpoints of the highest steps."""
    addresses = []
    for key in store.list(trial.prefix):
        attempt, _, rest = key.removeprefix(trial.prefix).partition("/")
        step, _, what = rest.partition("/")
        address = CheckpointAddress(trial.store.uri, f"{trial.prefix}{attempt}/{step}")
        if what == MANIFEST and address.step >= 0:
            addresses.append(address)
    return sorted(addresses, key=lambda address: address.step, reverse=True)[:MAX_LOOKED_AT]
