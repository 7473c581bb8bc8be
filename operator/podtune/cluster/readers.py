"""From the API server's objects to the runner's records: each is read once, here."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

from podtune.api.experiment import ExperimentStatus
from podtune.api.names import EXPERIMENT_KIND, LABEL_ATTEMPT, LABEL_TRIAL, TRIAL_KIND
from podtune.api.pod_template import AGENT_CONTAINER, RESTORE_CONTAINER, trial_container
from podtune.api.trial import TrialSpec, TrialStatus
from podtune.api.validation import InvalidSpec, parse_experiment
from podtune.runner.records import ContainerEnd, Experiment, Pod, PodPhase, Trial, Waiting

Object = Mapping[str, Any]

HOPELESS = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
"""Reasons for a container to wait that rarely go away by themselves."""
DISRUPTION_CONDITIONS = ("DisruptionTarget", "TerminationTarget")


def version_of(body: Object) -> int:
    """The object's resource version, by which old news is told from new."""
    return int(body["metadata"]["resourceVersion"])


def owner_uid(body: Object, kind: str) -> str:
    """UID of the controller of that kind, empty where there is none."""
    for reference in body["metadata"].get("ownerReferences", []):
        if reference.get("controller") and reference["kind"] == kind:
            return str(reference["uid"])
    return ""


def read_experiment(body: Object, service_accounts: Collection[str] = ()) -> Experiment:
    """Reads an Experiment; a spec that can't be used becomes its `problem`.

    Args:
        body: The Experiment.
        service_accounts: Service accounts that trials may run as.
    """
    metadata = body["metadata"]
    try:
        spec, problem = parse_experiment(body, service_accounts), ""
    except InvalidSpec as error:
        spec, problem = None, str(error)
    return Experiment(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        version=version_of(body),
        generation=metadata.get("generation", 1),
        spec=spec,
        status=ExperimentStatus.model_validate(body.get("status") or {}),
        problem=problem,
        deleting="deletionTimestamp" in metadata,
    )


def read_trial(body: Object) -> Trial:
    """Reads a Trial.

    Raises:
        pydantic.ValidationError: It was made by someone else, and is no Trial of ours.
    """
    metadata = body["metadata"]
    return Trial(
        name=metadata["name"],
        uid=metadata["uid"],
        version=version_of(body),
        generation=metadata.get("generation", 1),
        spec=TrialSpec.model_validate(body["spec"]),
        status=TrialStatus.model_validate(body.get("status") or {}),
        deleting="deletionTimestamp" in metadata,
    )


def experiment_of_trial(body: Object) -> str:
    """UID of the Experiment that a Trial belongs to, empty where it belongs to none."""
    return owner_uid(body, EXPERIMENT_KIND)


def trial_of_pod(body: Object) -> str:
    """UID of the Trial that a pod belongs to, empty where it belongs to none."""
    return owner_uid(body, TRIAL_KIND)


def read_pod(body: Object, *, gone: bool = False) -> Pod:
    """Reads a trial's pod.

    Args:
        body: The pod.
        gone: Whether it was deleted; the body is what was last seen of it.
    """
    metadata, spec, status = body["metadata"], body["spec"], body.get("status") or {}
    program = trial_container(spec)
    containers = list(_statuses(status))
    program_end = next((s["state"]["terminated"] for s in containers if s["name"] == program and _ended(s)), None)
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        trial=metadata["labels"][LABEL_TRIAL],
        attempt=int(metadata["labels"][LABEL_ATTEMPT]),
        phase=PodPhase(status.get("phase", "Pending")),
        version=version_of(body),
        deleting="deletionTimestamp" in metadata,
        interrupted=_interrupted(metadata, program_end),
        gone=gone,
        node=spec.get("nodeName", ""),
        training=any(s["name"] == program and _started(s) for s in containers),
        restoring=any(s["name"] == RESTORE_CONTAINER and "running" in s.get("state", {}) for s in containers),
        waiting=_waiting(status, containers),
        ends=tuple(_end(s) for s in containers if s["name"] != AGENT_CONTAINER and _ended(s)),
        agent_message=_agent_message(containers),
        disruption=_disruption(status),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        started=_moment(status.get("startTime")),
    )


def _statuses(status: Object) -> Iterator[Object]:
    yield from status.get("initContainerStatuses", [])
    yield from status.get("containerStatuses", [])


def _ended(container: Object) -> bool:
    return "terminated" in container.get("state", {})


def _started(container: Object) -> bool:
    state = container.get("state", {})
    return "running" in state or bool(state.get("terminated", {}).get("startedAt"))


def _end(container: Object) -> ContainerEnd:
    terminated = container["state"]["terminated"]
    return ContainerEnd(
        name=container["name"],
        exit_code=terminated.get("exitCode", 0),
        reason=terminated.get("reason", ""),
        message=terminated.get("message", ""),
    )


def _agent_message(containers: list[Object]) -> str:
    """The agent's last words; it may have been restarted, then those of its last end count."""
    for container in containers:
        if container["name"] == AGENT_CONTAINER:
            for state in (container.get("state", {}), container.get("lastState", {})):
                if "terminated" in state:
                    return str(state["terminated"].get("message", ""))
    return ""


def _waiting(status: Object, containers: list[Object]) -> Waiting | None:
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return Waiting(condition.get("reason", "Unschedulable"), condition.get("message", ""))
    waits = [s["state"]["waiting"] for s in containers if "waiting" in s.get("state", {})]
    hopeless = next((wait for wait in waits if wait.get("reason") in HOPELESS), None)
    if hopeless is not None:
        return Waiting(hopeless["reason"], hopeless.get("message", ""), hopeless=True)
    return None


def _disruption(status: Object) -> str:
    for condition in status.get("conditions", []):
        if condition["type"] in DISRUPTION_CONDITIONS and condition["status"] == "True":
            return f"{condition.get('reason') or condition['type']}: {condition.get('message', '')}"
    return ""


def _interrupted(metadata: Object, program_end: Object | None) -> bool:
    """Whether the deletion was asked for before the program had ended."""
    if "deletionTimestamp" not in metadata:
        return False
    if program_end is None or not program_end.get("finishedAt"):
        return True
    asked = _moment(metadata["deletionTimestamp"]) - metadata.get("deletionGracePeriodSeconds", 0)
    return bool(asked <= _moment(program_end["finishedAt"]))


def _moment(text: str | None) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0.0
