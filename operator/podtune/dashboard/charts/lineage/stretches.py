"""How the trials of a population hang together: stretches of training, each continued from another one's checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from podtune.api.names import DecisionKind
from podtune.api.resources.trial import MAX_NUMBERS, LedgerEntry
from podtune.dashboard.charts.lineage.exploits import (
    ABSENT,
    ExploitReader,
    RecordedExploit,
    read_changes,
    shorten_value,
)
from podtune.dashboard.keeping import keep_chart
from podtune.dashboard.numbers import read_finite
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow

_Configuration = Mapping[str, str]
_Cut = tuple[int, RecordedExploit | None]
"""Where a stretch begins among the points of a curve, and the exploit that it begins with, if that is on record."""


@dataclass(frozen=True, eq=False, slots=True)
class Stretch:
    """What a trial did between two exploits of its own.

    Attributes:
        exploit: What it began with; None for the first one, and where that is no longer on record.
        is_unexplained: Whether it began with an exploit that is no longer on record.
        start: The iteration that it continued from.
        end: The last one that it came to.
        points: Iterations and values on the way; None where no value was reported.
        configuration: What it ran with at its end; None where that is no longer on record.
    """

    row: TrialRow
    exploit: RecordedExploit | None
    is_unexplained: bool
    start: float
    end: float
    points: Sequence[tuple[float, float | None]]
    configuration: _Configuration | None


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A stretch that a trial's weights went through, as far as the next one took it over.

    Attributes:
        end: Iteration of the checkpoint that the next one continued from; the end of the stretch for the last.
        configuration: What it ran with there.
    """

    stretch: Stretch
    end: float
    configuration: _Configuration | None


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where a trial's weights come from.

    Attributes:
        ancestors: The oldest first; the last one is the trial's own stretch.
        lack: Why the chain does not begin with a trial's start; empty where it does.
    """

    row: TrialRow
    ancestors: Sequence[Ancestor]
    lack: str

    @property
    def exploits(self) -> list[RecordedExploit]:
        """Those along the chain."""
        return [each.stretch.exploit for each in self.ancestors if each.stretch.exploit is not None]


@dataclass(frozen=True, eq=False, slots=True)
class Population:
    """All trials with their stretches.

    Attributes:
        exploits: All that are on record, in the order of time.
        stretches: By trial; the oldest first.
        unexplained: How many exploits are seen in curves alone.
    """

    experiment: ExperimentRows
    exploits: Sequence[RecordedExploit]
    stretches: Mapping[str, Sequence[Stretch]]
    unexplained: int


@keep_chart
def read_population(experiment: ExperimentRows) -> Population:
    """Reads what the Trials' statuses have of exploits."""
    reader = ExploitReader(experiment)
    exploits = {row.name: reader.list_exploits(row) for row in experiment.rows}
    stretches = {row.name: divide_trial(row, exploits[row.name]) for row in experiment.rows}
    return Population(
        experiment=experiment,
        exploits=sorted(
            (exploit for found in exploits.values() for exploit in found),
            key=lambda exploit: (exploit.entry.time, exploit.row.view.index, exploit.entry.number),
        ),
        stretches=stretches,
        unexplained=sum(stretch.is_unexplained for found in stretches.values() for stretch in found),
    )


def divide_trial(row: TrialRow, exploits: Sequence[RecordedExploit]) -> list[Stretch]:
    """A trial's stretches.

    Its ledger keeps the latest decisions only, but each exploit that took it back is a fall in its curve.
    """
    curve = row.view.status.curve
    points = [(step, read_finite(str(values[0]))) for step, _, *values in curve.list_points()] if curve else []
    steps = [step for step, _ in points]
    begun = _find_beginnings(steps, [exploit for exploit in exploits if not exploit.is_undone])
    taken = {at for at, _ in begun}
    falls = [at for at in range(1, len(steps)) if steps[at] <= steps[at - 1] and at not in taken]
    cuts: list[_Cut] = sorted([*begun, *((at, None) for at in falls)], key=lambda cut: cut[0])
    if not any(at == 0 and exploit is not None and not exploit.left for at, exploit in cuts):
        cuts.insert(0, (0, None))
    configurations = _trace_configurations(row, [exploit for _, exploit in cuts])
    bounds = [*cuts[1:], (len(points), None)]
    return [
        _make_stretch(row, cut, following, points[cut[0] : following[0]], configuration, is_first=place == 0)
        for place, (cut, following, configuration) in enumerate(zip(cuts, bounds, configurations, strict=True))
    ]


def _make_stretch(
    row: TrialRow,
    cut: _Cut,
    following: _Cut,
    points: Sequence[tuple[float, float | None]],
    configuration: _Configuration | None,
    *,
    is_first: bool,
) -> Stretch:
    """The stretch from one cut of a curve to the next."""
    exploit, next_exploit = cut[1], following[1]
    start = exploit.checkpoint if exploit is not None else 0.0 if is_first or not points else points[0][0]
    ends = [start, *(step for step, _ in points)]
    if next_exploit is not None:
        ends.append(next_exploit.left)
    elif exploit is None and not points:
        ends.append(float(row.view.status.iteration))
    return Stretch(
        row=row,
        exploit=exploit,
        is_unexplained=exploit is None and (not is_first or _was_changed(row, configuration)),
        start=start,
        end=max(ends),
        points=points,
        configuration=configuration,
    )


