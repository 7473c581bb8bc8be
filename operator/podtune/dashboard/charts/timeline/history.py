"""Tells from a trial's status what the trial was doing when.

A status holds when a trial first trained, the latest decisions on it with their times, when it last began or ceased to
run, and when it ended. What lies between is told from the time that its program and pods have taken, where that leaves
but one answer. Nothing else is made up: such a stretch is not on record, or its beginning is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, DecisionKind, TrialReason, TrialState
from podtune.api.resources.trial import LedgerEntry
from podtune.dashboard.charts.timeline.durations import fill_in_durations
from podtune.dashboard.charts.timeline.lost import find_lost
from podtune.dashboard.charts.timeline.spans import Activity, Mark, Span, TrialHistory
from podtune.dashboard.decisions import ENDS_ATTEMPT, find_failure_class, is_failure
from podtune.dashboard.trial_rows import ENDED_PROGRESS, ShownState, TrialRow, read_moment

_STARTS = frozenset({TrialReason.STARTING, TrialReason.PULLING_IMAGE, TrialReason.RESTORING, TrialReason.CANNOT_START})
_GOES_ON = frozenset(
    {
        DecisionKind.PROMOTE,
        DecisionKind.START,
        DecisionKind.EXPLOIT,
        DecisionKind.RETRY,
        DecisionKind.RESTART,
        DecisionKind.EVALUATE,
        DecisionKind.RESUME,
    }
)
"""Another attempt follows on these."""
_UNTOLD = "the decisions in between have left the status; they are in the bucket, in ledger.jsonl"
_HAD_ENDED = "it had ended, until the experiment went on"


@dataclass(slots=True)
class _Course:
    """What has been told of a trial so far.

    Attributes:
        at: The moment that it has been told up to.
        attempt: The attempt at this moment, or else the next one.
        has_pod: Whether that is under way.
    """

    at: float
    activity: Activity
    attempt: int = 1
    is_exact: bool = True
    sentence: str = ""
    spans: list[Span] = field(default_factory=list)

    @property
    def has_pod(self) -> bool:
        return self.activity in (Activity.TRAINING, Activity.EVALUATING, Activity.SAVING)

    def turn(
        self, moment: float, activity: Activity, *, is_exact: bool = True, mark: Mark = Mark.NONE, sentence: str = ""
    ) -> None:
        """Something else begins; times that a clock has put the wrong way round are as the ledger has their order."""
        moment = max(moment, self.at)
        said = sentence if mark or self.has_pod else ""
        if moment > self.at or mark:
            attempt = self.attempt if self.has_pod or self.activity is Activity.UNKNOWN else 0
            told = said or self.sentence
            self.spans.append(
                Span(self.activity, self.at, moment, attempt, is_exact=self.is_exact, mark=mark, sentence=told)
            )
        self.at, self.activity, self.is_exact = moment, activity, is_exact
        self.sentence = "" if said else sentence


def trace_trial(row: TrialRow) -> TrialHistory:
    """What a trial was doing when, as far as its status tells."""
    status = row.view.status
    entries = [(moment, entry) for entry in status.ledger if (moment := read_moment(entry.time)) is not None]
    moments = [row.started, *(moment for moment, _ in entries), row.ended]
    first = min((moment for moment in moments if moment is not None), default=None)
    made = read_moment(row.view.created)
    if made is not None:
        first = made if first is None else min(made, first)
    if first is None:
        return TrialHistory()
    course = _Course(first, Activity.WAITING)
    _follow(course, row, entries)
    _come_to_present(course, row)
    is_open = row.ended is None
    spans = course.spans
    if is_open or not spans:
        attempt = course.attempt if course.has_pod else 0
        spans.append(
            Span(course.activity, course.at, course.at, attempt, is_exact=course.is_exact, sentence=course.sentence)
        )
    divided = fill_in_durations(spans, status, made, is_open=is_open)
    told = list(_add_nodes(find_lost(divided, row), row))
    final = row.progress if row.progress in ENDED_PROGRESS else ShownState.DONE
    return TrialHistory(told, None if is_open else final, is_open)


def _follow(course: _Course, row: TrialRow, entries: Sequence[tuple[float, LedgerEntry]]) -> None:
    """Goes through the start and the decisions, in the order of their times."""
    started = row.started
    for moment, entry in entries:
        if started is not None and started <= moment:
            course.turn(started, Activity.TRAINING)
            started = None
        _decide(course, moment, entry, row)
    if started is not None and (row.ended is None or started <= row.ended):
        course.turn(started, Activity.TRAINING)


def _decide(course: _Course, moment: float, entry: LedgerEntry, row: TrialRow) -> None:
    """Follows one decision."""
    if entry.attempt > course.attempt and entry.action in ENDS_ATTEMPT | {DecisionKind.CONTINUE}:
        # Attempts have come and gone that nothing is known of.
        course.activity, course.is_exact, course.sentence = Activity.UNKNOWN, True, _UNTOLD
        course.attempt = entry.attempt
    match entry.action:
        case DecisionKind.CONTINUE if not course.has_pod:
            course.turn(moment, Activity.TRAINING)
        case DecisionKind.PAUSE:
            course.turn(moment, Activity.PAUSED, sentence=entry.message)
            course.attempt = entry.attempt + 1
        case DecisionKind.RESUME if course.activity is Activity.SAVING:
            course.activity, course.sentence = Activity.PAUSED, _HAD_ENDED
            course.turn(moment, _find_next(row, moment), is_exact=False)
            course.attempt = entry.attempt + 1
        case action if action in _GOES_ON:
            follows, mark = _find_next(row, moment), _find_mark(entry)
            is_exact = follows is Activity.WAITING
            course.turn(moment, follows, is_exact=is_exact, mark=mark, sentence=entry.message)
            course.attempt = max(course.attempt, entry.attempt + 1)
        case DecisionKind.STOP | DecisionKind.FAIL if course.has_pod or course.activity is Activity.UNKNOWN:
            course.turn(moment, Activity.SAVING, mark=_find_mark(entry), sentence=entry.message)
        case _:
            pass


def _find_next(row: TrialRow, moment: float) -> Activity:
    """What follows on a decision to start or to go on: a wait, and then the program's run, or the wait alone."""
    if row.started is None or row.started > moment:
        return Activity.WAITING
    return _name_program(row, moment)


