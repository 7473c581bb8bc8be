"""All perturbations. Each group runs in testbeds of its own, for what one group does to the operator disturbs all that
run beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from e2e.chaos.faults.calls import Call
from e2e.chaos.perturbation import Fault, Perturbation


@dataclass(frozen=True)
class Group:
    """Perturbations that run together.

    Attributes:
        at_once: How many run beside each other.
        promise: The heading of the design that they test.
    """

    name: str
    at_once: int
    perturbations: tuple[Perturbation, ...]


LIFE: tuple[tuple[str, Call, tuple[int, ...]], ...] = (
    ("plain", Call.EXPERIMENT_STATUS, (1, 2)),
    ("plain", Call.CREATE_TRIAL, (1, 2, 3)),
    ("plain", Call.CREATE_POD, (1, 2, 3)),
    ("plain", Call.TRIAL_RUNNING, (1, 2)),
    ("plain", Call.TRIAL_END, (1, 2, 3)),
    ("plain", Call.EXPERIMENT_END, (1,)),
    ("plain", Call.DELETE_PODS, (1,)),
    ("mixed", Call.TRIAL_CHECKPOINT, (1, 3, 6)),
    ("mixed", Call.ATTEMPT_END, (1, 2)),
    ("mixed", Call.CREATE_POD, (3, 4, 5)),
    ("mixed", Call.POD_LOG, (1, 2)),
    ("mixed", Call.EVENT, (1, 2)),
    ("mixed", Call.TRIAL_END, (2,)),
    ("asha", Call.TRIAL_DECISION, (1, 2)),
    ("asha", Call.DELETE_POD, (1, 2)),
    ("asha", Call.TRIAL_END, (1, 3)),
    ("promotion", Call.TRIAL_DECISION, (1, 3)),
    ("promotion", Call.DELETE_POD, (1, 2)),
    ("promotion", Call.ATTEMPT_END, (1, 2)),
    ("promotion", Call.CREATE_POD, (4,)),
)
"""Every call that the operator makes for a trial, from its creation to its end, and an experiment in which it comes."""

REFUSALS = (
    Fault.REFUSE_409,
    Fault.REFUSE_429,
    Fault.REFUSE_500,
    Fault.REFUSE_503,
    Fault.REFUSE_504,
    Fault.DONE_BUT_500,
    Fault.DONE_BUT_504,
    Fault.LOSE_REQUEST,
    Fault.TWICE,
    Fault.LATE_AGAIN,
    Fault.LATE_AFTER_504,
    Fault.SLOW,
    Fault.OVERTAKEN,
    Fault.GARBLED,
)
REPORT_FAULTS = (
    Fault.REFUSE_429,
    Fault.REFUSE_500,
    Fault.REFUSE_503,
    Fault.REFUSE_504,
    Fault.LOSE_REQUEST,
    Fault.LOSE_REPLY,
    Fault.SLOW,
    Fault.TIMEOUT_BEFORE,
    Fault.TIMEOUT_AFTER,
    Fault.TWICE,
    Fault.LATE_AGAIN,
    Fault.LATE_AFTER_504,
    Fault.OVERTAKEN,
    Fault.GARBLED,
    Fault.OUTAGE,
)
WATCH_FAULTS = (
    Fault.WATCH_CUT,
    Fault.WATCH_DROP,
    Fault.WATCH_TWICE,
    Fault.WATCH_REORDER,
    Fault.WATCH_DELAY,
    Fault.WATCH_GONE,
    Fault.WATCH_STALE,
)


REQUESTED: tuple[tuple[str, Call, int], ...] = (
    ("retried", Call.TRIAL_DECISION, 1),
    ("retried", Call.DELETE_POD, 1),
    ("retried", Call.ATTEMPT_END, 1),
    ("retried", Call.CREATE_POD, 3),
    ("returned", Call.TRIAL_DECISION, 1),
    ("returned", Call.DELETE_POD, 1),
    ("returned", Call.ATTEMPT_END, 1),
    ("returned", Call.CREATE_POD, 3),
    ("asked", Call.TRIAL_REQUEST, 1),
    ("asked", Call.TRIAL_CHECKPOINT, 1),
    ("changed", Call.EXPERIMENT_STATUS, 3),
    ("changed", Call.KEEP_REVISION, 2),
    ("changed", Call.ATTEMPT_END, 1),
    ("changed", Call.CREATE_POD, 2),
    ("mended", Call.KEEP_REVISION, 2),
    ("mended", Call.TRIAL_DECISION, 1),
    ("mended", Call.DELETE_POD, 1),
    ("mended", Call.ATTEMPT_END, 1),
    ("mended", Call.CREATE_POD, 2),
    ("grown", Call.EXPERIMENT_STATUS, 3),
    ("grown", Call.CREATE_TRIAL, 2),
    ("grown", Call.CREATE_TRIAL, 3),
    ("limited", Call.ATTEMPT_END, 1),
    ("limited", Call.CREATE_POD, 3),
    ("helped", Call.ATTEMPT_END, 1),
    ("helped", Call.CREATE_POD, 3),
)
"""The calls by which the operator carries out what a person asks of trials that run, and helps after a failure."""


def groups() -> tuple[Group, ...]:
    """The whole matrix."""
    return (
        Group("kills", 5, tuple(_kills())),
        Group("calls", 10, tuple(_calls())),
        Group("requests", 10, tuple(_each((Fault.LOSE_REPLY, *REFUSALS), REQUESTED))),
        Group("timeouts", 30, tuple(_timeouts())),
        Group("watches", 8, tuple(_watches())),
        Group("reports", 10, tuple(_reports())),
        Group("leaders", 1, tuple(_leaders())),
        Group("clocks", 3, tuple(_clocks())),
        Group("bucket", 8, tuple(_bucket())),
        Group("segments", 8, tuple(_segments())),
        Group("ends", 4, tuple(_ends())),
        Group("volume", 8, tuple(_volume())),
    )


def undisturbed() -> Iterator[Perturbation]:
    """Every scenario as it runs by itself."""
    from e2e.chaos.scenarios import SCENARIOS

    for name in SCENARIOS:
        yield Perturbation(name, Call.OTHER, 1, Fault.NONE)


def _script() -> Iterator[tuple[str, Call, int]]:
    for scenario, call, occurrences in LIFE:
        for occurrence in occurrences:
            yield scenario, call, occurrence


def _each(faults: Iterable[Fault], calls: Iterable[tuple[str, Call, int]]) -> Iterator[Perturbation]:
    for (scenario, call, occurrence), fault in product(calls, faults):
        yield Perturbation(scenario, call, occurrence, fault)


def _kills() -> Iterator[Perturbation]:
    """The operator dies before each call, and after each."""
    yield from _each((Fault.KILL_BEFORE, Fault.KILL_AFTER), (*_script(), *REQUESTED))
    yield from _each((Fault.KILL_BEFORE, Fault.KILL_AFTER), [("flowing", Call.REPORT, n) for n in (1, 9, 20)])
    few = [("plain", Call.CREATE_POD, 2), ("mixed", Call.ATTEMPT_END, 1), ("asha", Call.TRIAL_DECISION, 1)]
    yield from _each((Fault.KILL_TWICE, Fault.TERMINATE), few)
    yield from _each((Fault.KILL_BEFORE, Fault.KILL_AFTER), [("kept", Call.FOLLOW_LOG, 1)])
    zombies = [("zombie", Call.CREATE_POD, 4), ("zombie", Call.REPORT, 10)]
    yield from _each((Fault.KILL_BEFORE, Fault.KILL_AFTER), zombies)


def _calls() -> Iterator[Perturbation]:
    """Each call's answer is lost; then whatever else a server or a network can answer."""
    yield from _each((Fault.LOSE_REPLY,), _script())
    first = {(scenario, call): occurrences[0] for scenario, call, occurrences in reversed(LIFE)}
    kinds = {call: (scenario, call, occurrence) for (scenario, call), occurrence in first.items()}
    yield from _each(REFUSALS, kinds.values())
    review = [("plain", Call.TOKEN_REVIEW, n) for n in (1, 3)]
    yield from _each((Fault.REFUSE_429, Fault.REFUSE_500, Fault.LOSE_REPLY, Fault.SLOW), review)
    lease = [("plain", Call.LEASE, 1)]
    yield from _each((Fault.REFUSE_409, Fault.REFUSE_500, Fault.LOSE_REPLY, Fault.SLOW, Fault.GARBLED), lease)


