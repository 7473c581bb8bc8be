"""The restore container: puts the checkpoint in place before the program starts and continues from it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from random import Random

from podtune.agent.event_log import EventLog
from podtune.agent.settings import AgentSettingsError, Settings
from podtune.agent.state.restore_info import RestoreInfo
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.messages import MAX_REPORTED_MESSAGE, NOT_RESTORABLE, Restored
from podtune.storage.address import StoreAddress
from podtune.storage.backoff import ExponentialBackoff
from podtune.storage.checkpoint.local_cache import LocalCache
from podtune.storage.checkpoint.restore import RestoreOutcome, Restorer
from podtune.storage.errors import StoreError
from podtune.storage.object_store import ObjectStore
from podtune.storage.stores import make_store
from podtune.trial import layout

RESTORE_PATIENCE = 120.0
"""Seconds that a store that does not answer is waited for."""
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 15.0


class NothingRestored(Exception):
    """The attempt must continue from a checkpoint, and none of those it was given can be restored."""

    exit_code = NOT_RESTORABLE


class NotNow(NothingRestored):
    """What there is to restore can't be had at present."""

    exit_code = os.EX_TEMPFAIL


def restore(
    settings: Settings,
    log: EventLog,
    rng: Random,
    make_store: Callable[[StoreAddress], ObjectStore] = make_store,
    sleep: Callable[[float], None] = time.sleep,
) -> RestoreInfo:
    """Restores the first checkpoint that is intact, or none, and records which.

    Where the attempt looks for checkpoints by itself, those that it finds come first.

    A damaged checkpoint never fails the trial: it starts from scratch, and says why. Only a trial that must continue
    from another trial's checkpoint, with the parameters that belong to it, fails instead.

    Raises:
        NothingRestored: It can't be restored, and the attempt must not start from scratch.
        NotNow: The store does not answer.
        OSError: The shared directory can't be written to.
        AgentSettingsError: There is no store.
    """
    candidates = settings.restore_from
    if settings.restores and settings.store is None:
        raise AgentSettingsError(
            "there are checkpoints to restore from, but no store; the operator sets both or neither"
        )
    started = time.monotonic()
    outcome = RestoreOutcome(None, None, "")
    found: tuple[CheckpointRef, ...] = ()
    if settings.store is not None and (candidates or settings.finds):
        restorer = Restorer(
            make_store(settings.store.store),
            settings.store.store,
            backoff=ExponentialBackoff(_FIRST_WAIT, _LONGEST_WAIT, rng),
            patience=RESTORE_PATIENCE,
            clock=time.monotonic,
            sleep=sleep,
            timeout=settings.sync.timeout,
            local=LocalCache(settings.scratch) if settings.scratch else None,
        )
        try:
            if settings.finds:
                found = restorer.find(settings.store, settings.configuration)
                log.info("looked for checkpoints", checkpoints=len(found), prefix=settings.store.prefix)
            outcome = restorer.restore([*found, *candidates], settings.directory, layout.RESTORED)
        except StoreError as error:
            raise NotNow(str(error)) from error
    if outcome.checkpoint is None and settings.restore_or_fail:
        raise NothingRestored(outcome.message or "there is nothing to restore from")
    info = _build_info(outcome)
    info.write(settings.directory)
    _log_outcome(log, info.restored, outcome.local_bytes, round(time.monotonic() - started, 3))
    return info


def _log_outcome(log: EventLog, restored: Restored, local_bytes: int, seconds: float) -> None:
    """Says what was restored, and what could not be."""
    if restored.message:
        log.warning("checkpoint not restored", message=restored.message)
    if restored.uri:
        log.info("restored", step=restored.step, uri=restored.uri, local_bytes=local_bytes, seconds=seconds)
    else:
        log.info("nothing restored", seconds=seconds)


def _build_info(outcome: RestoreOutcome) -> RestoreInfo:
    message = outcome.message[:MAX_REPORTED_MESSAGE]
    if outcome.manifest is None:
        return RestoreInfo(Restored(message=message))
    restored = Restored(outcome.checkpoint, outcome.manifest.value, message)
    return RestoreInfo(restored, outcome.manifest.iteration, outcome.manifest.time_total)
