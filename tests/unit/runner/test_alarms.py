"""When trials are looked at again though nothing happens to them."""

from __future__ import annotations

import math

from podtune.runner.alarms import Alarms


def alarms() -> Alarms:
    made = Alarms()
    made.set("late", 5.0)
    made.set("early", 2.0)
    return made


def test_the_earliest_of_a_trial_rings_and_once() -> None:
    made = alarms()
    made.set("late", 3.0)
    made.set("late", 4.0)
    assert list(made.ring(2.5)) == ["early"]
    assert made.next == 3.0
    assert list(made.ring(10.0)) == ["late"]
    assert made.next == math.inf


def test_what_was_cancelled_wakes_nobody() -> None:
    made = alarms()
    made.cancel("early")
    made.cancel("unknown")
    assert made.next == 5.0
    assert list(made.ring(4.0)) == []
    made.set("early", 4.5)
    assert list(made.ring(10.0)) == ["early", "late"]
