"""A watch that is dead is noticed; one that is alive is not taken for dead, whatever becomes of an object."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.controllers.watch.watch_health import ECHO_PATIENCE, WatchHealth


class Clock:
    time = 0.0

    def __call__(self) -> float:
        return self.time


def body(version: int, namespace: str = "team") -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "resourceVersion": str(version)}}


def after(*steps: tuple[str, int], wait: float = ECHO_PATIENCE + 1) -> bool:
    """Whether the watch is thought alive a while after these writes and events."""
    clock = Clock()
    health = WatchHealth(clock)
    for what, version in steps:
        getattr(health, what)("Trial", body(version))
        clock.time += 1
    clock.time += wait
    return health.is_alive


def test_without_writes_nothing_is_expected() -> None:
    assert after()
    assert after(("saw", 5))


def test_a_write_that_does_not_come_back_is_noticed_after_a_minute() -> None:
    assert after(("wrote", 5), wait=ECHO_PATIENCE - 2)
    assert not after(("wrote", 5))


def test_an_old_event_is_no_echo() -> None:
    assert not after(("wrote", 5), ("saw", 4))


def test_the_echo_may_come_before_the_answer() -> None:
    assert after(("saw", 5), ("wrote", 5))


def test_any_later_event_proves_as_much_as_the_echo() -> None:
    assert after(("wrote", 5), ("saw", 9))


def test_an_object_deleted_before_its_answer_came_leaves_nothing_to_wait_for() -> None:
    assert after(("saw", 6), ("wrote", 5))  # 6 is its deletion


def test_a_status_that_changed_nothing_has_no_echo_and_needs_none() -> None:
    assert after(("wrote", 5), ("saw", 5), ("wrote", 5))


def test_the_echo_of_one_write_is_not_that_of_the_next() -> None:
    assert not after(("wrote", 5), ("wrote", 9), ("saw", 5))
    assert after(("wrote", 5), ("wrote", 9), ("saw", 5), ("saw", 9))


def test_later_writes_do_not_put_the_minute_off() -> None:
    clock = Clock()
    health = WatchHealth(clock)
    for version in range(1, 100):
        health.wrote("Trial", body(version))
        clock.time += 1
    assert not health.is_alive


def test_one_dead_watch_is_noticed_among_others_that_live() -> None:
    clock = Clock()
    health = WatchHealth(clock)
    health.wrote("Trial", body(5))
    health.wrote("Pod", body(6))
    health.wrote("Trial", body(7, "other"))
    health.saw("Pod", body(6))
    health.saw("Trial", body(7, "other"))
    clock.time += ECHO_PATIENCE + 1
    assert not health.is_alive
    health.saw("Trial", body(5))
    assert health.is_alive


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=60), st.integers(0, 50))
def test_a_watch_that_lags_by_less_than_a_minute_is_alive_for_ever(writes: list[bool], lag: int) -> None:
    clock = Clock()
    health = WatchHealth(clock)
    written: list[int] = []
    for second, write in enumerate(writes):
        clock.time = float(second)
        if write:
            health.wrote("Trial", body(second + 1))
            written.append(second)
        for moment in written:
            if moment + lag == second:
                health.saw("Trial", body(moment + 1))
        assert health.is_alive


def test_the_lag_is_that_of_the_watch_that_is_furthest_behind() -> None:
    clock = Clock()
    health = WatchHealth(clock)
    assert health.compute_lag() == 0
    health.wrote("Trial", body(5, "one"))
    clock.time = 10
    health.wrote("Trial", body(6, "two"))
    clock.time = 15
    assert health.compute_lag() == 15
    health.saw("Trial", body(5, "one"))
    assert health.compute_lag() == 5
    health.saw("Trial", body(6, "two"))
    assert health.compute_lag() == 0
