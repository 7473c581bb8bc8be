"""What an Experiment or a Trial tells of, as CloudEvents.

Events are derived from what the API server has of an object, and from nothing else. So whichever operator looks at it,
and how often, the same event has the same id. How far a receiver has heard of an object is its `Position` there.

| what | told by | id |
|---|---|---|
| a change of state | `status.transitions` | its number |
| a checkpoint | `status.checkpoints` | iteration, and a digest of address and manifest |
| a result | a point of `status.curve` | its number, and a digest of the point |
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2s
from struct import pack
from typing import Any

from podtune.api.names import API_VERSION, EXPERIMENT_PLURAL, ExperimentState, TrialState
from podtune.api.resources.trial import Checkpoint
from podtune.api.resources.trial_curve import TrialCurve
from podtune.api.transitions import Transition, TrialTransition
from podtune.runner.records import Experiment, Trial

TYPE_PREFIX = "dev.podtune"
CHECKPOINT_TYPE = f"{TYPE_PREFIX}.trial.checkpoint"
RESULT_TYPE = f"{TYPE_PREFIX}.trial.result"
EVENT_TYPES = (
    *(f"{TYPE_PREFIX}.experiment.{state.lower()}" for state in ExperimentState),
    *(f"{TYPE_PREFIX}.trial.{state.lower()}" for state in TrialState),
    CHECKPOINT_TYPE,
    RESULT_TYPE,
)
"""All types of events."""

CloudEvent = dict[str, Any]
"""An event as CloudEvents 1.0 has it in JSON."""
_ENDS_OF_TRIALS = tuple(state for state in TrialState if state.is_finished)
_ENDS_OF_EXPERIMENTS = tuple(state for state in ExperimentState if state.is_finished)


@dataclass(frozen=True, slots=True)
class Position:
    """How far a receiver has heard of an object.

    Attributes:
        transition: Number of the last change of state.
        result: Number of the last result.
        curve: Which learning curve that is a number of: a trial that starts from scratch begins another one.
        checkpoints: Keys of the checkpoints that it has heard of, among those that are kept.
    """

    transition: int = 0
    result: int = 0
    curve: str = ""
    checkpoints: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Subject:
    """An Experiment, or one of its Trials, as it was last seen."""

    experiment: Experiment
    trial: Trial | None = None

    @property
    def uid(self) -> str:
        """Its UID."""
        return self.trial.uid if self.trial is not None else self.experiment.uid


@dataclass(frozen=True, slots=True)
class Step:
    """An event, and where its receiver is when it has heard of it.

    Attributes:
        missed: How many changes of state right before it are no longer on record.
    """

    event: CloudEvent
    position: Position
    missed: int = 0


def find_end(subject: Subject) -> Position:
    """The position of who has heard of everything that there is."""
    transitions = _get_transitions(subject)
    transition = transitions[-1].number if transitions else 0
    if subject.trial is None:
        return Position(transition)
    status, curve = subject.trial.status, _get_curve(subject)
    kept = frozenset(map(_make_checkpoint_key, status.checkpoints))
    return Position(transition, curve.results if curve is not None else 0, _identify_curve(curve), kept)


def is_told(subject: Subject, position: Position) -> bool:
    """Whether there is nothing more to be told."""
    end = find_end(subject)
    return (
        end.transition <= position.transition
        and (end.curve, end.result) == (position.curve, position.result)
        and end.checkpoints <= position.checkpoints
    )


def list_steps(subject: Subject, position: Position) -> Iterator[Step]:
    """What is to be told after a position, in order. The end of a trial comes after what it has brought."""
    transitions = [entry for entry in _get_transitions(subject) if entry.number > position.transition]
    missed = transitions[0].number - position.transition - 1 if transitions else 0
    ends = bool(transitions) and subject.trial is not None and transitions[-1].state in _ENDS_OF_TRIALS
    for entry in transitions[:-1] if ends else transitions:
        position = replace(position, transition=entry.number)
        yield Step(_tell_of_transition(subject, entry), position, missed)
        missed = 0
    if subject.trial is not None:
        for step in _list_gains(subject, subject.trial, position):
            position = step.position
            yield step
    if ends:
        position = replace(position, transition=transitions[-1].number)
        yield Step(_tell_of_transition(subject, transitions[-1]), position, missed)


def forgets(before: Subject, after: Subject, position: Position) -> bool:
    """Whether an object tells of something no more that it told of before, and that is to be told after a position."""
    untold = frozenset(_name_untold(before, position))
    return bool(untold) and not untold <= frozenset(_name_untold(after, position))


def _name_untold(subject: Subject, position: Position) -> Iterator[tuple[str, int | str]]:
    """What `list_steps` tells of, without the events: they take much longer to make."""
    for entry in _get_transitions(subject):
        if entry.number > position.transition:
            yield "", entry.number
    if subject.trial is None:
        return
    curve = _get_curve(subject)
    if curve is not None:
        name = _identify_curve(curve)
        told = position.result if name == position.curve else 0
        yield from ((name, number) for number, _ in _number_points(curve) if number > told)
    for key in map(_make_checkpoint_key, subject.trial.status.checkpoints):
        if key not in position.checkpoints:
            yield CHECKPOINT_TYPE, key


def _list_gains(subject: Subject, trial: Trial, position: Position) -> Iterator[Step]:
    """A trial's results, then its checkpoints."""
    spec, curve = subject.experiment.spec, _get_curve(subject)
    if spec is not None and curve is not None:
        metrics = [criterion.metric for criterion in spec.training_objective.criteria]
        name = _identify_curve(curve)
        told = position.result if name == position.curve else 0
        for number, point in _number_points(curve):
            if number > told:
                position = replace(position, result=number, curve=name)
                yield Step(_tell_of_result(subject, metrics, number, point), position)
    kept = {_make_checkpoint_key(checkpoint): checkpoint for checkpoint in trial.status.checkpoints}
    heard = position.checkpoints & frozenset(kept)
    for key, checkpoint in kept.items():
        if key not in heard:
            heard = heard | {key}
            position = replace(position, checkpoints=heard)
            yield Step(_tell_of_checkpoint(subject, key, checkpoint), position)


