"""Tells when attempts began from how long programs and pods have run, where there is but one answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from podtune.api.resources.trial import TrialStatus
from podtune.cli.views.formats import format_duration
from podtune.dashboard.charts.timeline.spans import Activity, Span

_MOSTLY = 0.8
"""A stretch whose attempts are not on record is shown as training if that was this share of it, or more."""


def fill_in_durations(
    spans: Sequence[Span], status: TrialStatus, earliest: float | None, *, is_open: bool
) -> Sequence[Span]:
    """Divides waits from the program's run after them.

    Args:
        spans: What is on record.
        status: The trial's status.
        earliest: When the trial was made; None where that is not on record.
        is_open: Whether the last of them goes on.
    """
    usage, evaluation = status.usage, status.evaluation
    if usage is None:
        return spans
    programs = (Activity.TRAINING, Activity.EVALUATING)
    if is_open and spans[-1].activity in programs and usage.attempt is None:
        return spans  # what of it the present attempt has used is not written yet
    current = usage.attempt.training_seconds if usage.attempt is not None and is_open else 0
    whole, trained = usage.training_seconds, evaluation.training_seconds if evaluation is not None else None
    ended, last = (spans[:-1], spans[-1:]) if is_open else (spans, ())
    ended = _divide(ended, Activity.TRAINING, whole - current if trained is None else trained)
    ended = _divide(ended, Activity.EVALUATING, 0 if trained is None else whole - trained - current)
    return _find_start([*ended, *last], status, earliest, is_open=is_open)


def _divide(spans: Sequence[Span], activity: Activity, seconds: float) -> Sequence[Span]:
    """Finds the beginning of the only run whose beginning is not on record, or what an unknown stretch was."""
    own = (activity, Activity.UNKNOWN) if activity is Activity.TRAINING else (activity,)
    unknown = [place for place, span in enumerate(spans) if span.activity in own and not _is_known(span)]
    known = sum(span.seconds for at, span in enumerate(spans) if span.activity is activity and at not in unknown)
    left = max(seconds - known, 0.0)
    if len(unknown) != 1:
        if activity is not Activity.TRAINING or left < _MOSTLY * sum(spans[place].seconds for place in unknown):
            return spans
        return [_take_as_training(span) if span.activity is Activity.UNKNOWN else span for span in spans]
    place = unknown[0]
    span = spans[place]
    if span.activity is Activity.UNKNOWN:
        told = replace(span, sentence=f"{format_duration(min(left, span.seconds))} of training; {span.sentence}")
        is_mostly = left >= _MOSTLY * span.seconds
        return [*spans[:place], _take_as_training(told) if is_mostly else told, *spans[place + 1 :]]
    begin = min(max(span.end - left, span.begin), span.end)
    waiting = [Span(Activity.WAITING, span.begin, begin)] if begin > span.begin else []
    return [*spans[:place], *waiting, replace(span, begin=begin, is_exact=True), *spans[place + 1 :]]


def _is_known(span: Span) -> bool:
    return span.is_exact and span.activity is not Activity.UNKNOWN


def _take_as_training(span: Span) -> Span:
    return replace(span, activity=Activity.TRAINING, is_exact=False)


def _find_start(spans: Sequence[Span], status: TrialStatus, earliest: float | None, *, is_open: bool) -> Sequence[Span]:
    """How long the pod of a trial's only attempt was on a node before the program ran."""
    usage = status.usage
    place = next((at for at, span in enumerate(spans) if span.activity is Activity.TRAINING), None)
    is_only = status.attempt == 1 and status.evaluation is None
    if usage is None or place is None or place > 1 or not is_only or not spans[place].is_exact:
        return spans
    if any(span.activity in (Activity.PAUSED, Activity.UNKNOWN) for span in spans):
        return spans  # when the pod has ended is not on record
    run = sum(span.seconds for span in spans[place:])
    stop = 0.0 if is_open else max(run - usage.training_seconds, 0.0)
    begun = spans[place].begin
    begin = begun - max(usage.pod_seconds - usage.training_seconds - stop, 0.0)
    begin = min(max(begin, spans[0].begin if place else begin, earliest if earliest is not None else begin), begun)
    before = [replace(span, end=begin) for span in spans[:place] if span.begin < begin]
    starting = [Span(Activity.STARTING, begin, begun, 1)] if begin < begun else []
    return [*before, *starting, *spans[place:]]
