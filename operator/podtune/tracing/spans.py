"""What an Experiment or a Trial traces, once it has ended: spans with their ids, times and attributes.

Spans are made of what the API server has of an object, and of nothing else. So whichever operator makes one, and how
often, it has the same id. Only the end of what was deleted is not on record: whoever sees the deletion says when.

| span | from | until | parent |
|---|---|---|---|
| experiment | its creation | its end, one span for each time that it ends | none |
| trial | its creation | its end, one span for each time that it ends | experiment |
| attempt | the creation of its pod | the record of its end | trial |
| start | the creation of the pod | the start of the program | attempt |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from podtune.api.names import DecisionKind, ExperimentState, TrialState
from podtune.api.resources.trial import AttemptEnd, LedgerEntry, TrialStatus
from podtune.kube.trace_context import (
    make_attempt_span_id,
    make_experiment_span_id,
    make_start_span_id,
    make_trace_id,
    make_trial_span_id,
)
from podtune.runner.attempts.classification import FailureClass
from podtune.runner.experiment.resumption import read_run_generation
from podtune.runner.records import Experiment, Trial
from podtune.runner.timestamps import parse_rfc3339

DELETED_STATE = "Deleted"
"""The state of what was deleted before its end."""
MAX_PARAMETER_TEXT = 256
_ENDS_WELL = (FailureClass.COMPLETE, FailureClass.OURS)

SpanAttributes = Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened at one time of a span.

    Attributes:
        time: In seconds since the epoch.
    """

    name: str
    time: float
    attributes: SpanAttributes


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """A span that has ended.

    Attributes:
        parent_id: Id of its parent; empty where it has none.
        start: In seconds since the epoch.
        end: In seconds since the epoch; not before the start.
        error: Why it failed; None where it did not.
    """

    name: str
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    start: float
    end: float
    attributes: SpanAttributes
    events: tuple[SpanEvent, ...] = ()
    error: str | None = field(default=None)


def build_experiment_span(experiment: Experiment, deleted_at: float | None = None) -> TraceSpan | None:
    """The span of an experiment; None where it has not ended, or nothing is known of its beginning."""
    status, start = experiment.status, _find_start(experiment)
    end = _parse(status.completion_time) or deleted_at
    if start is None or end is None:
        return None
    state = str(status.state or "") if status.completion_time else DELETED_STATE
    best = {"podtune.best.trial": status.best.trial, "podtune.best.value": status.best.value} if status.best else {}
    return TraceSpan(
        name="experiment",
        trace_id=make_trace_id(experiment.uid),
        span_id=make_experiment_span_id(experiment.uid, read_run_generation(status)),
        parent_id=b"",
        start=start,
        end=max(start, end),
        attributes={**_describe_experiment(experiment), "podtune.experiment.state": state, **best},
        error=status.message if state == ExperimentState.FAILED else None,
    )


def build_trial_span(experiment: Experiment, trial: Trial, deleted_at: float | None = None) -> TraceSpan | None:
    """The span of a trial, with the latest decisions on it; None as for an experiment."""
    status, start = trial.status, _find_trial_start(experiment, trial)
    completed = _parse(status.completion_time)
    end = completed or deleted_at
    if start is None or end is None:
        return None
    end = max(start, end)
    state = str(status.state or "") if completed is not None else DELETED_STATE
    outcome: dict[str, str | int] = {"podtune.trial.state": state, "podtune.iteration": status.iteration}
    if completed is not None:
        outcome["podtune.trial.reason"] = status.reason
    if status.best_value:
        outcome["podtune.best.value"] = status.best_value
    parameters = status.parameters or trial.spec.parameters
    failed = state == TrialState.ERROR
    return TraceSpan(
        name="trial",
        trace_id=make_trace_id(experiment.uid),
        span_id=_make_parent_id(experiment, trial),
        parent_id=make_experiment_span_id(experiment.uid, _find_run_generation(experiment, trial)),
        start=start,
        end=end,
        attributes={
            **_describe_trial(experiment, trial),
            **outcome,
            **({"error.type": status.reason} if failed else {}),
            **{f"podtune.parameter.{name}": text[:MAX_PARAMETER_TEXT] for name, text in parameters.items()},
        },
        events=tuple(_list_events(status, start, end)),
        error=status.message if failed else None,
    )


