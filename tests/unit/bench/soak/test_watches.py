"""Whether the operator's watches were renewed is read from the audit log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from e2e.soak.watches import LONGEST_WATCH, WATCHED, WatchFigures, find_stale, read_watches

BEGAN = datetime(2026, 5, 1, 12, tzinfo=UTC)
OPERATOR = "system:serviceaccount:podtune-system:podtune"


def event(watch: tuple[str, int], stage: str, began: datetime, seconds: float = 0.0, user: str = OPERATOR) -> str:
    resource, number = watch
    return json.dumps({
        "verb": "watch",
        "auditID": f"{resource}-{number}",
        "stage": stage,
        "user": {"username": user},
        "objectRef": {"resource": resource},
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": began.isoformat(),
        "stageTimestamp": (began + timedelta(seconds=seconds)).isoformat(),
    })  # fmt: skip


def renewed(resource: str, times: int, seconds: float = LONGEST_WATCH, user: str = OPERATOR) -> Iterator[str]:
    """A watch that is begun so many times, each as long; the last one goes on."""
    for number in range(times):
        began = BEGAN + timedelta(seconds=number * seconds)
        yield event((resource, number), "ResponseStarted", began, user=user)
        if number < times - 1:
            yield event((resource, number), "ResponseComplete", began, seconds, user)


def measure(lines: list[str], now: datetime) -> dict[str, WatchFigures]:
    return {name: WatchFigures.make(found, now) for name, found in read_watches(lines, BEGAN).items()}


def test_watches_that_are_renewed_are_as_they_should_be() -> None:
    lines = [line for resource in WATCHED for line in renewed(resource, 9)]
    found = measure(lines, BEGAN + timedelta(minutes=45))
    assert found == {resource: WatchFigures(9, 300.0) for resource in WATCHED}
    assert find_stale(found, 45) == []


def test_a_watch_that_is_never_renewed_is_found() -> None:
    lines = [line for resource in WATCHED for line in renewed(resource, 1 if resource == "pods" else 9)]
    found = measure(lines, BEGAN + timedelta(minutes=45))
    assert find_stale(found, 45) == [
        "1 watches of pods within 45 minutes: at least 8 are to be expected",
        "a watch of pods lasts for 2700 s: it should end after 300 s",
    ]


def test_a_watch_that_outlasts_its_time_is_found_though_it_has_ended() -> None:
    lines = list(renewed("experiments", 9, seconds=331))
    assert find_stale(measure(lines, BEGAN + timedelta(seconds=9 * 331)), 5) == [
        "a watch of experiments lasts for 331 s: it should end after 300 s"
    ]


def test_no_watch_at_all_is_found_and_those_of_others_do_not_count() -> None:
    lines = [line for resource in WATCHED for line in renewed(resource, 9, user=f"{OPERATOR}-dashboard")]
    earlier = BEGAN - timedelta(hours=1)
    lines += [event((resource, n), "ResponseStarted", earlier) for resource in WATCHED for n in range(9)]
    found = measure(lines, BEGAN + timedelta(minutes=45))
    assert [problem.partition(" within")[0] for problem in find_stale(found, 45)] == [
        "0 watches of experiments",
        "0 watches of pods",
        "0 watches of trials",
    ]
