"""The command `podtune-agent storage`: bucket work without a running trial, in a pod of its own.

The operator never accesses the bucket. It starts a pod with one job, and reads the outcome from the pod's termination
message. Every job may be repeated, as a whole or in part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from podtune.agent.delivery.termination_message import write_reason
from podtune.agent.event_log import EventLog
from podtune.agent.settings import AgentSettingsError
from podtune.agent.storage_pod.jobs import JOBS, Stores
from podtune.agent.trackers.tracker_settings import TrackerSettings, TrackerSettingsError
from podtune.protocol import agent_environment as env
from podtune.protocol.fields import ProtocolError
from podtune.protocol.storage_job import StoragePurpose, StorageReport, StorageTask, StoredTrial, parse_task, read_chunk
from podtune.storage.address import StoreAddress, parse_store_address
from podtune.storage.backoff import ExponentialBackoff
from podtune.storage.checkpoint.download import CorruptCheckpoint
from podtune.storage.errors import StoreError, StoreSettingsError
from podtune.storage.object_store import ObjectStore

STORE_PATIENCE = 300.0
"""Seconds that a store which does not answer is asked again, before the job is left to the next pod."""


@dataclass(frozen=True, slots=True)
class StoragePodSettings:
    """What a storage pod is told."""

    task: StorageTask
    address: StoreAddress
    directory: Path
    termination_log: Path
    tracker: TrackerSettings | None = None

    @classmethod
    def from_environ(
        cls, environ: Mapping[str, str], directory: Path = Path(env.STORAGE_DIRECTORY)
    ) -> StoragePodSettings:
        """Reads the environment.

        Raises:
            AgentSettingsError: A variable is missing or wrong.
        """
        try:
            task = parse_task(environ.get(env.STORAGE_JOB, ""))
            address = parse_store_address(environ.get(env.STORE, ""))
            tracker = TrackerSettings.from_json(environ.get(env.TRACKER, ""))
        except (ProtocolError, StoreSettingsError, TrackerSettingsError) as error:
            names = f"{env.STORAGE_JOB}, {env.STORE} or {env.TRACKER}"
            raise AgentSettingsError(f"{names} is wrong: {error}; the operator sets them") from error
        return cls(task, address, directory, Path(environ.get(env.TERMINATION_LOG) or "/dev/termination-log"), tracker)

    def read_trials(self) -> Iterator[StoredTrial]:
        """Reads what is known about the trials.

        Raises:
            ProtocolError: It can't be read.
            OSError: It is not there.
        """
        for number in range(self.task.chunks):
            yield from read_chunk((self.directory / f"{number}.gz").read_bytes())


def run_storage(
    pod: StoragePodSettings,
    log: EventLog,
    rng: Random,
    make_store: Callable[[StoreAddress], ObjectStore],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    wall: Callable[[], float] = time.time,
) -> int:
    """Does the job and reports; returns the exit code."""
    log = log.bind(namespace=pod.task.namespace, experiment=pod.task.experiment, purpose=str(pod.task.purpose))
    stores = Stores(pod.address, make_store)
    backoff = ExponentialBackoff(1.0, 30.0, rng)
    give_up_at = clock() + STORE_PATIENCE
    while True:
        report = _try(pod, stores, log, wall())
        wait = backoff.draw_wait()
        if not isinstance(report, Later) or clock() + wait > give_up_at:
            break
        sleep(wait)
    final = report.report if isinstance(report, Later) else report
    if final.ok and pod.tracker is not None and (told := _mark_runs(pod, pod.tracker, rng, clock, sleep)):
        log.info("runs marked", message=told)
        final = replace(final, message=f"{final.message}; {told}")
    write_reason(pod.termination_log, final.to_json())
    return 0 if final.ok else 1


def _mark_runs(
    pod: StoragePodSettings,
    tracker: TrackerSettings,
    rng: Random,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> str:
    """Tells a tracking server what is known of its runs; says what came of it."""
    from podtune.agent.trackers.run_marks import RunMarker  # noqa: PLC0415 - most storage pods have no tracker

    marker = RunMarker(tracker, pod.task.experiment_uid, rng, clock=clock, sleep=sleep)
    return marker.mark(pod.read_trials())


def _end_event_files(pod: StoragePodSettings, stores: Stores, report: StorageReport, now: float) -> StorageReport:
    """Has TensorBoard's files say which trials have failed; adds to the report how many."""
    from podtune.agent.trackers.failed_ends import store_failed_ends  # noqa: PLC0415 - most have no event files

    count = store_failed_ends(stores.own, pod.address, pod.task.experiment_uid, pod.read_trials(), now)
    told = f"; {count} trials are shown as failed in TensorBoard" if count else ""
    return replace(report, message=f"{report.message}{told}")


@dataclass(frozen=True, slots=True)
class Later:
    """The store did not answer: the job may be tried again."""

    report: StorageReport


def _try(pod: StoragePodSettings, stores: Stores, log: EventLog, now: float) -> StorageReport | Later:
    purpose = pod.task.purpose
    try:
        report = JOBS[purpose](pod.task, pod.read_trials(), stores)
        if pod.task.ends_event_files and purpose is not StoragePurpose.PURGE:
            report = _end_event_files(pod, stores, report, now)
    except StoreError as error:
        log.warning("storage job failed", reason=error.reason, message=str(error))
        failed = StorageReport(purpose, ok=False, message=str(error))
        return failed if error.permanent else Later(failed)
    except (ProtocolError, CorruptCheckpoint, OSError, ValueError) as error:
        log.error("storage job failed", message=str(error))
        return StorageReport(purpose, ok=False, message=str(error))
    log.info("storage job done", message=report.message)
    return report
