"""The watches of the operator, as the API server's audit log has them: each is renewed, and none lasts too long."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from e2e.install import OPERATOR_NAMESPACE, RELEASE
from podtune.controllers.watch.kopf import make_settings

WATCHED = ("experiments", "trials", "pods")
"""What the operator watches all the time."""
LONGEST_WATCH = float(make_settings().watching.server_timeout or 0)
"""Seconds after which the API server ends a watch, as the operator asks it to."""
WATCH_GRACE = 30.0
"""Seconds that a watch may last longer, until it counts as one that nobody renews."""
_OPERATOR = f"system:serviceaccount:{OPERATOR_NAMESPACE}:{RELEASE}"


@dataclass(slots=True)
class Watches:
    """Those of one resource.

    Attributes:
        began: When each was asked for, by the id of its request.
        lasted: Seconds, of those that have ended.
    """

    began: dict[str, datetime] = field(default_factory=dict)
    lasted: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WatchFigures:
    """How often the watch of a resource was begun, and how long the longest of them has lasted, in seconds."""

    count: int
    longest: float

    @classmethod
    def make(cls, watches: Watches, now: datetime) -> WatchFigures:
        """Those of some watches; those that go on are as old as they are now."""
        ages = (watches.lasted.get(watch, (now - began).total_seconds()) for watch, began in watches.began.items())
        return cls(len(watches.began), max(ages, default=0.0))


def read_watches(lines: Iterable[str], since: datetime) -> dict[str, Watches]:
    """Reads from an audit log which watches the operator has asked for since a moment, by resource."""
    found = {resource: Watches() for resource in WATCHED}
    for line in lines:
        if '"watch"' not in line or _OPERATOR not in line:
            continue
        event = json.loads(line)
        if event["verb"] != "watch" or event["user"]["username"] != _OPERATOR:
            continue
        began = datetime.fromisoformat(event["requestReceivedTimestamp"])
        if began < since or not _is_granted(event):
            continue
        watches = found.setdefault(event["objectRef"]["resource"], Watches())
        watches.began[event["auditID"]] = began
        if event["stage"] in ("ResponseComplete", "Panic"):
            ended = datetime.fromisoformat(event["stageTimestamp"])
            watches.lasted[event["auditID"]] = (ended - began).total_seconds()
    return found


def _is_granted(event: Mapping[str, object]) -> bool:
    """Whether the API server has begun to answer with events, or will."""
    status = event.get("responseStatus")
    return not isinstance(status, Mapping) or int(status.get("code", 200)) == 200


def count_least(minutes: float) -> int:
    """How many watches of a resource there are at least within so many minutes, if each is renewed."""
    return int(minutes * 60 / LONGEST_WATCH) - 1


def find_stale(watches: Mapping[str, WatchFigures], minutes: float) -> list[str]:
    """Says which watches were not renewed as they should be: a line for each resource and flaw."""
    least = count_least(minutes)
    problems = []
    for resource, found in sorted(watches.items()):
        if found.count < least:
            problems.append(
                f"{found.count} watches of {resource} within {minutes:g} minutes: at least {least} are to be expected"
            )
        if found.longest > LONGEST_WATCH + WATCH_GRACE:
            lasts, most = f"{found.longest:.0f} s", f"{LONGEST_WATCH:.0f} s"
            problems.append(f"a watch of {resource} lasts for {lasts}: it should end after {most}")
    return problems
