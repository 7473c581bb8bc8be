"""What one tenant's token tries on another tenant's trial, at the operator's results server: all is to be refused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from podtune.protocol.messages import Report, Result

Request = dict[str, Any]
FORGED = 987654.0
"""A value that no program reports."""


@dataclass(frozen=True)
class RunningTrial:
    """A tenant's trial.

    Attributes:
        namespace: Whose it is.
        name: Its own.
        attempt: The UID of its pod.
    """

    namespace: str
    name: str
    attempt: str

    @property
    def path(self) -> str:
        """Where its agent reports to."""
        return f"/v1/namespaces/{self.namespace}/trials/{self.name}"

    def report(self, value: float) -> Any:
        """One more result, as its agent would post it."""
        result = Result(seq=3, time=1.0, metrics={"value": value}, step=3)
        return json.loads(Report(self.attempt, results=(result,)).to_json())


def list_attacks(own: RunningTrial, victim: RunningTrial, token: str) -> list[Request]:
    """What the agent of `own`, whose token it is, asks for; without a body it is a GET."""
    posts = [
        (victim, own.report(FORGED)),
        (victim, victim.report(FORGED)),
        (own, victim.report(FORGED)),  # in the name of the victim's pod
    ]
    asks: list[Request] = [{"path": f"{trial.path}/results", "token": token, "body": report} for trial, report in posts]
    return [*asks, *({"path": f"{victim.path}/log{query}", "token": token} for query in ("", "?follow=false"))]
