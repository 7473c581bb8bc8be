"""All perturbations. Each group runs in testbeds of its own, for what one group does to the operator disturbs all that
run beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

from e2e.chaos.faults.calls import Call
from e2e.chaos.groups import kept, paths, stores
from e2e.chaos.groups.group import WATCH_FAULTS, Group, each
from e2e.chaos.perturbation import Fault, Perturbation

LIFE: tuple[tuple[str, Call, tuple[int, ...]], ...] = (
    ("plain", Call.EXPERIMENT_STATUS, (1, 2)),
    ("plain", Call.CREATE_TRIAL, (1, 2, 3)),
    ("plain", Call.CREATE_POD, (1, 2, 3)),
    ("lasting", Call.TRIAL_RUNNING, (1, 2)),
    ("plain", Call.TRIAL_END, (1, 2, 3)),
    ("plain", Call.EXPERIMENT_END, (1,)),
    ("plain", Call.DELETE_PODS, (1,)),
    ("mixed", Call.TRIAL_CHECKPOINT, (1, 3, 6)),
    ("mixed", Call.ATTEMPT_END, (1, 2)),
    ("mixed", Call.CREATE_POD, (3, 4, 5)),
    ("crashing", Call.POD_LOG, (1, 2)),
    ("mixed", Call.EVENT, (1, 2)),
    ("mixed", Call.TRIAL_END, (2,)),
    ("asha", Call.TRIAL_DECISION, (1, 2)),
    ("asha", Call.DELETE_POD, (1, 2)),
    ("asha", Call.TRIAL_END, (1, 3)),
    ("promotion", Call.TRIAL_DECISION, (1, 3)),
    ("promotion", Call.DELETE_POD, (1, 2)),
    ("promotion", Call.ATTEMPT_END, (1, 2)),
    ("promotion", Call.CREATE_POD, (4,)),
    ("enough", Call.TRIAL_END, (2, 3)),
    ("enough", Call.EXPERIMENT_END, (1,)),
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
        Group("requests", 10, tuple(each((Fault.LOSE_REPLY, *REFUSALS), REQUESTED))),
        Group("timeouts", 30, tuple(_timeouts())),
        Group("watches", 8, tuple(_watches())),
        Group("reports", 10, tuple(_reports())),
        Group("leaders", 1, tuple(_leaders())),
        Group("clocks", 3, tuple(_clocks())),
        Group("bucket", 8, tuple(stores.list_bucket())),
        Group("segments", 8, tuple(stores.list_segments())),
        Group("ends", 4, tuple(stores.list_ends())),
        Group("volume", 8, tuple(stores.list_volume())),
        Group("gangs", 5, tuple(paths.list_gangs())),
        Group("evaluations", 5, tuple(paths.list_evaluations())),
        Group("added", 5, tuple(paths.list_added())),
        Group("snapshots", 6, tuple(kept.list_snapshots())),
        Group("restores", 3, tuple(kept.list_restores())),
        Group("discards", 6, tuple(kept.list_discards())),
    )


def undisturbed() -> Iterator[Perturbation]:
    """Every scenario as it runs by itself."""
    from e2e.chaos.scenarios.experiments import SCENARIOS

    for name in SCENARIOS:
        yield Perturbation(name, Call.OTHER, 1, Fault.NONE)


def _script() -> Iterator[tuple[str, Call, int]]:
    for scenario, call, occurrences in LIFE:
        for occurrence in occurrences:
            yield scenario, call, occurrence


def _kills() -> Iterator[Perturbation]:
    """The operator dies before each call, and after each."""
    yield from each((Fault.KILL_BEFORE, Fault.KILL_AFTER), (*_script(), *REQUESTED))
    yield from each((Fault.KILL_BEFORE, Fault.KILL_AFTER), [("flowing", Call.REPORT, n) for n in (1, 9, 20)])
    few = [("plain", Call.CREATE_POD, 2), ("mixed", Call.ATTEMPT_END, 1), ("asha", Call.TRIAL_DECISION, 1)]
    yield from each((Fault.KILL_TWICE, Fault.TERMINATE), few)
    yield from each((Fault.KILL_BEFORE, Fault.KILL_AFTER), [("kept", Call.FOLLOW_LOG, 1)])
    zombies = [("zombie", Call.CREATE_POD, 4), ("zombie", Call.REPORT, 10)]
    yield from each((Fault.KILL_BEFORE, Fault.KILL_AFTER), zombies)


def _calls() -> Iterator[Perturbation]:
    """Each call's answer is lost; then whatever else a server or a network can answer."""
    yield from each((Fault.LOSE_REPLY,), _script())
    first = {(scenario, call): occurrences[0] for scenario, call, occurrences in reversed(LIFE)}
    kinds = {call: (scenario, call, occurrence) for (scenario, call), occurrence in first.items()}
    yield from each(REFUSALS, kinds.values())
    review = [("plain", Call.TOKEN_REVIEW, n) for n in (1, 3)]
    yield from each((Fault.REFUSE_429, Fault.REFUSE_500, Fault.LOSE_REPLY, Fault.SLOW), review)


def _timeouts() -> Iterator[Perturbation]:
    kinds = {call: (scenario, call, occurrences[0]) for scenario, call, occurrences in reversed(LIFE)}
    yield from each((Fault.TIMEOUT_BEFORE, Fault.TIMEOUT_AFTER), kinds.values())


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
    yield from each(WATCH_FAULTS, places)


def _reports() -> Iterator[Perturbation]:
    places = [
        ("plain", Call.REPORT, 1),
        ("flowing", Call.REPORT, 7),
        ("mixed", Call.REPORT, 6),
        ("asha", Call.REPORT, 4),
    ]
    yield from each(REPORT_FAULTS, places)
    zombies = [("zombie", Call.REPORT, n) for n in (3, 8, 12)]
    yield from each((Fault.SLOW, Fault.LATE_AGAIN, Fault.OVERTAKEN, Fault.LOSE_REPLY), zombies)
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
    yield from each((Fault.SECOND_LEADER, Fault.FREEZE), places)
    # A Lease is nobody's: beside others, one experiment would take the faults of another, and one would go without.
    lease = [("lasting", Call.LEASE, 1)]
    yield from each((Fault.REFUSE_409, Fault.REFUSE_500, Fault.LOSE_REPLY, Fault.SLOW, Fault.GARBLED), lease)


def _clocks() -> Iterator[Perturbation]:
    places = [
        ("plain", Call.CREATE_POD, 1),
        ("mixed", Call.ATTEMPT_END, 1),
        ("mixed", Call.TRIAL_CHECKPOINT, 2),
        ("asha", Call.TRIAL_DECISION, 1),
        ("flowing", Call.REPORT, 7),
    ]
    yield from each((Fault.CLOCK_FORWARD, Fault.CLOCK_BACK), places)
