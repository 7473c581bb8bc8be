"""The table of experiments: how each goes in one line, and which of them an address asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self
from urllib.parse import urlencode

from multidict import MultiMapping

from podtune.cli.views.budgets import TimeLeft, estimate_time_left
from podtune.dashboard.query_values import read_whole_number
from podtune.dashboard.table.columns import Cell
from podtune.dashboard.table.query import parse_sort
from podtune.dashboard.table.selection import sort_by
from podtune.dashboard.trial_rows import ExperimentRows, ShownState, read_moment

PAGE_SIZE = 100
FEW = 4
"""So many experiments have room for a card each."""
UNSEEN = "Not seen yet"
"""The state of an experiment that no operator has looked at."""


@dataclass(frozen=True, slots=True)
class ExperimentLine:
    """One experiment.

    Attributes:
        elapsed: How long it has run, in seconds; None before its start.
        left: When it will end; None where that can't be told.
        done: What part of its trials has ended, from 0 to 1; None where it is not known how many there will be.
    """

    experiment: ExperimentRows
    elapsed: float | None
    left: TimeLeft | None
    done: float | None

    @property
    def state(self) -> str:
        """In one word."""
        return self.experiment.view.state or UNSEEN

    @property
    def key(self) -> tuple[str, str]:
        """Its namespace and name."""
        return self.experiment.view.namespace, self.experiment.view.name


SortKey = Callable[[ExperimentLine], Cell]
SORTS: Mapping[str, tuple[str, SortKey]] = {
    "name": ("Name", lambda line: line.experiment.view.name),
    "namespace": ("Namespace", lambda line: line.experiment.view.namespace),
    "state": ("State", lambda line: line.state),
    "progress": ("Progress", lambda line: line.done),
    "left": ("Time left", lambda line: line.left.seconds if line.left is not None else None),
    "gpu_hours": ("GPU-hours", lambda line: line.experiment.gpu_hours),
    "failed": ("Failed", lambda line: line.experiment.counts[ShownState.FAILED]),
    "started": ("Started", lambda line: read_moment(line.experiment.view.status.start_time)),
}
"""What the table can be sorted by: a name for people, and what stands in a line; None comes last."""


@dataclass(frozen=True, slots=True)
class ExperimentQuery:
    """What an address asks for.

    Attributes:
        text: Words that stand in a name, a namespace, an objective or a message.
        states: States that are asked for; empty for all.
        namespace: Empty for all.
        sort: One of `SORTS`; empty for the order of names.
    """

    text: str = ""
    states: tuple[str, ...] = ()
    namespace: str = ""
    sort: str = ""
    descending: bool = False
    page: int = 1

    @property
    def selects(self) -> bool:
        """Whether it may leave out any."""
        return bool(self.text or self.states or self.namespace)

    def change(self, **fields: object) -> Self:
        """The same with other fields, from the first page on unless that is one of them."""
        return replace(self, **{"page": 1, **fields})  # type: ignore[arg-type]

    def encode(self) -> str:
        """The query of an address that asks for this."""
        pairs = [
            *([("q", self.text)] if self.text else []),
            *(("state", state) for state in self.states),
            *([("namespace", self.namespace)] if self.namespace else []),
            *([("sort", f"{'-' * self.descending}{self.sort}")] if self.sort else []),
            *([("page", str(self.page))] if self.page > 1 else []),
        ]
        return f"?{urlencode(pairs)}" if pairs else "?"


@dataclass(frozen=True, slots=True)
class ExperimentPage:
    """What the table shows.

    Attributes:
        lines: The experiments on this page.
        total: How many are asked for.
        known: How many there are.
        states: How many are in which state.
        namespaces: Those that have any.
    """

    lines: Sequence[ExperimentLine]
    total: int
    known: int
    page: int
    pages: int
    states: Mapping[str, int]
    namespaces: Sequence[str]

    @property
    def has_cards(self) -> bool:
        """Whether there are so few that each has a card in place of a row."""
        return self.known <= FEW


def make_line(experiment: ExperimentRows, now: float | None) -> ExperimentLine:
    """An experiment as a line of the table."""
    view = experiment.view
    expected = view.expected_trials
    done = view.finished_trials / expected if isinstance(expected, int) and expected else None
    left = estimate_time_left(experiment.view, experiment.tell_time(now))
    return ExperimentLine(experiment, experiment.measure_time(now), left, done)


def parse_experiment_query(query: MultiMapping[str]) -> ExperimentQuery:
    """Reads the query of an address.

    Raises:
        QueryError: Something is asked for that there is not. States and namespaces may come and go.
    """
    sort, descending = parse_sort(query, SORTS)
    return ExperimentQuery(
        text=query.get("q", "").strip(),
        states=tuple(dict.fromkeys(state for state in query.getall("state", []) if state)),
        namespace=query.get("namespace", ""),
        sort=sort,
        descending=descending,
        page=read_whole_number(query, "page", 1),
    )


def select_experiments(lines: Sequence[ExperimentLine], query: ExperimentQuery) -> ExperimentPage:
    """The experiments that are asked for, in the order that is asked for."""
    words = query.text.casefold().split()
    found = [
        line
        for line in lines
        if (not query.states or line.state in query.states)
        and (not query.namespace or line.key[0] == query.namespace)
        and all(word in _list_words(line) for word in words)
    ]
    if query.sort:
        found = sort_by(SORTS[query.sort][1], found, descending=query.descending)
    pages = max(1, -(-len(found) // PAGE_SIZE))
    page = min(query.page, pages)
    return ExperimentPage(
        lines=found[(page - 1) * PAGE_SIZE : page * PAGE_SIZE],
        total=len(found),
        known=len(lines),
        page=page,
        pages=pages,
        states=dict(sorted(Counter(line.state for line in lines).items())),
        namespaces=sorted({line.key[0] for line in lines}),
    )


def _list_words(line: ExperimentLine) -> str:
    view = line.experiment.view
    return " ".join((view.name, view.namespace, view.metric, view.status.message)).casefold()
