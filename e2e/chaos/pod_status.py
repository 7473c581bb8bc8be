"""What the kubelet writes into the status of a trial's pod."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]

AGENT = "podtune-agent"


@dataclass(frozen=True)
class End:
    """How the training container ended."""

    exit_code: int
    reason: str
    phase: str


COMPLETED = End(0, "Completed", "Succeeded")


def running(started: str) -> Object:
    """Both containers run."""
    state = {"running": {"startedAt": started}}
    return {
        "phase": "Running",
        "startTime": started,
        "initContainerStatuses": [_container(AGENT, state, ready=True)],
        "containerStatuses": [_container("trial", state, ready=True)],
    }


def ended(started: str, end: End, words: str) -> Object:
    """Both containers have ended, the agent's with its last words."""
    times = {"startedAt": started or now(), "finishedAt": now()}
    program = {"terminated": {"exitCode": end.exit_code, "reason": end.reason, **times}}
    agent = {"terminated": {"exitCode": 0, "reason": "Completed", "message": words, **times}}
    return {
        "phase": end.phase,
        "initContainerStatuses": [_container(AGENT, agent, ready=False)],
        "containerStatuses": [_container("trial", program, ready=False)],
    }


def now() -> str:
    """The present time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _container(name: str, state: Object, *, ready: bool) -> Object:
    return {"name": name, "image": "none", "imageID": "", "ready": ready, "restartCount": 0, "state": state}
