"""What one operator leaves to the next of the events that it holds."""

from __future__ import annotations

import random

import pytest

from podtune.api.names import TrialState
from podtune.webhooks import kept_events as kept_events_module
from podtune.webhooks.events import Subject
from podtune.webhooks.held_events import HeldEvent
from podtune.webhooks.kept_events import (
    MAX_KEPT_BYTES,
    HeldObject,
    KeptEvents,
    decode_kept_events,
    encode_kept_events,
)
from tests.unit.webhooks.subjects import EXPERIMENT, WrittenTrial, hear, make_outbox


def hold(count: int, *, results: int = 0) -> KeptEvents:
    """What is held of a trial that has changed so often while its receiver was away, after so many results."""
    outbox, trial = make_outbox(), WrittenTrial()
    for step in range(1, results + 1):
        outbox.observe(trial.report(step, 0.5).subject)
    for attempt in range(1, count + 1):
        outbox.observe(trial.turn(TrialState.RUNNING, attempt).turn(TrialState.PENDING, attempt).subject)
    return outbox.list_held()


def list_ids(kept: KeptEvents) -> list[str]:
    return [event.id for held in kept.objects for event in held.events]


def test_nothing_held_takes_no_room() -> None:
    assert encode_kept_events(make_outbox().list_held()) == b""
    assert decode_kept_events(b"") == KeptEvents()


def test_what_is_held_is_read_as_it_was_kept() -> None:
    held = hold(40, results=100)
    packed = encode_kept_events(held)
    assert decode_kept_events(packed) == held
    assert len(packed) < 40 * len(list_ids(held)), "some bytes for each event"


def test_of_too_much_the_oldest_results_go_first_and_then_the_oldest_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    held = hold(40, results=300)
    results = [id_ for id_ in list_ids(held) if "-result-" in id_]
    changes = [id_ for id_ in list_ids(held) if "-transition-" in id_]
    sizes = {event.id: event.size for entry in held.objects for event in entry.events}
    for limit, wanted in (
        (sum(sizes[id_] for id_ in changes + results[-20:]), {*results[-20:], *changes}),
        (sum(sizes[id_] for id_ in changes[-20:]), {*changes[-20:]}),
    ):
        monkeypatch.setattr(kept_events_module, "MAX_KEPT_CONTENT", limit)
        kept = decode_kept_events(encode_kept_events(held))
        assert list_ids(kept) == [id_ for id_ in list_ids(held) if id_ in wanted]
        assert kept.left_out == len(results) + len(changes) - len(wanted)


@pytest.mark.parametrize("room", [MAX_KEPT_BYTES, 50_000, 0])
def test_it_never_takes_more_room_than_there_is(room: int) -> None:
    rng, position = random.Random(1), make_outbox().positions.find(WrittenTrial().subject)
    events = [
        HeldEvent(f"t-0-transition-{number}", b'{"id":"%b"}' % rng.randbytes(500).hex().encode(), position, 0, False)
        for number in range(5000)
    ]
    packed = encode_kept_events(KeptEvents((HeldObject("t-0", tuple(events), position),)), room)
    assert len(packed) <= max(room, 200)
    assert decode_kept_events(packed).left_out + len(list_ids(decode_kept_events(packed))) == len(events)
    assert decode_kept_events(packed).left_out > 0


@pytest.mark.parametrize("packed", [b"mine", encode_kept_events(hold(20))[:-30]])
def test_what_somebody_has_damaged_is_said_to_be_missed(packed: bytes) -> None:
    assert decode_kept_events(packed) == KeptEvents(left_out=1)


def test_a_trial_that_is_deleted_before_it_was_told_is_told_by_the_next_operator() -> None:
    outbox, trial = make_outbox(), WrittenTrial().turn(TrialState.RUNNING).report(1, 0.5).turn(TrialState.TERMINATED)
    outbox.observe(Subject(EXPERIMENT))
    outbox.observe(trial.subject)
    outbox.forget(trial.subject)
    following = make_outbox(outbox.positions.encode(), encode_kept_events(outbox.list_held()))
    following.observe(Subject(EXPERIMENT))
    following.end_loading()
    assert [event["id"] for event in hear(following) if event["id"].startswith("t-")] == [
        event["id"] for event in hear(outbox) if event["id"].startswith("t-")
    ]
    assert following._held_bytes == 0


def test_the_next_operator_tells_no_receiver_what_it_does_not_want_any_more() -> None:
    packed = encode_kept_events(hold(40))
    outbox = make_outbox(None, packed, types=("dev.podtune.trial.pending",))
    outbox.end_loading()
    assert {event["type"] for event in hear(outbox)} == {"dev.podtune.trial.pending"}
    outbox = make_outbox(None, packed, namespaces=("other",))
    outbox.end_loading()
    assert len(outbox) == 0


def test_what_was_given_up_is_left_to_nobody() -> None:
    outbox = make_outbox(None, encode_kept_events(hold(40)))
    outbox.end_loading()
    assert outbox.give_up() == 1
    assert outbox.is_held_told
    assert outbox.list_held() == KeptEvents()


def test_what_comes_after_a_trials_end_was_told_is_told_by_the_next_operator() -> None:
    outbox, trial = make_outbox(), WrittenTrial().turn(TrialState.TERMINATED)
    outbox.observe(trial.subject)
    hear(outbox)
    outbox.observe(trial.report(1, 0.5).subject)
    following = make_outbox(outbox.positions.encode())
    following.observe(trial.subject)
    assert [event["data"]["step"] for event in hear(following)] == [1]
