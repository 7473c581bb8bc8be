"""The histories of all trials of an experiment; those of trials that have not changed are kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from podtune.dashboard.charts.timeline.history import trace_trial
from podtune.dashboard.charts.timeline.spans import Span, TrialHistory
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow, read_moment

_KEPT = 16


@dataclass(frozen=True, slots=True)
class TracedTrial:
    """A trial with its history up to the moment that all are looked at."""

    row: TrialRow
    history: TrialHistory

    @property
    def begin(self) -> float:
        """When it begins."""
        return self.history.begin or 0.0

    @property
    def end(self) -> float:
        """When it has ended, or what is looked at."""
        return self.history.end or 0.0


@dataclass(frozen=True, eq=False, slots=True)
class Timeline:
    """An experiment over time.

    Attributes:
        trials: Those of whose time anything is on record, by when they begin.
        begin: In seconds since 1970.
        end: The present moment, or else the last one that is on record; after `begin`.
        untold: How many trials nothing is on record of.
    """

    trials: Sequence[TracedTrial]
    begin: float
    end: float
    untold: int

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.end - self.begin


_kept: OrderedDict[tuple[str, str], Mapping[str, tuple[TrialRow, TrialHistory]]] = OrderedDict()
"""The latest histories of each experiment. They hold no moment at which they were looked at."""


def trace_experiment(experiment: ExperimentRows, now: float | None = None) -> Timeline | None:
    """What all trials were doing when; None where nothing is on record.

    Args:
        experiment: The experiment.
        now: The present time, in seconds since 1970; None for what is no longer under way, or was exported.
    """
    is_over = read_moment(experiment.view.status.completion_time) is not None
    return _trace(experiment, None if is_over else now)


@lru_cache(maxsize=_KEPT)
def _trace(experiment: ExperimentRows, now: float | None) -> Timeline | None:
    began = read_moment(experiment.view.status.start_time)
    histories = _trace_all(experiment, began)
    told = [(row, history) for row, history in histories.values() if history.spans]
    if not told:
        return None
    ends = [history.spans[-1].end for _, history in told]
    last = max([*ends, *([now] if now is not None else ())])
    done = read_moment(experiment.view.status.completion_time)
    last = max(last, done) if done is not None else last
    trials = [TracedTrial(row, _extend(history, last)) for row, history in told]
    trials.sort(key=lambda trial: (trial.begin, trial.row.view.index))
    begin = min(trials[0].begin, began) if began is not None else trials[0].begin
    return Timeline(trials, begin, max(last, begin + 1.0), len(experiment.rows) - len(trials))


def _trace_all(experiment: ExperimentRows, began: float | None) -> Mapping[str, tuple[TrialRow, TrialHistory]]:
    key = experiment.view.namespace, experiment.view.name
    known = _kept.get(key, {})
    found = {}
    for row in experiment.rows:
        before = known.get(row.name)
        found[row.name] = before if before is not None and before[0] is row else (row, trace_trial(row, began))
    _kept[key] = found
    _kept.move_to_end(key)
    while len(_kept) > _KEPT:
        _kept.popitem(last=False)
    return found


def _extend(history: TrialHistory, last: float) -> TrialHistory:
    """The same up to the moment that is looked at."""
    if not history.is_open:
        return history
    *before, span = history.spans
    spans: list[Span] = [*before, replace(span, end=max(last, span.begin))]
    return replace(history, spans=spans)
