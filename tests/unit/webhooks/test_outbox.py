"""What a receiver has still to be told: by whom it is served, what it wants, and what is gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtune.api.names import TrialState
from podtune.api.resources.trial import FormerTrial
from podtune.webhooks import outbox as outbox_module
from podtune.webhooks.events import CloudEvent, Subject
from podtune.webhooks.outbox import ReceiverOutbox
from podtune.webhooks.positions import Positions
from tests.unit.webhooks.subjects import EXPERIMENT, RECEIVER, WrittenTrial, hear, make_outbox


def ended(index: int = 0, uid: str = "t-0") -> WrittenTrial:
    return WrittenTrial(index, uid).turn(TrialState.RUNNING).report(1, 0.5).turn(TrialState.TERMINATED)


def test_a_receiver_hears_only_the_types_that_it_wants() -> None:
    outbox = make_outbox(types=("dev.podtune.trial.*ed", "dev.podtune.experiment.*"))
    outbox.observe(ended().subject)
    assert [event["type"] for event in hear(outbox)] == ["dev.podtune.trial.terminated"]
    assert len(outbox) == 0


def test_a_receiver_hears_only_of_its_namespaces() -> None:
    outbox = make_outbox(namespaces=("other-*",))
    assert not outbox.observe(ended().subject)
    outbox = make_outbox(namespaces=("te*",))
    assert outbox.observe(ended().subject)


def test_batches_are_as_long_as_they_may_be_and_in_order() -> None:
    outbox = make_outbox()
    for index in range(3):
        outbox.observe(ended(index, f"t-{index}").subject)
    lengths = []
    subjects = []
    while len(outbox):
        batch = outbox.take(4)
        lengths.append(len(batch.events))
        subjects += [event["subject"] for event in batch.events]
        outbox.confirm(batch)
    assert lengths == [4, 4, 1]
    assert subjects == [f"digits-{index}" for index in (0, 0, 0, 1, 1, 1, 2, 2, 2)]


def test_what_happens_while_a_request_is_under_way_is_told_after_it() -> None:
    outbox, trial = make_outbox(), WrittenTrial().turn(TrialState.RUNNING)
    outbox.observe(trial.subject)
    batch = outbox.take(10)
    outbox.observe(trial.turn(TrialState.PAUSED).subject)
    outbox.confirm(batch)
    assert [event["data"]["state"] for event in hear(outbox)] == ["PAUSED"]


def test_a_new_receiver_hears_of_what_comes_from_now_on() -> None:
    outbox, trial = ReceiverOutbox(RECEIVER, Positions(None)), WrittenTrial().turn(TrialState.RUNNING)
    assert not outbox.observe(trial.subject)
    outbox.end_loading()
    assert not outbox.observe(trial.subject)
    assert outbox.observe(trial.turn(TrialState.TERMINATED).subject)
    other = WrittenTrial(1, "t-1").turn(TrialState.RUNNING)
    assert outbox.observe(other.subject)


def test_what_was_moved_here_is_not_told_again() -> None:
    outbox, trial = make_outbox(), ended()
    outbox.skip(trial.subject)
    assert not outbox.observe(trial.subject)
    assert outbox.observe(trial.turn(TrialState.PENDING).subject)


def test_a_trial_that_is_deleted_before_it_was_told_is_told_all_the_same() -> None:
    outbox, trial = make_outbox(), ended()
    outbox.observe(Subject(EXPERIMENT))
    outbox.observe(trial.subject)
    outbox.forget(trial.subject)
    outbox.forget(Subject(EXPERIMENT))
    assert len(hear(outbox)) == 3
    assert outbox.positions.encode() == {}, "nothing is kept of what is gone"


def test_of_too_many_deleted_ones_the_oldest_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "MAX_GONE", 2)
    outbox = make_outbox()
    given_up = []
    for index in range(3):
        trial = ended(index, f"t-{index}")
        outbox.observe(trial.subject)
        given_up.append(outbox.forget(trial.subject))
    assert given_up == [0, 0, 1]
    assert {event["subject"] for event in hear(outbox)} == {"digits-1", "digits-2"}


def test_a_trial_that_is_made_anew_under_an_old_index_is_told() -> None:
    outbox = make_outbox()
    outbox.observe(ended().subject)
    hear(outbox)
    kept = outbox.positions.encode()
    anew = ended(0, "t-new").read()
    anew = replace(anew, spec=anew.spec.model_copy(update={"former": FormerTrial(uid="t-0")}))
    following = make_outbox(kept)
    assert following.observe(Subject(EXPERIMENT, anew))
    assert {event["id"].rpartition("-transition")[0] for event in hear(following) if "state" in event["data"]} == {
        "t-new"
    }


def test_what_was_given_up_is_not_told_later() -> None:
    outbox = make_outbox()
    outbox.observe(ended().subject)
    assert outbox.give_up() == 1
    assert len(outbox) == 0
    assert not outbox.observe(ended().subject)


def test_positions_that_somebody_has_damaged_count_for_nothing() -> None:
    for text in ("", "{", "[]", '{"own": 1}', '{"own":1,"ended":{"0":"x"},"trials":{}}'):
        assert make_outbox({EXPERIMENT.uid: text}).observe(ended().subject)


def test_positions_of_experiments_that_are_gone_are_dropped() -> None:
    outbox = make_outbox({"e-gone": '{"own":1,"ended":{},"trials":{}}'})
    outbox.end_loading()
    assert outbox.positions.has_changed
    assert outbox.positions.encode() == {}


def change_often(outbox: ReceiverOutbox, times: int) -> WrittenTrial:
    """A trial that changes its state and has a checkpoint more, again and again, while nothing is told."""
    trial = WrittenTrial()
    for time in range(1, times + 1):
        state = TrialState.RUNNING if time % 2 else TrialState.PAUSED
        outbox.observe(trial.turn(state, time).store(time).subject)
    return trial


def list_numbers(events: list[CloudEvent]) -> list[int]:
    return [event["data"]["number"] for event in events if "state" in event["data"]]


def test_more_changes_than_a_status_records_are_told_all_the_same_and_in_order() -> None:
    outbox = make_outbox()
    change_often(outbox, 40)
    heard = hear(outbox, 7)
    assert list_numbers(heard) == list(range(1, 41))
    steps = [event["data"]["step"] for event in heard if event["type"].endswith("checkpoint")]
    assert steps == list(range(1, 41))
    assert len({event["id"] for event in heard}) == len(heard) == 80


def test_who_wants_only_some_types_misses_nothing_of_them_and_nothing_is_held_of_others() -> None:
    outbox = make_outbox(types=("dev.podtune.trial.terminated",))
    trial = change_often(outbox, 40)
    assert outbox._held_bytes == 0
    for attempt in range(41, 60):
        outbox.observe(trial.turn(TrialState.TERMINATED, attempt).subject)
        outbox.observe(trial.turn(TrialState.RUNNING, attempt).subject)
    batch = outbox.take(100)
    assert list_numbers(list(batch.events)) == list(range(41, 78, 2))
    assert batch.missed == 0


def test_of_too_much_the_oldest_is_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = make_outbox()
    change_often(outbox, 400)
    room = outbox._held_bytes // 2
    monkeypatch.setattr(outbox_module, "MAX_HELD_BYTES", room)
    outbox = make_outbox()
    change_often(outbox, 400)
    assert outbox._held_bytes <= room
    assert 300 < outbox.left_out < 500
    heard = hear(outbox)
    assert len(heard) == 800 - outbox.left_out
    numbers = list_numbers(heard)
    assert numbers == list(range(numbers[0], 401)), "what is left has no gap"
    assert outbox._held_bytes == 0


def test_what_is_held_goes_with_its_object() -> None:
    outbox = make_outbox()
    trial = change_often(outbox, 40)
    outbox.forget(trial.subject)
    assert list_numbers(hear(outbox)) == list(range(1, 41)), "a deleted one is told"
    change_often(outbox, 40)
    outbox.skip(trial.subject)
    assert outbox._held_bytes == len(outbox) == 0
    change_often(outbox, 40)
    assert outbox.give_up() == 1
    assert outbox._held_bytes == len(outbox) == 0
