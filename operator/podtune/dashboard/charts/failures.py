"""Where in the search space trials fail, by what went wrong: a mark for each over two parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from podtune.api.names import TrialState
from podtune.api.resources.trial import TrialStatus
from podtune.dashboard.charts.contour import FINEST, ContourAxis, divide_axis, draw_dots, place_dot
from podtune.dashboard.charts.plots import MANY
from podtune.dashboard.decisions import DISRUPTION, FAILURE_CLASSES, find_failure_class
from podtune.dashboard.keeping import keep_by_trial, keep_chart
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow

MOST_FAILURES = 100
"""So many trials are in the table, those first that have failed for good."""


class FailureKind(StrEnum):
    """What went wrong, as people look for it."""

    MEMORY = "memory"
    DISK = "disk"
    PROGRAM = "program"
    INFRASTRUCTURE = "infrastructure"
    DISRUPTION = "disruption"
    OTHER = "other"


KIND_WORDS = {
    FailureKind.PROGRAM: "The program's own",
    FailureKind.MEMORY: "Out of memory",
    FailureKind.DISK: "Out of disk",
    FailureKind.INFRASTRUCTURE: "Before the program ran",
    FailureKind.DISRUPTION: "Disruption",
    FailureKind.OTHER: "Other",
}
"""In the order in which they are shown."""
_BY_CLASS = {
    "infrastructure": FailureKind.INFRASTRUCTURE,
    DISRUPTION: FailureKind.DISRUPTION,
    "ignored": FailureKind.OTHER,
}
"""By the class that the status and the decision ledger have; the others are the program's own."""
_BY_REASON = {"OOMKilled": FailureKind.MEMORY, "Evicted": FailureKind.DISK}
"""A pod that an ailing node evicts is disrupted; with this reason alone, it was evicted for its own disk."""
_BY_WORDS = {
    "used more memory than its limit": FailureKind.MEMORY,
    "ephemeral": FailureKind.DISK,
    "EmptyDir": FailureKind.DISK,
}
"""The ledger has a message and no reason: the first are the operator's words, the others the kubelet's."""


@dataclass(frozen=True, slots=True)
class LastFailure:
    """The last failure of a trial.

    Attributes:
        is_lasting: Whether the trial has failed for good.
    """

    row: TrialRow
    kind: FailureKind
    message: str
    is_lasting: bool


@dataclass(frozen=True, slots=True)
class FailureMark:
    """A failure in the plane.

    Attributes:
        x: Its place to the right, from 0 to 1.
        y: Its place upwards.
    """

    failure: LastFailure
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class FailureMap:
    """The chart.

    Attributes:
        marks: Failures in the plane.
        others: Path of the trials that have not failed.
        counts: How many trials failed in which way.
        listed: Those in the table.
        failed: How many trials have failed.
        lasting: How many of them for good.
        unplaced: How many of them lack one of both parameters.
    """

    x: ContourAxis
    y: ContourAxis
    marks: Sequence[FailureMark]
    others: str
    counts: Mapping[FailureKind, int]
    listed: Sequence[LastFailure]
    failed: int
    lasting: int
    unplaced: int

    @property
    def title(self) -> str:
        """What it shows."""
        return f"Failures over {self.x.name} and {self.y.name}"


@keep_chart
def draw_failures(experiment: ExperimentRows, x_name: str, y_name: str) -> FailureMap | None:
    """Failures over two parameters; None where no trial has failed."""
    failures = list_failures(experiment)
    if not failures:
        return None
    axes = {axis.name: axis for axis in experiment.axes}
    x, y = (divide_axis(experiment, axes[name], FINEST) for name in (x_name, y_name))
    placed = [mark for failure in failures if (mark := _place(failure, x, y)) is not None]
    names = {failure.row.name for failure in failures}
    counts = Counter(failure.kind for failure in failures)
    return FailureMap(
        x=x,
        y=y,
        marks=placed[:MANY][::-1],
        others=_draw_others([row for row in experiment.rows if row.name not in names], x, y),
        counts={kind: counts[kind] for kind in KIND_WORDS if counts[kind]},
        listed=failures[:MOST_FAILURES],
        failed=len(failures),
        lasting=sum(failure.is_lasting for failure in failures),
        unplaced=len(failures) - len(placed),
    )


@keep_chart
def list_failures(experiment: ExperimentRows) -> Sequence[LastFailure]:
    """The last failure of each trial: first of those that have failed for good, and the latest trials first."""
    found = [failure for failure in find_last_failure.read_all(experiment) if failure is not None]
    return sorted(found, key=lambda failure: (not failure.is_lasting, -failure.row.view.index))


@keep_by_trial
def find_last_failure(row: TrialRow) -> LastFailure | None:
    """How a trial failed last, even if it went on later; None where its status knows of no failure."""
    status = row.view.status
    is_lasting = row.view.state == TrialState.ERROR
    end = status.last_attempt
    if end is not None and end.failure_class in FAILURE_CLASSES:
        kind = _BY_REASON.get(end.reason) or _find_kind(end.failure_class)
        return LastFailure(row, kind, (status.message if is_lasting else "") or end.message or end.reason, is_lasting)
    if is_lasting:
        return LastFailure(row, FailureKind.OTHER, status.message or status.reason, is_lasting)
    return _find_in_ledger(row, status)


def _find_in_ledger(row: TrialRow, status: TrialStatus) -> LastFailure | None:
    for entry in reversed(status.ledger):
        if failure_class := find_failure_class(entry):
            words = (kind for text, kind in _BY_WORDS.items() if text in entry.message)
            own = next(words, None) if failure_class == "user" else None
            return LastFailure(row, own or _find_kind(failure_class), entry.message, is_lasting=False)
    return None


def _find_kind(failure_class: str) -> FailureKind:
    return _BY_CLASS.get(failure_class, FailureKind.PROGRAM)


def _place(failure: LastFailure, x: ContourAxis, y: ContourAxis) -> FailureMark | None:
    values, number = failure.row.view.parameters, failure.row.view.index
    at, to = x.axis.find_position(values.get(x.name)), y.axis.find_position(values.get(y.name))
    if at is None or to is None:
        return None
    return FailureMark(failure, place_dot(x, at, number), place_dot(y, to, number * 7))


def _draw_others(rows: Sequence[TrialRow], x: ContourAxis, y: ContourAxis) -> str:
    """The trials beside which the failures are seen; of very many an even sample."""
    places = [
        (row, at, to)
        for row in rows[:: -(-len(rows) // MANY) or 1]
        if (at := x.axis.find_position(row.view.parameters.get(x.name))) is not None
        and (to := y.axis.find_position(row.view.parameters.get(y.name))) is not None
    ]
    return draw_dots(x, y, places)