def trace_lineage(population: Population, name: str) -> Lineage | None:
    """The chain of checkpoints that a trial's weights come from; None where there is no such trial.

    Each link is an earlier decision than the one after it, so the chain comes to an end.
    """
    own = population.stretches.get(name)
    if not own:
        return None
    stretch, end, configuration = own[-1], own[-1].end, own[-1].configuration
    found: list[Ancestor] = []
    lack = ""
    while True:
        found.insert(0, Ancestor(stretch, end, configuration))
        exploit = stretch.exploit
        if exploit is None:
            lack = f"{stretch.row.name} has cloned another trial before" if stretch.is_unexplained else ""
            break
        donor = _find_donor_stretch(population, exploit)
        if donor is None:
            lack = f"{exploit.donor} is not among the trials of this experiment"
            break
        configuration = find_donor_configuration(population, exploit, donor)
        stretch, end = donor, exploit.checkpoint
    return Lineage(own[-1].row, found, lack)


def find_donor_configuration(population: Population, exploit: RecordedExploit, donor: Stretch) -> _Configuration | None:
    """What a donor ran with when it was cloned; what nobody has kept of it is told by the decision on its clone."""
    if donor.configuration is not None and _may_be_donor(donor, exploit):
        return donor.configuration
    own = next((each.configuration for each in population.stretches[exploit.row.name] if each.exploit is exploit), None)
    if own is None or not exploit.changes or any(not change.donor for change in exploit.changes):
        return None
    return {**own, **{change.name: change.donor for change in exploit.changes}}


def _find_donor_stretch(population: Population, exploit: RecordedExploit) -> Stretch | None:
    """The donor's stretch that a checkpoint is from: of those begun before the exploit, the latest that holds it."""
    before: list[Stretch] = []
    for stretch in population.stretches.get(exploit.donor, ()):
        if stretch.exploit is not None and stretch.exploit.entry.time >= exploit.entry.time:
            break
        before.append(stretch)
    holding = [stretch for stretch in before if stretch.start <= exploit.checkpoint <= stretch.end]
    fitting = [stretch for stretch in holding if _may_be_donor(stretch, exploit)]
    return next(reversed(fitting or holding or before), None)


def _may_be_donor(stretch: Stretch, exploit: RecordedExploit) -> bool:
    """Whether a stretch ran with what the decision on its clone says of the donor, as far as both are on record."""
    known = stretch.configuration
    return known is None or all(
        shorten_value(known.get(change.name, "")) == shorten_value(change.donor)
        for change in exploit.changes
        if change.donor
    )


def _find_beginnings(steps: Sequence[float], exploits: Sequence[RecordedExploit]) -> list[tuple[int, RecordedExploit]]:
    """At which point of a curve each exploit took effect; behind the last one where it has not yet."""
    found: list[tuple[int, RecordedExploit]] = []
    bound = len(steps)
    for exploit in reversed(exploits):
        bound = _find_beginning(steps, exploit, bound, is_latest=not found)
        found.insert(0, (bound, exploit))
    return found


def _find_beginning(steps: Sequence[float], exploit: RecordedExploit, bound: int, *, is_latest: bool) -> int:
    def measure(at: int) -> float:
        before = abs(steps[at - 1] - exploit.left) if at else exploit.left
        return before + abs(steps[at] - exploit.checkpoint)

    clone = exploit.row.view.status.clone
    if is_latest and clone is not None and clone.donor == exploit.donor and _is_pending(exploit, steps):
        return bound
    places = [at for at in range(bound) if steps[at] > exploit.checkpoint]
    return min(reversed(places), key=measure, default=bound)


def _is_pending(exploit: RecordedExploit, steps: Sequence[float]) -> bool:
    """Whether nothing was reported since."""
    clone = exploit.row.view.status.clone
    if clone is None or not clone.attempt:
        return True
    return exploit.row.view.status.iteration <= exploit.checkpoint or not steps


def _trace_configurations(row: TrialRow, beginnings: Sequence[RecordedExploit | None]) -> list[_Configuration | None]:
    """What a trial ran with at the end of each stretch, from what it has now back to the first."""
    numbers = [exploit.entry.number if exploit is not None else None for exploit in beginnings]
    present: dict[str, str] | None = dict(row.view.parameters)
    found: list[_Configuration | None] = []
    entries = list(row.view.status.ledger)
    for place in range(len(beginnings) - 1, -1, -1):
        found.insert(0, present)
        number = numbers[place]
        if number is None:
            present = None
            continue
        while entries and entries[-1].number >= number:
            entry = entries.pop()
            present = _undo_changes(entry, present)
    if beginnings[0] is None and found[0] is None:
        found[0] = dict(row.view.proposed)
    return found


def _was_changed(row: TrialRow, configuration: _Configuration | None) -> bool:
    """Whether something that is no longer on record has changed what a trial was made with; its user has not."""
    status = row.view.status
    by_user = bool(status.overrides) or any(entry.action == DecisionKind.CONFIGURE for entry in status.ledger)
    return configuration is not None and not by_user and dict(configuration) != dict(row.view.proposed)


def _undo_changes(entry: LedgerEntry, present: dict[str, str] | None) -> dict[str, str] | None:
    if entry.action not in (DecisionKind.EXPLOIT, DecisionKind.CONFIGURE) or present is None:
        return present
    if len(entry.inputs) >= MAX_NUMBERS:
        return None
    before = dict(present)
    for name, (old, _) in read_changes(entry, _list_names(entry, present)).items():
        if old == ABSENT:
            before.pop(name, None)
        else:
            before[name] = old
    return before


def _list_names(entry: LedgerEntry, present: _Configuration) -> Iterable[str]:
    return [name for name in entry.inputs if name in present]
