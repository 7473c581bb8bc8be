"""Experiments that do something besides: gangs, evaluations, trials that people add."""

from __future__ import annotations

from collections.abc import Iterator

from e2e.chaos.faults.calls import Call
from e2e.chaos.groups.group import DOUBTS, KILLS, WATCH_FAULTS, each
from e2e.chaos.perturbation import Fault, Perturbation


def list_gangs() -> Iterator[Perturbation]:
    """While the pods of a gang are made one by one, let begin, and ended with the first of them that falls."""
    steps = [
        ("gang", Call.CREATE_SERVICE, 1),
        ("gang", Call.CREATE_POD, 1),
        ("gang", Call.CREATE_POD, 2),
        ("gang", Call.CREATE_POD, 8),
        ("gang", Call.OPEN_GATE, 1),
        ("gang", Call.OPEN_GATE, 3),
        ("gang", Call.TRIAL_DECISION, 1),
        ("gang", Call.TRIAL_DECISION, 2),
        ("gang", Call.DELETE_POD, 1),
        ("gang", Call.ATTEMPT_END, 1),
    ]
    yield from each(KILLS, steps)
    yield from each(DOUBTS, [steps[0], steps[2], steps[4], steps[6], steps[8]])
    yield from each((Fault.WATCH_CUT, Fault.WATCH_DROP, Fault.WATCH_REORDER), [("gang", Call.WATCH_PODS, 12)])


def list_evaluations() -> Iterator[Perturbation]:
    """From the end of training to that of the evaluation, which fails once or is evicted."""
    steps = [
        ("evaluated", Call.TRAINING_END, 1),
        ("evaluated", Call.TRAINING_END, 2),
        ("evaluated", Call.CREATE_POD, 3),
        ("evaluated", Call.CREATE_POD, 5),
        ("evaluated", Call.DELETE_POD, 1),
        ("evaluated", Call.ATTEMPT_END, 1),
        ("evaluated", Call.ATTEMPT_END, 2),
        ("evaluated", Call.TRIAL_END, 1),
    ]
    yield from each(KILLS, steps)
    yield from each(DOUBTS, [steps[0], steps[2], steps[5], steps[7]])
    yield from each((Fault.LATE_AGAIN,), [steps[0], steps[5], steps[7]])
    yield from each((Fault.LOSE_REPLY, Fault.SLOW), [("evaluated", Call.REPORT, n) for n in (15, 20)])
    yield from each((Fault.WATCH_CUT, Fault.WATCH_DROP, Fault.WATCH_STALE), [("evaluated", Call.WATCH_PODS, 20)])


def list_added() -> Iterator[Perturbation]:
    """While a Trial that a person has made becomes one of the experiment's, runs and is observed; or is refused."""
    steps = [
        ("added", Call.ADOPT_TRIAL, 1),
        ("added", Call.TRIAL_REFUSED, 1),
        ("added", Call.TRIAL_END, 1),
        ("added", Call.CREATE_POD, 2),
        ("added", Call.TRIAL_END, 2),
        ("added", Call.CREATE_TRIAL, 2),
    ]
    yield from each(KILLS, steps)
    yield from each((*DOUBTS, Fault.LATE_AGAIN, Fault.GARBLED), [steps[0], steps[1], steps[4]])
    # A searcher waits two seconds for an observation at most, and no delayed event may come later.
    quick = [fault for fault in WATCH_FAULTS if fault not in (Fault.WATCH_DELAY, Fault.WATCH_REORDER)]
    yield from each(quick, [("added", Call.WATCH_TRIALS, 5)])