def _name_program(row: TrialRow, moment: float) -> Activity:
    evaluation = row.view.status.evaluation
    since = read_moment(evaluation.since) if evaluation is not None else None
    return Activity.EVALUATING if since is not None and since <= moment else Activity.TRAINING


def _come_to_present(course: _Course, row: TrialRow) -> None:
    """From the last decision to the end, or to what the trial is doing now."""
    status, ended = row.view.status, row.ended
    if ended is not None:
        if course.has_pod and status.attempt > course.attempt:
            course.activity, course.attempt, course.sentence = Activity.UNKNOWN, status.attempt, _UNTOLD
        is_failed = row.view.state == TrialState.ERROR and not any(span.mark for span in course.spans[-1:])
        is_program = course.has_pod and course.activity is not Activity.SAVING
        mark = Mark.FAILURE if is_failed and is_program else Mark.NONE
        said = "" if course.activity is Activity.SAVING else status.message  # the decision has said it
        course.turn(ended, Activity.WAITING, mark=mark, sentence=said)
        return
    running = find_condition(status.conditions, ConditionType.RUNNING)
    since = read_moment(running.last_transition_time) if running is not None else None
    is_running = running is not None and running.status == "True"
    if is_running:
        # An archive has such a trial as pending: it was running when it was exported.
        if not course.is_exact and since is not None and since >= course.at:
            program, course.activity, course.is_exact = course.activity, Activity.WAITING, True
            course.turn(since, program)
        elif not course.has_pod:
            course.turn(since or course.at, _name_program(row, course.at))
        decided = read_moment(status.decision.time) if status.decision is not None else None
        if decided is not None and status.reason == TrialReason.DRAINING and course.has_pod:
            course.turn(decided, Activity.SAVING, sentence=status.message)
        course.attempt = max(course.attempt, status.attempt)
    elif row.view.state == TrialState.PAUSED:
        if course.has_pod:
            course.turn(since or course.at, Activity.PAUSED)
        elif since is not None and course.activity is Activity.PAUSED and since > course.at:
            course.activity = Activity.SAVING
            course.turn(since, Activity.PAUSED)
    elif row.view.state != TrialState.RUNNING:
        waits = Activity.STARTING if status.reason in _STARTS else Activity.WAITING
        if course.has_pod and course.is_exact:
            if since is None:
                return  # when it ceased to run is not on record, so it still does as far as is known
            course.turn(since, waits)
        course.activity, course.is_exact, course.sentence = waits, True, status.message


def _find_mark(entry: LedgerEntry) -> Mark:
    if is_failure(entry):
        return Mark.FAILURE
    return Mark.DISRUPTION if find_failure_class(entry) else Mark.NONE


def _add_nodes(spans: Iterator[Span], row: TrialRow) -> Iterator[Span]:
    """The last attempt's pod is on record, and nodes that attempts have failed on."""
    status = row.view.status
    failed = {read_moment(each.time): each.node for each in status.failed_nodes}
    for span in spans:
        node = row.view.node if span.attempt and span.attempt == status.attempt else ""
        node = node or (failed.get(span.end, "") if span.mark else "")
        yield replace(span, node=node) if node else span