def _number_points(curve: TrialCurve) -> Iterator[tuple[int, tuple[float, ...]]]:
    """The points of a curve with the numbers of their results: they are the same however few points are left."""
    last = curve.count - 1
    for place, point in enumerate(curve.list_points()):
        yield (curve.results if place == last else 1 + place * curve.every), point


def _tell_of_transition(subject: Subject, entry: Transition) -> CloudEvent:
    kind = "experiment" if subject.trial is None else "trial"
    data: dict[str, Any] = {"number": entry.number, "state": entry.state, "reason": entry.reason}
    if isinstance(entry, TrialTransition):
        data["attempt"] = entry.attempt
    data |= _describe_end(subject, entry)
    type_ = f"{TYPE_PREFIX}.{kind}.{entry.state.lower()}"
    return _make(subject, type_, f"transition-{entry.number}", data, entry.time)


def _describe_end(subject: Subject, entry: Transition) -> dict[str, Any]:
    """What an end has come to. Once it has been followed by another state, nothing is said: that is not on record."""
    if entry != _get_transitions(subject)[-1]:
        return {}
    if subject.trial is not None and entry.state in _ENDS_OF_TRIALS:
        status = subject.trial.status
        return {"message": status.message, "iteration": status.iteration, "best": status.best}
    status_of_all = subject.experiment.status
    if subject.trial is None and entry.state in _ENDS_OF_EXPERIMENTS:
        best = status_of_all.best
        shown = {"trial": best.trial, "value": best.value, "parameters": best.parameters} if best is not None else None
        return {"message": status_of_all.message, "best": shown}
    return {}


def _tell_of_result(subject: Subject, metrics: list[str], number: int, point: tuple[float, ...]) -> CloudEvent:
    step, seconds, *values = point
    data = {
        "number": number,
        "step": int(step),
        "seconds": _show(seconds),
        "values": {metric: _show(value) for metric, value in zip(metrics, values, strict=False)},
    }
    return _make(subject, RESULT_TYPE, f"result-{number}-{_digest(pack(f'{len(point)}d', *point))}", data)


def _tell_of_checkpoint(subject: Subject, key: str, checkpoint: Checkpoint) -> CloudEvent:
    data = {
        "step": checkpoint.step,
        "uri": checkpoint.uri,
        "digest": checkpoint.digest,
        "metric": checkpoint.metric,
    }
    return _make(subject, CHECKPOINT_TYPE, f"checkpoint-{checkpoint.step}-{key}", data)


def _make(subject: Subject, type_: str, what: str, data: dict[str, Any], time: str = "") -> CloudEvent:
    experiment, trial = subject.experiment, subject.trial
    of_trial = {"trial": trial.name, "parameters": trial.spec.parameters} if trial is not None else {}
    event: CloudEvent = {
        "specversion": "1.0",
        "id": f"{subject.uid}-{what}",
        "source": f"/apis/{API_VERSION}/namespaces/{experiment.namespace}/{EXPERIMENT_PLURAL}/{experiment.name}",
        "type": type_,
        "subject": trial.name if trial is not None else experiment.name,
        "datacontenttype": "application/json",
        "data": {"namespace": experiment.namespace, "experiment": experiment.name, **of_trial, **data},
    }
    return event | {"time": time} if time else event


def _get_transitions(subject: Subject) -> list[TrialTransition] | list[Transition]:
    if subject.trial is not None:
        return subject.trial.status.transitions
    return subject.experiment.status.transitions or []


def _get_curve(subject: Subject) -> TrialCurve | None:
    """The learning curve of a Trial, if it has a point, and if it is known what is measured."""
    curve = subject.trial.status.curve if subject.trial is not None else None
    return curve if curve is not None and curve.packed and subject.experiment.spec is not None else None


def _make_checkpoint_key(checkpoint: Checkpoint) -> str:
    return _digest(f"{checkpoint.uri}\n{checkpoint.digest}".encode())


def _identify_curve(curve: TrialCurve | None) -> str:
    """By its first point, which stays whatever is thinned out; empty where there is none."""
    point = next(curve.list_points(), None) if curve is not None else None
    return _digest(pack(f"{len(point)}d", *point)) if point is not None else ""


def _digest(content: bytes) -> str:
    return blake2s(content, digest_size=6).hexdigest()


def _show(number: float) -> float | None:
    return number if math.isfinite(number) else None
