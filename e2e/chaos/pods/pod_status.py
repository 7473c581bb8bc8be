"""What a kubelet reads in a trial's pod, and what it writes into its status."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from podtune.runner.records import ContainerEnd
from podtune.simulation.faults import COMPLETED

Object = dict[str, Any]

AGENT = "podtune-agent"


def read_agent_settings(body: Object) -> dict[str, str]:
    """What the operator tells the agent of a pod."""
    agent = next(c for c in body["spec"]["initContainers"] if c["name"] == AGENT)
    _command, variables = agent["args"]
    settings: dict[str, str] = json.loads(variables.replace("$$", "$"))
    return settings


def lacking_image() -> Object:
    """The program's image is not there."""
    agent = {"running": {"startedAt": now()}}
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "there is no such image"}}
    return {
        "phase": "Pending",
        "initContainerStatuses": [_container(AGENT, agent, ready=True)],
        "containerStatuses": [_container("trial", waiting, ready=False)],
    }


def running(started: str) -> Object:
    """Both containers run."""
    state = {"running": {"startedAt": started}}
    return {
        "phase": "Running",
        "startTime": started,
        "initContainerStatuses": [_container(AGENT, state, ready=True)],
        "containerStatuses": [_container("trial", state, ready=True)],
    }


def draining(started: str, end: ContainerEnd, until: str) -> Object:
    """The program has ended, and the agent goes on: to Kubernetes the pod is still running."""
    agent = {"running": {"startedAt": started}}
    return {
        "phase": "Running",
        "initContainerStatuses": [_container(AGENT, agent, ready=True)],
        "containerStatuses": [_container("trial", _terminated(started, end, until), ready=False)],
    }


def ended(started: str, end: ContainerEnd, words: str, until: str) -> Object:
    """Both containers have ended, the program's at a time before, the agent's now and with its termination message."""
    program = _terminated(started, end, until)
    agent = _terminated(started, COMPLETED, now())
    agent["terminated"]["message"] = words
    return {
        "phase": "Failed" if end.exit_code else "Succeeded",
        "initContainerStatuses": [_container(AGENT, agent, ready=False)],
        "containerStatuses": [_container("trial", program, ready=False)],
    }


def now() -> str:
    """The present time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_nanoseconds(moment: int) -> str:
    """A time in nanoseconds since the epoch, as the kubelet writes it into logs."""
    seconds, rest = divmod(moment, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"


def _terminated(started: str, end: ContainerEnd, until: str) -> Object:
    times = {"startedAt": started or until, "finishedAt": until}
    return {"terminated": {"exitCode": end.exit_code, "reason": end.reason, **times}}


def _container(name: str, state: Object, *, ready: bool) -> Object:
    return {"name": name, "image": "none", "imageID": "", "ready": ready, "restartCount": 0, "state": state}
