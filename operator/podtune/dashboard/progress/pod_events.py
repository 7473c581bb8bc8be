"""What Kubernetes has told of a pod: when it was scheduled, how long its images took to pull, and what went wrong.

A pod's status says ContainerCreating while its images are pulled, its volumes mounted and its containers made. Only its
Events tell one from the other, and they are kept for an hour or so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from podtune.dashboard.numbers import format_clock
from podtune.dashboard.trial_rows import read_moment
from podtune.kube.manifests import Manifest

MOST_EVENTS = 100
_SCHEDULED, _PULLING, _PULLED, _STARTED = "Scheduled", "Pulling", "Pulled", "Started"


@dataclass(frozen=True, slots=True)
class PodEvent:
    """One Event.

    Attributes:
        begin: When it was first seen, in seconds since 1970.
        time: When it was last seen, as a time of day in UTC.
        after: The same in seconds after the first Event.
        container: Which container it is about; empty where it is about none.
        count: How often it was seen.
    """

    begin: float
    time: str
    after: float
    is_warning: bool
    reason: str
    note: str
    container: str
    count: int


@dataclass(frozen=True, slots=True)
class PodCourse:
    """The Events of a pod, and what they say of its start.

    Attributes:
        events: The latest, in order of time.
        pulls: How many images were pulled.
        pulled: Seconds that this took.
        start: Seconds from when the pod had a node until its last container started; None where not both are known.
        pulls_now: The container whose image is being pulled; empty where there is none.
    """

    events: Sequence[PodEvent]
    pulls: int = 0
    pulled: float = 0.0
    start: float | None = None
    pulls_now: str = ""


def trace_pod(items: Sequence[Manifest]) -> PodCourse:
    """The course of a pod by its Events, as the core group has them."""
    read = [found for item in items if (found := _read_times(item)) is not None]
    read.sort(key=lambda found: (found[1], found[0]))
    first = min((begin for begin, _, _ in read), default=0.0)
    events = [_read_event(item, begin, end, first) for begin, end, item in read]
    pulling: dict[str, float] = {}
    pulls, pulled = 0, 0.0
    for event in events:
        if event.reason == _PULLING:
            pulling.setdefault(event.container, event.begin)
        elif event.reason in (_PULLED, _STARTED) and event.container in pulling:
            since = pulling.pop(event.container)
            pulls, pulled = pulls + 1, pulled + first + event.after - since
    scheduled = next((event.after for event in events if event.reason == _SCHEDULED), None)
    started = next((event.after for event in reversed(events) if event.reason == _STARTED), None)
    return PodCourse(
        events=events[-MOST_EVENTS:],
        pulls=pulls,
        pulled=pulled,
        start=None if scheduled is None or started is None else started - scheduled,
        pulls_now=next(iter(pulling), ""),
    )


def _read_times(item: Manifest) -> tuple[float, float, Manifest] | None:
    """When an Event was first and last seen; None where it says neither. Newer components write other fields."""
    series = item.get("series") or {}
    texts = (item.get("firstTimestamp"), item.get("eventTime"), item.get("lastTimestamp"))
    moments = [moment for text in (*texts, series.get("lastObservedTime")) if (moment := read_moment(text)) is not None]
    return (moments[0], moments[-1], item) if moments else None


def _read_event(item: Manifest, begin: float, end: float, first: float) -> PodEvent:
    about: dict[str, Any] = item.get("involvedObject") or {}
    return PodEvent(
        begin=begin,
        time=format_clock(end),
        after=end - first,
        is_warning=item.get("type") == "Warning",
        reason=str(item.get("reason") or ""),
        note=str(item.get("message") or ""),
        container=str(about.get("fieldPath") or "").partition("{")[2].rstrip("}"),
        count=(item.get("series") or {}).get("count") or item.get("count") or 1,
    )
