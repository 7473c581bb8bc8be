import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.checkpoint_queue import CheckpointQueue, PendingCheckpoint
from podtune.protocol.messages import CheckpointCommit


def pending(seq: int) -> PendingCheckpoint:
    return PendingCheckpoint(seq, seq, f"c{seq}")


def commit(checkpoint: PendingCheckpoint) -> CheckpointCommit:
    return CheckpointCommit(CheckpointRef(f"s3://b/{checkpoint.step}", "sha256:0", checkpoint.step), checkpoint.seq)


@given(st.lists(st.sampled_from(["add", "start", "succeed", "retry", "give up", "acknowledge"])))
def test_none_is_lost_doubled_or_overtaken(events: list[str]) -> None:
    queue, given_up, stored, recorded, flying, count = CheckpointQueue(2), [], [], [], None, 0
    for event in events:
        if event == "add":
            count += 1
            given_up += [c.seq for c in [queue.add(pending(count))] if c]
        elif event == "start" and queue.has_work:
            flying = queue.start()
        elif event == "acknowledge" and queue.commits:
            recorded.append(queue.commits[0].seq)
            queue.acknowledge([queue.commits[0].checkpoint.uri])
        elif flying is not None and event in ("succeed", "retry", "give up"):
            if event == "succeed":
                queue.succeed(commit(flying))
                stored.append(flying.seq)
            elif event == "retry":
                queue.retry()
            else:
                queue.give_up()
                given_up.append(flying.seq)
            flying = None
    while queue.has_work or flying:
        flying = flying or queue.start()
        queue.succeed(commit(flying))
        stored.append(flying.seq)
        flying = None
    assert stored == sorted(stored)
    assert sorted(stored + given_up) == list(range(1, count + 1))
    assert recorded + [c.seq for c in queue.commits] == stored


def test_the_newest_is_never_given_up() -> None:
    queue = CheckpointQueue(max_waiting=2)
    assert [queue.add(pending(seq)) for seq in (1, 2)] == [None, None]
    assert queue.add(pending(3)) == pending(1)
    assert queue.give_up_all_but_newest() == (pending(2),)
    assert queue.start() == pending(3)


def test_where_none_is_stored_any_more_none_is_lost() -> None:
    queue = CheckpointQueue()
    queue.add(pending(1))
    queue.add(pending(2))
    queue.start()
    queue.give_up_all()
    assert (queue.unstored, queue.is_stored) == (None, False), "one is still in flight"
    queue.retry()
    queue.give_up_all()
    assert (queue.has_work, queue.is_stored) == (False, True)


def test_only_one_is_in_flight() -> None:
    queue = CheckpointQueue()
    queue.add(pending(1))
    queue.add(pending(2))
    queue.start()
    assert not queue.has_work
    with pytest.raises(ValueError, match="in flight"):
        queue.start()
