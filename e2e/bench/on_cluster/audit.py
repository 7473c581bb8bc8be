"""Counts writes in the API server's audit log."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path


class AuditLog:
    """The part of the audit log that is written from now on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start = path.stat().st_size

    def writes(self, user: str, namespace: str) -> Counter[str]:
        """Successful writes of a user in a namespace since, by verb and resource; Leases aside."""
        counts: Counter[str] = Counter()
        with self._path.open("rb") as lines:
            lines.seek(self._start)
            for line in lines:
                event = json.loads(line)
                reference = event.get("objectRef", {})
                if event["user"]["username"] != user or reference.get("namespace") != namespace:
                    continue
                if event["stage"] == "ResponseComplete" and event["responseStatus"]["code"] < 300:
                    kind = "/".join(filter(None, (reference["resource"], reference.get("subresource"))))
                    counts[f"{event['verb']} {kind}"] += 1
        return counts
