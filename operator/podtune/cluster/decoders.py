"""Decodes the API server's objects into the runner's records: each is read once, here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Any, TypeVar

from podtune.api.names import (
    ANNOTATION_AUTHOR,
    ANNOTATION_AVOIDED_NODES,
    ANNOTATION_CONTAINER,
    ANNOTATION_GRACE,
    ANNOTATION_IMPORTED,
    ANNOTATION_IMPORTING,
    ANNOTATION_MADE_FOR,
    ANNOTATION_OWN_LIMITS,
    ANNOTATION_TEMPLATE_HASH,
    EXPERIMENT_KIND,
    GANG_GATE,
    LABEL_ATTEMPT,
    LABEL_MADE_FOR,
    LABEL_RANK,
    LABEL_REVISION,
    LABEL_ROLE,
    LABEL_STORAGE,
    LABEL_TRIAL,
    TRIAL_KIND,
)
from podtune.api.pods.container_resources import find_memory_limit
from podtune.api.pods.gpus import count_requested_gpus
from podtune.api.pods.pod_template import AGENT_CONTAINER, RESTORE_CONTAINER, find_trial_container
from podtune.api.pods.template_policy import DEFAULT_POLICY, TemplatePolicy
from podtune.api.resources.experiment import ExperimentSpec, ExperimentStatus
from podtune.api.resources.trial import UNNUMBERED, TrialSpec, TrialStatus
from podtune.api.resources.trial_numbers import FIRST_ADDED, parse_added_index
from podtune.api.validation import InvalidSpec, parse_experiment
from podtune.kube.answers import read_status
from podtune.kube.manifests import NamedObject, find_owner, find_owner_uid, name_object
from podtune.runner.attempts import grace_periods
from podtune.runner.records import ContainerEnd, Experiment, Pod, PodPhase, StoragePod, Trial, Waiting
from podtune.tuning.admission import find_problem

Object = Mapping[str, Any]
Decoded = TypeVar("Decoded")

HOPELESS = frozenset(
    {
        "CrashLoopBackOff",
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
"""Reasons for a container to wait that rarely go away by themselves; only sidecars are ever started again."""
MAX_DIGITS = 10
"""Of a number in an annotation or a label, which anybody may have written."""
DISRUPTION_CONDITIONS = ("DisruptionTarget", "TerminationTarget")


class MalformedObject(ValueError):
    """An object is not what this operator makes: somebody else made or changed it. The text names it.

    Attributes:
        object: Which one it is.
    """

    def __init__(self, problem: str, *, of: NamedObject) -> None:
        super().__init__(problem)
        self.object = of


def _guard(read: Callable[..., Decoded]) -> Callable[..., Decoded]:
    """Whatever is wrong with an object, one exception says so."""

    @wraps(read)
    def guarded(body: Object, *args: Any, **kwargs: Any) -> Decoded:
        try:
            return read(body, *args, **kwargs)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            found = name_object(body)
            name = f"{found.kind or 'object'} {found.namespace or None}/{found.name or None}"
            raise MalformedObject(f"{name} can't be read: {type(error).__name__}: {error}", of=found) from error

    return guarded


def read_version(body: Object) -> int:
    """The object's resource version, by which old news is told from new."""
    return int(body["metadata"]["resourceVersion"])


def is_same_but_for_status(metadata: Object, known: Experiment | Trial) -> bool:
    """Whether this is the metadata of a later version that differs from the known one by its status alone."""
    same = (known.uid, known.generation, known.deleting)
    found = (metadata["uid"], metadata.get("generation", 1), "deletionTimestamp" in metadata)
    return found == same and int(metadata["resourceVersion"]) > known.version


def leaves_dependents(body: Object) -> bool:
    """Whether an object is being deleted in such a way that what belongs to it stays, as by `--cascade=orphan`."""
    return "orphan" in (body["metadata"].get("finalizers") or ())


def find_experiment_of_trial(body: Object) -> str:
    """UID of the Experiment that a Trial belongs to, empty where it belongs to none."""
    return find_owner_uid(body, EXPERIMENT_KIND)


def find_owner_of_pod(body: Object) -> str:
    """UID of what a trial's pod belongs to, empty where it belongs to nothing.

    That is the Trial; of a warm pod, which serves one trial after the other, it is the Experiment.
    """
    is_shared = LABEL_MADE_FOR in (body["metadata"].get("labels") or {})
    return find_owner_uid(body, EXPERIMENT_KIND if is_shared else TRIAL_KIND)


