"""When trials are looked at again though nothing happens to them."""

from __future__ import annotations

import math

from podtune.runner.timers import Timers


def timers() -> Timers:
    made = Timers()
    made.set("late", 5.0)
    made.set("early", 2.0)
    return made


def test_the_earliest_of_a_trial_rings_and_once() -> None:
    made = timers()
    made.set("late", 3.0)
    made.set("late", 4.0)
    assert list(made.pop_due(2.5)) == ["early"]
    assert made.next == 3.0
    assert list(made.pop_due(10.0)) == ["late"]
    assert made.next == math.inf


def test_what_was_cancelled_wakes_nobody() -> None:
    made = timers()
    made.cancel("early")
    made.cancel("unknown")
    assert made.next == 5.0
    assert list(made.pop_due(4.0)) == []
    made.set("early", 4.5)
    assert list(made.pop_due(10.0)) == ["early", "late"]
