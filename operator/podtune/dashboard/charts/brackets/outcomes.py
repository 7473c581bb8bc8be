"""What became of trials at the rungs of a bracket."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from podtune.dashboard.charts.learning.rungs import OUTCOME_WORDS, RungMark
from podtune.dashboard.trial_rows import ShownState, TrialRow


class BracketOutcome(StrEnum):
    """What became of a trial that was to run to a rung."""

    PROMOTED = "promoted"
    FINISHED = "finished"
    WAITING = "waiting"
    AWAITED = "awaited"
    STOPPED = "stopped"
    ENDED = "ended"
    FAILED = "failed"


BRACKET_WORDS = {
    BracketOutcome.PROMOTED: OUTCOME_WORDS[RungMark.CONTINUED],
    BracketOutcome.FINISHED: OUTCOME_WORDS[RungMark.FINISHED],
    BracketOutcome.WAITING: OUTCOME_WORDS[RungMark.WAITING],
    BracketOutcome.AWAITED: "On the way",
    BracketOutcome.STOPPED: OUTCOME_WORDS[RungMark.STOPPED],
    BracketOutcome.ENDED: "Ended by itself or its user",
    BracketOutcome.FAILED: "Failed",
}
"""In the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class BracketRung:
    """A rung of a bracket.

    Attributes:
        milestone: Its budget, in units of the time attribute.
        size: For how many trials there is room; None where that is not limited.
        counts: What became of those that entered.
        awaited: Those that are on their way to it.
        cutoff: The latest value that one had to reach to be promoted; None where none is on record.
    """

    milestone: float
    size: int | None
    counts: Mapping[BracketOutcome, int]
    awaited: Sequence[TrialRow]
    cutoff: float | None

    @property
    def entered(self) -> int:
        """How many trials were to run to it."""
        return sum(self.counts.values())

    @property
    def share(self) -> float | None:
        """How much of its room is taken."""
        return None if not self.size else self.entered / self.size


@dataclass(frozen=True, slots=True)
class ShownBracket:
    """A bracket.

    Attributes:
        number: Its number, as its scheduler counts; of HyperBand, how many halvings it has.
        band: In which round of brackets it is; 0 for the first.
        is_presumed: Whether it holds trials of which no record says so yet.
    """

    number: int
    band: int
    rungs: Sequence[BracketRung]
    trials: int
    is_presumed: bool

    @property
    def key(self) -> str:
        """What an address calls it."""
        return f"bracket-{self.band}-{self.number}"

    @property
    def current(self) -> BracketRung | None:
        """The lowest rung that trials are on their way to, or wait at."""
        busy = (BracketOutcome.AWAITED, BracketOutcome.WAITING)
        return next((rung for rung in self.rungs if any(rung.counts.get(outcome) for outcome in busy)), None)


def explain_absence(row: TrialRow) -> BracketOutcome:
    """What became of a trial that did not come to a rung."""
    if row.progress is ShownState.FAILED:
        return BracketOutcome.FAILED
    return BracketOutcome.ENDED if row.view.has_ended else BracketOutcome.AWAITED


def count_outcomes(outcomes: Mapping[str, BracketOutcome]) -> dict[BracketOutcome, int]:
    """How many trials each became of, in the order of the outcomes."""
    found = Counter(outcomes.values())
    return {outcome: found[outcome] for outcome in BracketOutcome if found[outcome]}
