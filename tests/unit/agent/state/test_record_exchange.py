"""When an agent asks for records of the snapshot."""

from podtune.agent.state.record_exchange import RecordExchange
from podtune.protocol.snapshot import WARM_START, SnapshotRecord, StoredVersions

TRIAL = SnapshotRecord("digits-7", 5, "{}")


def test_without_a_period_none_is_asked_for() -> None:
    assert RecordExchange().ask(1e9) is None


def test_the_first_one_waits_its_turn() -> None:
    exchange = RecordExchange(60.0, first_wait=20.0)
    assert exchange.ask(100.0) is None
    assert exchange.ask(119.0) is None
    assert exchange.ask(120.0) == StoredVersions(0, 0)


def test_at_most_one_a_period_is_taken() -> None:
    exchange = RecordExchange(60.0)
    exchange.ask(0.0)
    exchange.take([TRIAL], 1.0)
    exchange.mark_stored(TRIAL)
    assert exchange.ask(60.0) is None
    assert exchange.ask(61.0) == StoredVersions(5, 0)


def test_where_nothing_is_new_each_report_asks_again() -> None:
    exchange = RecordExchange(60.0)
    exchange.ask(0.0)
    exchange.take([], 1.0)
    assert exchange.ask(2.0) == StoredVersions(0, 0)


def test_a_record_that_is_stored_late_does_not_hide_a_newer_one() -> None:
    exchange = RecordExchange(60.0)
    newer = SnapshotRecord("digits-7", 6, "{}")
    exchange.take([TRIAL], 0.0)
    exchange.take([newer], 60.0)
    exchange.mark_stored(TRIAL)
    assert exchange.list_waiting() == [newer]


def test_a_warm_start_does_not_wait_for_the_next_period_and_is_asked_for_once() -> None:
    exchange = RecordExchange(60.0)
    exchange.ask(0.0)
    exchange.take([TRIAL], 1.0)
    exchange.mark_stored(TRIAL)
    exchange.request_warm_start()
    assert exchange.ask(2.0) == StoredVersions(5, 0, lacks_warm_start=True)
    assert exchange.ask(3.0) is None
    record = SnapshotRecord(WARM_START, 1, "{}")
    exchange.take([record], 4.0)
    assert exchange.list_waiting() == [record]
    exchange.mark_stored(record)
    assert exchange.list_waiting() == []
    assert exchange.ask(61.0) == StoredVersions(5, 0), "it puts off no other record"
