"""What failed trials have printed last, by what went wrong: the same words are shown once, with how many ended so."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podtune.dashboard.charts.failures import KIND_WORDS, FailureKind, list_failures
from podtune.dashboard.keeping import keep_chart
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow

MOST_ENDINGS = 5
"""Of each kind, so many different endings are shown, the most frequent first."""
MOST_LINES = 12
MOST_NAMED = 5
LONGEST_HEADLINE = 200
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)?")
"""What differs between two trials that failed alike: a step, an address, an amount of memory."""


@dataclass(frozen=True, slots=True)
class LogEnding:
    """How the logs of some trials end.

    Attributes:
        headline: The last line, which mostly says what went wrong.
        text: The last lines of the latest of these trials.
        rows: The trials, the latest first.
    """

    headline: str
    text: str
    rows: Sequence[TrialRow]

    @property
    def named(self) -> Sequence[TrialRow]:
        """Those that there is room to name."""
        return self.rows[:MOST_NAMED]


@dataclass(frozen=True, slots=True)
class KindEndings:
    """The logs of trials that failed in one way.

    Attributes:
        endings: The most frequent first.
        others: How many trials ended in yet other words.
        silent: How many have no lines in their status.
    """

    kind: FailureKind
    endings: Sequence[LogEnding]
    others: int
    silent: int


@keep_chart
def list_log_endings(experiment: ExperimentRows) -> Sequence[KindEndings]:
    """The endings by kind, in the order of the kinds; only kinds of which any status holds lines."""
    found: dict[FailureKind, defaultdict[str, list[TrialRow]]] = {kind: defaultdict(list) for kind in KIND_WORDS}
    silent: defaultdict[FailureKind, int] = defaultdict(int)
    for failure in list_failures(experiment):
        lines = failure.row.view.log_tail.strip().splitlines()
        if lines:
            found[failure.kind][_NUMBER.sub("#", lines[-1].strip())].append(failure.row)
        else:
            silent[failure.kind] += 1
    return [_collect(kind, groups, silent[kind]) for kind, groups in found.items() if groups]


def _collect(kind: FailureKind, groups: Mapping[str, list[TrialRow]], silent: int) -> KindEndings:
    ranked = sorted(groups.values(), key=lambda rows: (-len(rows), -max(row.view.index for row in rows)))
    others = sum(len(rows) for rows in ranked[MOST_ENDINGS:])
    return KindEndings(kind, [_make_ending(rows) for rows in ranked[:MOST_ENDINGS]], others, silent)


def _make_ending(rows: Sequence[TrialRow]) -> LogEnding:
    latest = sorted(rows, key=lambda row: -row.view.index)
    lines = latest[0].view.log_tail.strip().splitlines()
    return LogEnding(lines[-1].strip()[:LONGEST_HEADLINE], "\n".join(lines[-MOST_LINES:]), latest)