def build_attempt_spans(experiment: Experiment, trial: Trial) -> Iterator[TraceSpan]:
    """The spans of a trial's last attempt that has ended, the parent first; none where its times are not known."""
    ended, trial_start = trial.status.last_attempt, _find_trial_start(experiment, trial)
    created, until = (_parse(ended.creation_time), _parse(ended.end_time)) if ended is not None else (None, None)
    if ended is None or trial_start is None or created is None or until is None:
        return
    start = max(trial_start, min(created, until))
    end = max(start, until)
    attempt_id, trace_id = make_attempt_span_id(trial.uid, ended.attempt), make_trace_id(experiment.uid)
    described = _describe_attempt(experiment, trial, ended)
    failed = ended.failure_class not in _ENDS_WELL
    yield TraceSpan(
        name="attempt",
        trace_id=trace_id,
        span_id=attempt_id,
        parent_id=_make_parent_id(experiment, trial),
        start=start,
        end=end,
        attributes={**described, **_describe_end(ended), **({"error.type": ended.reason} if failed else {})},
        error=ended.message if failed else None,
    )
    program = _parse(ended.start_time)
    yield TraceSpan(
        name="start",
        trace_id=trace_id,
        span_id=make_start_span_id(trial.uid, ended.attempt),
        parent_id=attempt_id,
        start=start,
        end=min(end, max(start, program)) if program is not None else end,
        attributes=described,
        error=None if program is not None or not failed else "the program did not start",
    )


def _find_run_generation(experiment: Experiment, trial: Trial) -> int:
    """In which run of the experiment the trial ended or, if it has not, runs."""
    status = trial.status
    return status.run_generation if status.completion_time else read_run_generation(experiment.status)


def _make_parent_id(experiment: Experiment, trial: Trial) -> bytes:
    """The id of the trial's span."""
    return make_trial_span_id(trial.uid, _find_run_generation(experiment, trial))


def _find_start(experiment: Experiment) -> float | None:
    created = _parse(experiment.created)
    return created if created is not None else _parse(experiment.status.start_time)


def _find_trial_start(experiment: Experiment, trial: Trial) -> float | None:
    """A trial begins with its object, and no earlier than its experiment."""
    whole, own = _find_start(experiment), _parse(trial.created)
    if whole is None or own is None:
        return whole
    return max(whole, own)


def _describe_experiment(experiment: Experiment) -> dict[str, str | int]:
    return {
        "k8s.namespace.name": experiment.namespace,
        "podtune.experiment.name": experiment.name,
        "podtune.experiment.uid": experiment.uid,
    }


def _describe_trial(experiment: Experiment, trial: Trial) -> dict[str, str | int]:
    return {
        **_describe_experiment(experiment),
        "podtune.trial.name": trial.name,
        "podtune.trial.uid": trial.uid,
    }


def _describe_attempt(experiment: Experiment, trial: Trial, ended: AttemptEnd) -> dict[str, str | int]:
    described = {**_describe_trial(experiment, trial), "podtune.attempt.number": ended.attempt}
    uid = ended.uid.partition("/")[0]  # of a reused pod, the attempt is named behind it
    found = {"k8s.pod.name": ended.pod, "k8s.pod.uid": uid, "k8s.node.name": ended.node}
    return described | {name: text for name, text in found.items() if text}


def _describe_end(ended: AttemptEnd) -> dict[str, str | int]:
    described: dict[str, str | int] = {"podtune.attempt.class": ended.failure_class}
    described["podtune.attempt.reason"] = ended.reason
    if ended.exit_code is not None:
        described["process.exit.code"] = ended.exit_code
    return described


def _list_events(status: TrialStatus, start: float, end: float) -> Iterator[SpanEvent]:
    """The decisions that the ledger still has, but for those that changed nothing."""
    for entry in status.ledger:
        time = _parse(entry.time)
        if time is not None and entry.action != DecisionKind.CONTINUE:
            yield SpanEvent(f"podtune.{entry.action.lower()}", min(end, max(start, time)), _describe_decision(entry))


def _describe_decision(entry: LedgerEntry) -> SpanAttributes:
    return {
        "podtune.decision.message": entry.message,
        "podtune.attempt.number": entry.attempt,
        "podtune.iteration": entry.step,
    }


def _parse(text: str | None) -> float | None:
    """A time of a status; None where there is none, or somebody has written what is none."""
    try:
        return parse_rfc3339(text)
    except ValueError:
        return None