def _timeouts() -> Iterator[Perturbation]:
    kinds = {call: (scenario, call, occurrences[0]) for scenario, call, occurrences in reversed(LIFE)}
    yield from _each((Fault.TIMEOUT_BEFORE, Fault.TIMEOUT_AFTER), kinds.values())


def _watches() -> Iterator[Perturbation]:
    places = [
        ("plain", Call.WATCH_EXPERIMENTS, 1),
        ("plain", Call.WATCH_EXPERIMENTS, 2),
        ("plain", Call.WATCH_TRIALS, 1),
        ("mixed", Call.WATCH_TRIALS, 5),
        ("asha", Call.WATCH_TRIALS, 7),
        ("plain", Call.WATCH_PODS, 1),
        ("mixed", Call.WATCH_PODS, 4),
        ("mixed", Call.WATCH_PODS, 9),
        ("asha", Call.WATCH_PODS, 8),
    ]
    yield from _each(WATCH_FAULTS, places)


def _reports() -> Iterator[Perturbation]:
    places = [
        ("plain", Call.REPORT, 1),
        ("flowing", Call.REPORT, 7),
        ("mixed", Call.REPORT, 6),
        ("asha", Call.REPORT, 4),
    ]
    yield from _each(REPORT_FAULTS, places)
    zombies = [("zombie", Call.REPORT, n) for n in (3, 8, 12)]
    yield from _each((Fault.SLOW, Fault.LATE_AGAIN, Fault.OVERTAKEN, Fault.LOSE_REPLY), zombies)
    yield Perturbation("trapped", Call.REPORT, 3, Fault.LOSE_REPLY)


