"""What must hold of an experiment that its cluster has lost, once it is restored from its store and has ended.

It follows the undisturbed run as far as the facts of the snapshot go: proposals and decisions are those that follow
from them. How often an attempt was started or has failed can't be the same: what came after the snapshot is done again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator

from e2e.chaos.invariants import (
    Run,
    ending,
    every_trial_ends,
    no_accepted_checkpoint_is_lost,
    no_pod_without_a_living_owner,
    one_writer_a_trial,
    results_and_output_are_kept_whole,
    the_snapshot_tells_the_end,
    what_is_stored_is_whole,
)

_SAME = ("parameters", "state", "reason", "iteration", "best", "last", "rungs", "decision", "checkpoint")


def what_was_recorded_stands(run: Run) -> Iterator[str]:
    """What the snapshot tells stands: no trial that had ended runs again, none goes on from before its checkpoint."""
    for trial in run.history.trials:
        restored = next((status for status in run.history.statuses(trial) if status), {})
        attempts = run.truth.of_trial(trial)
        if restored.get("completionTime") and attempts:
            yield f"{trial}: had ended by the snapshot, and has run again"
        step = (restored.get("checkpoint") or {}).get("step", 0)
        if attempts and attempts[0].restored < step:
            yield f"{trial}: went on from {attempts[0].restored}, though the snapshot tells of a checkpoint of {step}"


def the_end_follows_from_the_snapshot(run: Run) -> Iterator[str]:
    """Proposals, results and ends are those of the undisturbed run."""
    assert run.undisturbed is not None  # nothing is lost in that
    for name, end in ending(run.history).trials.items():
        wanted = run.undisturbed.trials.get(name, {})
        for what in _SAME:
            if end[what] != wanted.get(what):
                yield f"trial {name}: {what} is {end[what]!r}, and {wanted.get(what)!r} in the undisturbed run"


def results_of_all_lives_are_told_once(run: Run) -> Iterator[str]:
    """Of each life those results are told that came before the iteration where the next one took the trial up."""
    for trial in run.history.trials:
        wanted: Counter[int] = Counter()
        begin = math.inf
        for life in reversed(run.truth.lives):
            steps = life.get(trial, [])
            wanted.update(step for step in steps if step < begin)
            begin = min([begin, *steps])
        told = run.truth.told.get(trial, [])
        # Of an attempt that the next life knew nothing of, none is told: another one may have had the same iterations.
        if wanted.keys() != {*told} or Counter(told) - wanted:
            yield f"{trial}: results of iterations {told} are told, and {sorted(wanted.elements())} are stored"


RESTORED: tuple[Callable[[Run], Iterator[str]], ...] = (
    every_trial_ends,
    no_accepted_checkpoint_is_lost,
    no_pod_without_a_living_owner,
    one_writer_a_trial,
    results_and_output_are_kept_whole,
    results_of_all_lives_are_told_once,
    the_snapshot_tells_the_end,
    what_is_stored_is_whole,
    what_was_recorded_stands,
    the_end_follows_from_the_snapshot,
)


def broken_after_restore(run: Run) -> list[str]:
    """All that does not hold."""
    return [problem for invariant in RESTORED for problem in invariant(run)]