@_guard
def decode_experiment(
    body: Object, policy: TemplatePolicy = DEFAULT_POLICY, *, known: Experiment | None = None
) -> Experiment:
    """Reads an Experiment; a spec that can't be used becomes its `problem`.

    A spec of the generation that is `known` is not read again.

    Raises:
        MalformedObject: It is no Experiment at all.
    """
    metadata = body["metadata"]
    annotations = metadata.get("annotations") or {}
    generation = int(metadata.get("generation", 1))
    if known is not None and known.generation == generation:
        spec, problem = known.spec, known.problem
    else:
        spec, problem = _decode_experiment_spec(body, policy)
    return Experiment(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        version=read_version(body),
        generation=generation,
        spec=spec,
        status=read_status(ExperimentStatus, body.get("status") or {}),
        problem=problem,
        deleting="deletionTimestamp" in metadata,
        finalizers=tuple(metadata.get("finalizers") or ()),
        importing=ANNOTATION_IMPORTING in annotations,
        imported=_count(annotations.get(ANNOTATION_IMPORTED) or ""),
        labels=dict(metadata.get("labels") or {}),
        annotations={key: text for key, text in annotations.items() if not key.startswith("kubectl.kubernetes.io/")},
        created=metadata.get("creationTimestamp") or "",
    )


@_guard
def decode_trial(body: Object) -> Trial:
    """Reads a Trial.

    Raises:
        MalformedObject: It was made by someone else, and is no Trial of ours.
    """
    metadata = body["metadata"]
    spec = TrialSpec.model_validate(body["spec"])
    if spec.index == UNNUMBERED:
        spec = spec.model_copy(update={"index": _read_added_index(metadata["name"], spec.experiment)})
    return Trial(
        name=metadata["name"],
        uid=metadata["uid"],
        version=read_version(body),
        generation=metadata.get("generation", 1),
        spec=spec,
        status=TrialStatus.model_validate(body.get("status") or {}),
        deleting="deletionTimestamp" in metadata,
        owned=bool(find_experiment_of_trial(body)),
        author=(metadata.get("annotations") or {}).get(ANNOTATION_AUTHOR, ""),
        created=metadata.get("creationTimestamp") or "",
    )


def _read_added_index(name: str, experiment: str) -> int:
    index = parse_added_index(name, experiment)
    if index is None:
        raise ValueError(f"{name!r} is not {experiment}-<number> with a number from {FIRST_ADDED} on")
    return index


@_guard
def decode_pod(body: Object, *, gone: bool = False) -> Pod:
    """Reads a trial's pod; of one that is gone, the body is what was last seen of it.

    Raises:
        MalformedObject: It is no pod of a trial.
    """
    metadata, spec, status = body["metadata"], body["spec"], body.get("status") or {}
    annotations = metadata.get("annotations") or {}
    program = annotations.get(ANNOTATION_CONTAINER) or find_trial_container(spec)
    sidecars = {c["name"] for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"}
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    training = [_read_state(c) for c in containers if c["name"] == program]
    phase = PodPhase(status.get("phase") or "Pending")
    ends = {
        c["name"]: end for c in containers if c["name"] not in sidecars and (end := _read_state(c).get("terminated"))
    }
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        trial=metadata["labels"].get(LABEL_MADE_FOR) or find_owner(body, TRIAL_KIND)["name"],
        attempt=int(metadata["labels"][LABEL_ATTEMPT]),
        phase=phase,
        version=read_version(body),
        deleting="deletionTimestamp" in metadata,
        deletion_requested=_find_deletion_request(metadata),
        gone=gone,
        node=spec.get("nodeName") or "",
        training=any(c["name"] == program and _has_started(c) for c in containers),
        restoring=any(c["name"] == RESTORE_CONTAINER and _is_running(c) for c in containers),
        waiting=_find_waiting(status, containers, sidecars),
        ends=tuple(_decode_end(name, end) for name, end in ends.items()),
        agent_message=_find_agent_message(containers),
        disruption=_find_disruption(status),
        reason=status.get("reason") or "",
        message=status.get("message") or "",
        avoids=tuple(filter(None, annotations.get(ANNOTATION_AVOIDED_NODES, "").split(","))),
        created=_parse_moment(metadata.get("creationTimestamp")),
        started=_parse_moment(status.get("startTime")),
        ended=_find_last(map(_read_state, containers), "terminated", "finishedAt") if phase.is_finished else 0.0,
        training_since=max(
            _find_last(training, "running", "startedAt"), _find_last(training, "terminated", "startedAt")
        ),
        training_until=_find_last(training, "terminated", "finishedAt"),
        gpus=count_requested_gpus(spec),
        trial_uid=annotations.get(ANNOTATION_MADE_FOR, ""),
        rank=int(metadata["labels"].get(LABEL_RANK, 0)),
        role=metadata["labels"].get(LABEL_ROLE, ""),
        gated=any(gate.get("name") == GANG_GATE for gate in spec.get("schedulingGates") or ()),
        template_hash=annotations.get(ANNOTATION_TEMPLATE_HASH, ""),
        program=program,
        revision=metadata["labels"].get(LABEL_REVISION, ""),
        own_limits=annotations.get(ANNOTATION_OWN_LIMITS, ""),
        memory=find_memory_limit(spec, program),
        own_grace=_read_own_grace(annotations, spec),
    )