def _leaders() -> Iterator[Perturbation]:
    places = [
        ("plain", Call.CREATE_TRIAL, 2),
        ("plain", Call.CREATE_POD, 2),
        ("plain", Call.TRIAL_END, 1),
        ("mixed", Call.TRIAL_CHECKPOINT, 3),
        ("mixed", Call.ATTEMPT_END, 1),
        ("asha", Call.TRIAL_DECISION, 1),
        ("asha", Call.DELETE_POD, 1),
        ("flowing", Call.REPORT, 9),
    ]
    yield from _each((Fault.SECOND_LEADER, Fault.FREEZE), places)


def _clocks() -> Iterator[Perturbation]:
    places = [
        ("plain", Call.CREATE_POD, 1),
        ("mixed", Call.ATTEMPT_END, 1),
        ("mixed", Call.TRIAL_CHECKPOINT, 2),
        ("asha", Call.TRIAL_DECISION, 1),
        ("flowing", Call.REPORT, 7),
    ]
    yield from _each((Fault.CLOCK_FORWARD, Fault.CLOCK_BACK), places)


STORE_FAULTS = (
    Fault.REFUSE_403,
    Fault.REFUSE_404,
    Fault.REFUSE_409,
    Fault.REFUSE_412,
    Fault.REFUSE_500,
    Fault.REFUSE_503,
    Fault.LOSE_REQUEST,
    Fault.LOSE_REPLY,
    Fault.DONE_BUT_500,
    Fault.SLOW,
    Fault.TWICE,
    Fault.OUTAGE,
    Fault.KILL_BEFORE,
    Fault.KILL_AFTER,
)
READ_FAULTS = (
    Fault.REFUSE_403,
    Fault.REFUSE_404,
    Fault.REFUSE_500,
    Fault.REFUSE_503,
    Fault.LOSE_REPLY,
    Fault.SLOW,
    Fault.TRUNCATED,
    Fault.BIT_FLIPPED,
)
FOLLOW_FAULTS = (Fault.REFUSE_429, Fault.REFUSE_500, Fault.REFUSE_503, Fault.LOSE_REQUEST, Fault.WATCH_CUT)


def _bucket() -> Iterator[Perturbation]:
    """Between the agent and S3: the agent is killed at every step of an upload."""
    uploads = [
        ("stored", Call.S3_LIST, 1),
        ("stored", Call.S3_PUT, 1),
        ("stored", Call.S3_PUT, 5),
        ("stored", Call.S3_PUT_MANIFEST, 1),
        ("stored", Call.S3_PUT_MANIFEST, 3),
        ("stored", Call.S3_PUT_SEGMENT, 1),
    ]
    yield from _each(STORE_FAULTS, uploads)
    yield from _each(READ_FAULTS, [("stored", Call.S3_GET, 1), ("stored", Call.S3_GET_MANIFEST, 1)])
    yield from _each((Fault.REFUSE_403, Fault.REFUSE_503, Fault.LOSE_REPLY), [("stored", Call.S3_DELETE, 1)])
    parts = [("large", Call.S3_PART, n) for n in (1, 2, 4)]
    yield from _each((Fault.REFUSE_500, Fault.LOSE_REPLY, Fault.KILL_BEFORE, Fault.KILL_AFTER), parts)
    full_disk = [("full", Call.S3_PUT_MANIFEST, n) for n in (1, 2, 3)] + [("full", Call.S3_PUT_SEGMENT, 1)]
    yield from _each((Fault.REFUSE_503, Fault.SLOW, Fault.LOSE_REPLY, Fault.KILL_AFTER), full_disk)


