"""The queue of trials that could run: in order, and fast also where it is long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from podtune.runner.scheduling.pending_queue import PendingQueue
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trial.phase import TrialPhase


@dataclass
class Waiting:
    """As much of a trial as the queue looks at."""

    index: int
    phase: TrialPhase
    attempt: int = 1


def waiting(index: int, paused: bool = False) -> TrialMachine:
    return cast("TrialMachine", Waiting(index, TrialPhase.PAUSED_BY_SCHEDULER if paused else TrialPhase.QUEUED))


moves = st.lists(
    st.tuples(st.integers(0, 8), st.sampled_from([0.0, 1.0, 2.0]), st.booleans(), st.booleans()), max_size=40
)


@given(moves)
def test_trials_stand_in_the_order_of_their_times_then_of_their_indexes(
    moves: list[tuple[int, float, bool, bool]],
) -> None:
    queue, model = PendingQueue(), dict[int, tuple[float, bool]]()
    for index, since, paused, leaves in moves:
        if leaves:
            queue.discard(index)
            model.pop(index, None)
        else:
            queue.add(waiting(index, paused), since)
            model[index] = (since, paused)
        expected = sorted(model, key=lambda index: (model[index][0], index))
        assert list(queue) == expected
        assert [queue[place] for place in range(len(queue))] == expected
        assert queue[1:] == expected[1:]
        assert [index in queue for index in range(10)] == [index in model for index in range(10)]
        assert queue.paused == sum(paused for _, paused in model.values())
        assert [trial.index for trial in queue.trials] == expected


def test_a_trial_is_taken_out_once() -> None:
    queue = PendingQueue()
    queue.add(waiting(3), 0.0)
    assert queue.take(3).index == 3
    assert not queue