def _read_own_grace(annotations: Mapping[str, str], spec: Object) -> int:
    """Seconds of a pod's grace period that are its program's: all, unless the annotation says less."""
    if ANNOTATION_GRACE in annotations:
        return _count(annotations[ANNOTATION_GRACE])
    return int(grace_periods.read_from_template(spec))


def find_experiment_of_storage_pod(body: Object) -> str:
    """UID of the Experiment that a pod does a job for, empty where it is another kind of pod."""
    return find_owner_uid(body, EXPERIMENT_KIND) if LABEL_STORAGE in (body["metadata"].get("labels") or {}) else ""


@_guard
def decode_storage_pod(body: Object, *, gone: bool = False) -> StoragePod:
    """Reads a pod that does a job in the bucket; of one that is gone, the body is what was last seen of it.

    Raises:
        MalformedObject: It is no such pod.
    """
    metadata, status = body["metadata"], body.get("status") or {}
    containers = list(status.get("containerStatuses") or ())
    ends = [end for container in containers if (end := _read_state(container).get("terminated"))]
    waiting = _find_waiting(status, containers, ())
    reason = ": ".join(part for part in (status.get("reason"), status.get("message")) if part)
    return StoragePod(
        name=metadata["name"],
        uid=metadata["uid"],
        phase=PodPhase(status.get("phase") or "Pending"),
        version=read_version(body),
        deleting="deletionTimestamp" in metadata,
        gone=gone,
        started=any(_has_started(container) for container in containers),
        waiting=f"{waiting.reason}: {waiting.message}" if waiting is not None else "",
        message=next((end["message"] for end in ends if end.get("message")), ""),
        reason=reason or next((end.get("reason") or "" for end in ends), ""),
    )


@dataclass(frozen=True, slots=True)
class GracePeriod:
    """What is left of a pod whose grace period is not its program's alone.

    Attributes:
        own: Seconds of the grace period that are the program's.
        given: Seconds that it was given when its deletion was asked for; 0 where it was not.
        deleted: When that was; 0 where it was not.
        program_runs: Whether a container runs that is no sidecar.
        agent_runs: Whether the agent does.
        attempt: Namespace, trial and number of the attempt.
        rank: Its index in a gang.
    """

    namespace: str
    name: str
    uid: str
    own: float
    given: float
    deleted: float
    program_runs: bool
    agent_runs: bool
    attempt: tuple[str, str, str]
    rank: int

    @property
    def is_deleting(self) -> bool:
        """Whether its deletion was asked for."""
        return bool(self.deleted)