def _segments() -> Iterator[Perturbation]:
    """While results and output are on their way into the bucket, by segments that are stored again and again."""
    yield from _each(STORE_FAULTS, [("kept", Call.S3_PUT_SEGMENT, n) for n in (1, 4, 9)])
    yield from _each(FOLLOW_FAULTS, [("kept", call, n) for call in (Call.FOLLOW_LOG, Call.AGENT_LOG) for n in (1, 2)])


def _ends() -> Iterator[Perturbation]:
    """While the last checkpoint of an attempt is on its way: of one that ends by itself, stops, pauses or crashes."""
    last = [
        ("saved", Call.S3_PUT_MANIFEST, 1),
        ("stopped", Call.S3_PUT_MANIFEST, 2),
        ("paused", Call.S3_PUT_MANIFEST, 1),
    ]
    yield from _each((Fault.OUTAGE, Fault.SLOW), last)
    yield Perturbation("hasty", Call.S3_PUT_MANIFEST, 1, Fault.OUTAGE)
    yield from _each((Fault.KILL_BEFORE,), [("draining", Call.TRIAL_CHECKPOINT, 1), ("cut-short", Call.ATTEMPT_END, 1)])
    yield Perturbation("cut-short", Call.TRIAL_END, 1, Fault.KILL_AFTER)


VOLUME_FAULTS = (
    Fault.DISK_FULL,
    Fault.READ_ONLY,
    Fault.STALE_HANDLE,
    Fault.IO_ERROR,
    Fault.DONE_BUT_IO_ERROR,
    Fault.SLOW,
    Fault.KILL_BEFORE,
    Fault.KILL_AFTER,
)
VOLUME_READ_FAULTS = (Fault.STALE_HANDLE, Fault.IO_ERROR, Fault.SLOW, Fault.TRUNCATED, Fault.BIT_FLIPPED)


def _volume() -> Iterator[Perturbation]:
    """Between the agent and the file system of its store, at every step of a file from its creation to its name."""
    steps = [
        ("stored-on-volume", Call.VOLUME_CREATE, 2),
        ("stored-on-volume", Call.VOLUME_WRITE, 1),
        ("stored-on-volume", Call.VOLUME_WRITE, 4),
        ("stored-on-volume", Call.VOLUME_SYNC, 2),
        ("stored-on-volume", Call.VOLUME_RENAME, 3),
        ("stored-on-volume", Call.VOLUME_WRITE_MANIFEST, 1),
        ("stored-on-volume", Call.VOLUME_RENAME_MANIFEST, 1),
        ("stored-on-volume", Call.VOLUME_RENAME_MANIFEST, 3),
        ("stored-on-volume", Call.VOLUME_WRITE_HISTORY, 1),
    ]
    yield from _each(VOLUME_FAULTS, steps)
    reads = [("stored-on-volume", Call.VOLUME_READ, 1), ("stored-on-volume", Call.VOLUME_READ_MANIFEST, 1)]
    yield from _each(VOLUME_READ_FAULTS, reads)
    others = [("stored-on-volume", Call.VOLUME_LIST, 1), ("stored-on-volume", Call.VOLUME_DELETE, 1)]
    yield from _each((Fault.READ_ONLY, Fault.STALE_HANDLE, Fault.IO_ERROR, Fault.SLOW), others)
    parts = [("large-on-volume", Call.VOLUME_WRITE, n) for n in (2, 40, 200)]
    yield from _each((Fault.DISK_FULL, Fault.STALE_HANDLE, Fault.KILL_BEFORE, Fault.KILL_AFTER), parts)
    last = [
        ("saved-on-volume", Call.VOLUME_RENAME_MANIFEST, 1),
        ("stopped-on-volume", Call.VOLUME_RENAME_MANIFEST, 2),
        ("paused-on-volume", Call.VOLUME_RENAME_MANIFEST, 1),
    ]
    yield from _each((Fault.DISK_FULL, Fault.READ_ONLY, Fault.STALE_HANDLE, Fault.SLOW), last)
    yield from _each((Fault.READ_ONLY, Fault.STALE_HANDLE), [("hasty-on-volume", Call.VOLUME_RENAME_MANIFEST, 1)])
