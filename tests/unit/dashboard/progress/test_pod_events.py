"""What the Events of a pod say of its start."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.dashboard.progress.pod_events import MOST_EVENTS, trace_pod


def event(reason: str, at: int, container: str = "", *, last: int | None = None, **facts: Any) -> dict[str, Any]:
    """As the kubelet writes it; a count above 1 is of the same again, until `last`."""
    about = {"kind": "Pod", "name": "p"} | ({"fieldPath": f"spec.containers{{{container}}}"} if container else {})
    return {
        "reason": reason,
        "type": "Normal",
        "message": f"{reason} it",
        "involvedObject": about,
        "eventTime": None,
        "firstTimestamp": f"2026-01-01T12:00:{at:02}Z",
        "lastTimestamp": f"2026-01-01T12:00:{at if last is None else last:02}Z",
        "count": 1 if last is None else 2,
    } | facts


def schedule(at: int) -> dict[str, Any]:
    """As the scheduler writes it."""
    times = {"eventTime": f"2026-01-01T12:00:{at:02}.250000Z"}
    return event("Scheduled", at) | times | dict.fromkeys(("firstTimestamp", "lastTimestamp"))


def test_pulling_is_told_from_what_else_a_start_takes() -> None:
    course = trace_pod(
        [
            event("Started", 50, "main"),
            event("Pulled", 45, "main"),
            event("Pulling", 5, "main"),
            schedule(1),
            event("Started", 4, "agent"),
            event("Pulled", 3, "agent", message="already present on machine"),
        ]
    )
    assert [(each.reason, each.container) for each in course.events] == [
        ("Scheduled", ""),
        ("Pulled", "agent"),
        ("Started", "agent"),
        ("Pulling", "main"),
        ("Pulled", "main"),
        ("Started", "main"),
    ]
    assert (course.pulls, course.pulled, course.start, course.pulls_now) == (1, 40.0, 48.75, "")
    assert [each.time for each in course.events][-1] == "12:00:50"
    assert course.events[-1].after == 48.75


def test_a_pull_that_goes_on_is_said() -> None:
    course = trace_pod([schedule(1), event("Pulling", 3, "main")])
    assert (course.pulls_now, course.start, course.pulls) == ("main", None, 0)


def test_a_pull_is_counted_from_its_first_try() -> None:
    tried = [
        event("Pulling", 3, "main", last=20),
        event("Failed", 4, "main", type="Warning"),
        event("Pulled", 23, "main"),
    ]
    course = trace_pod([schedule(1), *tried, event("Started", 24, "main")])
    assert (course.pulls, course.pulled) == (1, 20.0)
    assert [(each.reason, each.is_warning, each.count) for each in course.events][1:3] == [
        ("Failed", True, 1),
        ("Pulling", False, 2),
    ]


@pytest.mark.parametrize("series", [None, {"count": 7, "lastObservedTime": "2026-01-01T12:00:30Z"}])
def test_events_of_a_series_have_its_count_and_its_latest_time(series: dict[str, Any] | None) -> None:
    (found,) = trace_pod([schedule(2) | {"series": series}]).events
    assert (found.count, found.time) == ((7, "12:00:30") if series else (1, "12:00:02"))


def test_what_has_no_time_is_passed_over_and_of_very_many_the_latest_are_listed() -> None:
    nothing = event("Odd", 0) | dict.fromkeys(("firstTimestamp", "lastTimestamp"))
    many = [event("BackOff", at % 60, message=str(at)) for at in range(MOST_EVENTS + 20)]
    assert trace_pod([nothing]).events == []
    assert len(trace_pod([nothing, *many]).events) == MOST_EVENTS
