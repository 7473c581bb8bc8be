"""Keeps what was worked out of an experiment, so that an update costs what has changed.

Rows of an experiment are another object as soon as there is news of any trial. A chart is kept with the rows that it
was drawn from, and goes with them. What is read from each trial alone goes on to the next rows as a column, but for the
trials that have changed; so does what is made of a block of neighbouring trials, and of all blocks where none of them
has changed. So nothing that is kept can be out of date, and a chart is the same as one drawn from scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import wraps
from itertools import chain
from operator import is_
from threading import Lock
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from podtune.dashboard.trial_rows import ExperimentRows, TrialRow

MOST_CHARTS = 96
"""So many charts are kept with an experiment: an address names axes, and anybody can name many."""
MOST_SUMMARIES = 24
"""Likewise of what is made of all blocks, which may be large."""
BLOCK = 100
"""So many neighbouring trials make a block: those that run at the same time are mostly close to each other."""
LONGEST_IDLE = 8
"""After so many updates in which nobody needed it, a column or a summary is dropped: scales move."""

Base = TypeVar("Base")
Found = TypeVar("Found")
Settings = ParamSpec("Settings")
_UNREAD: Any = object()
_lock = Lock()
"""Some charts are drawn in threads."""


@dataclass(slots=True)
class _Column:
    """What was read from each trial, by its place, or made of each block.

    Attributes:
        parts: All values, in parts of `BLOCK`. Later columns share those in which nothing has changed: to copy
            thousands of values costs more than to read those that have changed.
        gaps: Places of trials that were not read yet, or numbers of blocks.
        idle: How many updates ago it was needed.
    """

    parts: list[list[Any]]
    gaps: set[int]
    idle: int = 0

    @classmethod
    def make(cls, count: int) -> _Column:
        return cls([[_UNREAD] * min(BLOCK, count - first) for first in range(0, count, BLOCK)], set(range(count)))

    def pass_on(self, changed: Set[int], count: int) -> _Column:
        gaps = self.gaps | changed  # before the values: another thread may fill gaps meanwhile
        parts = self.parts.copy()
        for number in sorted({place // BLOCK for place in changed}):
            part = parts[number].copy() if number < len(parts) else []
            part.extend([_UNREAD] * (min(BLOCK, count - number * BLOCK) - len(part)))
            parts[number : number + 1] = [part]
        return _Column(parts, gaps, self.idle + 1)

    def get(self, place: int) -> Any:
        return self.parts[place // BLOCK][place % BLOCK]

    def put(self, place: int, value: object) -> None:
        self.parts[place // BLOCK][place % BLOCK] = value
        self.gaps.discard(place)

    def fill(
        self, places: Sequence[int], read: Callable[..., Any], sources: Iterable[Any], settings: tuple[Hashable, ...]
    ) -> None:
        """Puts in what is read from sources, one for each place; at once, as an update does so a thousand times."""
        parts = self.parts
        for place, source in zip(places, sources, strict=True):
            parts[place // BLOCK][place % BLOCK] = read(source, *settings)
        self.gaps.difference_update(places)

    def list_all(self) -> list[Any]:
        return [*chain.from_iterable(self.parts)]


@dataclass(slots=True)
class _Summary:
    """What was made of all blocks, and of which."""

    blocks: Sequence[Any]
    made: Any
    idle: int = 0


class Keeper:
    """What is kept with an experiment's rows."""

    def __init__(
        self,
        columns: Mapping[Hashable, _Column] | None = None,
        blocks: Mapping[Hashable, _Column] | None = None,
        summaries: Mapping[Hashable, _Summary] | None = None,
    ) -> None:
        """Begins with what there is of earlier rows."""
        self._charts: dict[Hashable, Any] = {}
        self._columns: dict[Hashable, _Column] = dict(columns or {})
        self._blocks: dict[Hashable, _Column] = dict(blocks or {})
        self._summaries: dict[Hashable, _Summary] = dict(summaries or {})

    def pass_on(self, changed: Iterable[int], count: int) -> Keeper:
        """What is kept with later rows.

        Args:
            changed: The places of trials that have changed, or are new.
            count: How many trials there are now.
        """
        places = set(changed)
        with _lock:
            columns = [(key, column) for key, column in self._columns.items() if column.idle < LONGEST_IDLE]
            blocks = [(key, column) for key, column in self._blocks.items() if column.idle < LONGEST_IDLE]
            summaries = [(key, each) for key, each in self._summaries.items() if each.idle < LONGEST_IDLE]
        touched = {place // BLOCK for place in places}
        return Keeper(
            {key: column.pass_on(places, count) for key, column in columns},
            {key: column.pass_on(touched, _count_blocks(count)) for key, column in blocks},
            {key: _Summary(each.blocks, each.made, each.idle + 1) for key, each in summaries},
        )

    def find_column(self, key: Hashable, count: int) -> _Column:
        """What was read so far from so many trials."""
        return _find_column(self._columns, key, count)

    def find_blocks(self, key: Hashable, count: int) -> _Column:
        """What was made so far of the blocks of so many trials."""
        return _find_column(self._blocks, key, _count_blocks(count))

    def find_summary(self, key: Hashable, blocks: Sequence[Any], make: Callable[[], Found]) -> Found:
        """What is made of blocks, which is made anew unless these very blocks are those that it was made of."""
        known = self._summaries.get(key)
        if known is None or len(known.blocks) != len(blocks) or not all(map(is_, known.blocks, blocks)):
            known = _Summary(tuple(blocks), make())
            _put(self._summaries, key, known, MOST_SUMMARIES)
        known.idle = 0
        made: Found = known.made
        return made

    def find_chart(self, key: Hashable, make: Callable[[], Found]) -> Found:
        """A chart, which is made unless it is kept; of very many, the oldest goes."""
        chart: Found = self._charts.get(key, _UNREAD)
        if chart is not _UNREAD:
            return chart
        chart = make()
        _put(self._charts, key, chart, MOST_CHARTS)
        return chart


def _put(kept: dict[Hashable, Any], key: Hashable, value: object, most: int) -> None:
    """Keeps one more; of more than so many, the oldest goes."""
    with _lock:
        kept[key] = value
        while len(kept) > most:
            del kept[next(iter(kept))]


def _find_column(columns: dict[Hashable, _Column], key: Hashable, count: int) -> _Column:
    with _lock:
        column = columns.get(key)
        if column is None:
            column = columns[key] = _Column.make(count)
        column.idle = 0
    return column


def _count_blocks(trials: int) -> int:
    return -(-trials // BLOCK)


class TrialFact(Generic[Found]):
    """What is read from one trial alone; see `keep_by_trial`."""

    def __init__(self, read: Callable[..., Found], source: TrialFact[Any] | None, shared: int = 0) -> None:
        """Takes the function that reads it, from a row or from another fact, and how many settings that one takes."""
        self._read, self._source, self._shared = read, source, shared
        self.__doc__ = read.__doc__

    def __call__(self, row: TrialRow, *settings: Hashable) -> Found:
        """Of one trial, read anew."""
        source = row if self._source is None else self._source(row, *settings[: self._shared])
        return self._read(source, *settings[self._shared :])

    def read_all(self, experiment: ExperimentRows, *settings: Hashable) -> Sequence[Found]:
        """Of all trials, in their order."""
        return [*chain.from_iterable(self.read_parts(experiment, *settings))]

    def read_parts(self, experiment: ExperimentRows, *settings: Hashable) -> Sequence[Sequence[Found]]:
        """The same in blocks."""
        column = experiment.keeper.find_column((self._read, settings), len(experiment.rows))
        self._fill(column, column.gaps.copy(), experiment, settings)
        return column.parts

    def read_some(self, experiment: ExperimentRows, places: Sequence[int], *settings: Hashable) -> list[Found]:
        """Of some trials, by their places."""
        column = experiment.keeper.find_column((self._read, settings), len(experiment.rows))
        self._fill(column, column.gaps.intersection(places), experiment, settings)
        parts = column.parts
        return [parts[place // BLOCK][place % BLOCK] for place in places]

    def _fill(
        self, column: _Column, places: set[int], experiment: ExperimentRows, settings: tuple[Hashable, ...]
    ) -> None:
        if not places:
            return
        ordered, rows = list(places), experiment.rows
        sources: Iterable[Any]
        if self._source is not None:
            sources = self._source.read_some(experiment, ordered, *settings[: self._shared])
        else:
            sources = [rows[place] for place in ordered]
        column.fill(ordered, self._read, sources, settings[self._shared :])


class BlockFact(Generic[Found]):
    """What is made of the facts of neighbouring trials; see `keep_by_block`."""

    def __init__(self, make: Callable[[Any], Found], source: TrialFact[Any]) -> None:
        """Takes the function that makes it, and the fact."""
        self._make, self._source = make, source
        self.__doc__ = make.__doc__

    def read_all(self, experiment: ExperimentRows, *settings: Hashable) -> Sequence[Found]:
        """Of all blocks, in the order of their trials; the settings are those of the fact."""
        parts = self._source.read_parts(experiment, *settings)
        column = experiment.keeper.find_blocks((self, settings), len(experiment.rows))
        for block in column.gaps.copy():
            made, known = self._make([*parts[block]]), column.get(block)
            column.put(block, known if made == known else made)  # what is the same stays the same object
        return column.list_all()


class ChoiceFact(Generic[Found]):
    """What is made of the facts of some trials of each block; see `keep_by_choice`."""

    def __init__(self, make: Callable[[Any], Found], source: TrialFact[Any]) -> None:
        """Takes the function that makes it, and the fact."""
        self._make, self._source = make, source
        self.__doc__ = make.__doc__

    def read_all(self, experiment: ExperimentRows, chosen: Sequence[Sequence[int]], *settings: Hashable) -> list[Found]:
        """Of all blocks, in the order of their trials.

        Args:
            experiment: Whose trials they are.
            chosen: Which trials, by their places in each block.
            settings: Those of the fact.
        """
        column = experiment.keeper.find_blocks((self, settings), len(experiment.rows))
        made = []
        for block, places in enumerate(chosen):
            known = column.get(block)
            if block in column.gaps or known[0] != places:
                facts = self._source.read_some(experiment, [block * BLOCK + at for at in places], *settings)
                known = places, self._make(facts)
                column.put(block, known)
            made.append(known[1])
        return made


def keep_by_trial(read: Callable[Concatenate[TrialRow, ...], Found]) -> TrialFact[Found]:
    """Keeps what a function reads from a trial's row until that trial changes, where it is read of many at once.

    The function may look at the row alone, and at settings that never change themselves, such as a scale.
    """
    return TrialFact(read, None)


def keep_by_trial_from(
    source: TrialFact[Base], shared: int = 0
) -> Callable[[Callable[Concatenate[Base, ...], Found]], TrialFact[Found]]:
    """The same for a function that reads what another one has read from the trial.

    Args:
        source: The other one.
        shared: So many of the settings, the first ones, are for the other one.
    """
    return lambda read: TrialFact(read, source, shared)


def keep_by_block(source: TrialFact[Base]) -> Callable[[Callable[[Sequence[Base]], Found]], BlockFact[Found]]:
    """Keeps what a function makes of what was read from neighbouring trials, until one of these changes.

    What is made of all trials, such as a sum or a path, is then put together from few parts.
    """
    return lambda make: BlockFact(make, source)


def keep_by_choice(source: TrialFact[Any]) -> Callable[[Callable[[Sequence[Any]], Found]], ChoiceFact[Found]]:
    """The same of some trials of each block: kept until one of the block changes, or others of it are chosen."""
    return lambda make: ChoiceFact(make, source)


def keep_summary(
    make: Callable[Concatenate[Sequence[Base], Settings], Found],
) -> Callable[Concatenate[ExperimentRows, Sequence[Base], Settings], Found]:
    """Keeps what a function makes of all blocks, and of settings, for as long as no block has changed.

    The function may look at nothing else: it is given no experiment.
    """

    @wraps(make)
    def find(
        experiment: ExperimentRows, blocks: Sequence[Base], /, *settings: Settings.args, **named: Settings.kwargs
    ) -> Found:
        key = (make, settings, tuple(sorted(named.items())))
        return experiment.keeper.find_summary(key, blocks, lambda: make(blocks, *settings, **named))

    return find


def keep_chart(
    make: Callable[Concatenate[ExperimentRows, Settings], Found],
) -> Callable[Concatenate[ExperimentRows, Settings], Found]:
    """Keeps what a function makes of an experiment's rows, such as a chart, for as long as these are shown."""

    @wraps(make)
    def find(experiment: ExperimentRows, /, *settings: Settings.args, **named: Settings.kwargs) -> Found:
        key = (make, settings, tuple(sorted(named.items())))
        return experiment.keeper.find_chart(key, lambda: make(experiment, *settings, **named))

    return find