def decode_grace_period(body: Object) -> GracePeriod | None:
    """Reads what tells how long a trial's pod may still take; None where its grace period is its program's alone.

    It may be anybody's pod: one that can't be read is nobody's.
    """
    metadata = body.get("metadata") or {}
    own = _count((metadata.get("annotations") or {}).get(ANNOTATION_GRACE, "-"))
    labels = metadata.get("labels") or {}
    if ANNOTATION_GRACE not in (metadata.get("annotations") or {}):
        return None
    try:
        spec, status = body["spec"], body.get("status") or {}
        sidecars = {c["name"] for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"}
        containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        given = float(metadata.get("deletionGracePeriodSeconds") or 0)
        deadline = _parse_moment(metadata.get("deletionTimestamp"))
        return GracePeriod(
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            own=float(own),
            given=given,
            deleted=deadline - given if deadline else 0.0,
            program_runs=any(_is_running(c) for c in containers if c["name"] not in sidecars),
            agent_runs=any(_is_running(c) for c in containers if c["name"] == AGENT_CONTAINER),
            attempt=(metadata["namespace"], labels.get(LABEL_TRIAL, ""), labels.get(LABEL_ATTEMPT, "")),
            rank=_count(labels.get(LABEL_RANK, "")),
        )
    except (AttributeError, LookupError, TypeError, ValueError):
        return None


def _count(text: str) -> int:
    """A number that anybody may have written; 0 where it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < MAX_DIGITS else 0


def _decode_experiment_spec(body: Object, policy: TemplatePolicy) -> tuple[ExperimentSpec | None, str]:
    try:
        spec = parse_experiment(body, policy)
        problem = find_problem(spec)
        return (None if problem else spec), problem
    except InvalidSpec as error:
        return None, str(error)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        return None, f"spec: can't be read ({type(error).__name__}: {error}); compare it with the documentation"


def _read_state(container: Object) -> Object:
    state: Object = container.get("state") or {}
    return state


def _find_last(states: Iterable[Object], state: str, field: str) -> float:
    """The latest point in time that a field of containers' states holds; 0 where none does."""
    return max((_parse_moment((found.get(state) or {}).get(field)) for found in states), default=0.0)


def _is_running(container: Object) -> bool:
    return _read_state(container).get("running") is not None


def _has_started(container: Object) -> bool:
    return _is_running(container) or bool((_read_state(container).get("terminated") or {}).get("startedAt"))


def _decode_end(name: str, terminated: Object) -> ContainerEnd:
    return ContainerEnd(
        name=name,
        exit_code=terminated.get("exitCode") or 0,
        reason=terminated.get("reason") or "",
        message=terminated.get("message") or "",
    )


def _find_agent_message(containers: Collection[Object]) -> str:
    """The agent's final commit; one that was restarted or killed may have written it before."""
    for container in containers:
        if container["name"] == AGENT_CONTAINER:
            for state in (_read_state(container), container.get("lastState") or {}):
                message = (state.get("terminated") or {}).get("message")
                if message:
                    return str(message)
    return ""


def _find_waiting(status: Object, containers: Collection[Object], sidecars: Collection[str]) -> Waiting | None:
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return Waiting(condition.get("reason") or "Unschedulable", condition.get("message") or "")
    waits = [wait for c in containers if (wait := _read_state(c).get("waiting"))]
    hopeless = next((wait for wait in waits if wait.get("reason") in HOPELESS), None)
    if hopeless is not None:
        return Waiting(hopeless["reason"], hopeless.get("message") or "", hopeless=True)
    if status.get("phase") == "Pending":
        return next((_crash_loop(c) for c in containers if c["name"] in sidecars and _is_crashing(c)), None)
    return None


def _is_crashing(sidecar: Object) -> bool:
    """Whether a sidecar has ended again and again: between two starts the kubelet shows its last end, no waiting."""
    return bool(_read_state(sidecar).get("terminated")) and (sidecar.get("restartCount") or 0) > 1


def _crash_loop(sidecar: Object) -> Waiting:
    end, name = _read_state(sidecar)["terminated"], sidecar["name"]
    words = end.get("message") or end.get("reason") or "Error"
    return Waiting("CrashLoopBackOff", f"container {name} ends with exit code {end.get('exitCode')}: {words}", True)


def _find_disruption(status: Object) -> str:
    for condition in status.get("conditions") or ():
        if condition["type"] in DISRUPTION_CONDITIONS and condition["status"] == "True":
            return f"{condition.get('reason') or condition['type']}: {condition.get('message') or ''}"
    return ""


def _find_deletion_request(metadata: Object) -> float:
    """When its deletion was requested, by the deadline that this has set; 0 where nobody has."""
    if "deletionTimestamp" not in metadata:
        return 0.0
    return _parse_moment(metadata["deletionTimestamp"]) - (metadata.get("deletionGracePeriodSeconds") or 0)


def _parse_moment(text: str | None) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0.0
