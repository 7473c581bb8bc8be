"""What an experiment has stored in all its lives: a restored or imported one began its own below another UID.

Each result is told once. An earlier life may have gone on after the snapshot that the later one was made of, so a
later life's word counts from where it took a trial up. Where that was, its own first result of the trial says: its
iteration, and its attempt's number. Of the earlier life's results of that trial these are left out:

- those of an attempt with a higher number: the later life knew nothing of it;
- those that came after the last one of an earlier iteration: the later life has run them again, or they led elsewhere.

An attempt with that number stays up to there: it ran at the time of the snapshot, and a later life gives its number
once more. One that began after the snapshot has the same number, and usually led from there elsewhere.

All others stay, and so do all results of a trial that the later life has not run, as one that had ended. What a trial
ran again for another reason in a later attempt are two results, as ever; but if the first attempt of a later life went
far back, because its trial was to clone another one or to be retried from an earlier checkpoint, the results from there
on are the later life's alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from podtune.storage.object_store import ReadableStore
from podtune.storage.segments.reader import (
    StoredLine,
    StoredResult,
    group_segments,
    merge_results,
    parse_results,
    read_logs,
    read_results,
    read_segment,
)
from podtune.storage.segments.segment import RESULT_STREAM, SegmentName


@dataclass(frozen=True, slots=True)
class FormerFolder:
    """Where an experiment has stored what it did before it was restored or imported.

    Attributes:
        prefix: What all keys in there start with; it ends with a slash.
        name: The name that the experiment had then; those of its trials begin with it.
        now: The name that it has now.
    """

    prefix: str
    name: str
    now: str

    def find_former_name(self, trial: str) -> str:
        """What a trial was called then."""
        return _rename(trial, self.now, self.name)

    def find_present_name(self, trial: str) -> str:
        """What a trial of then is called now."""
        return _rename(trial, self.name, self.now)


def _rename(trial: str, before: str, after: str) -> str:
    return f"{after}-{trial.removeprefix(f'{before}-')}" if trial.startswith(f"{before}-") else trial


def read_all_logs(
    store: ReadableStore, experiment_prefix: str, former: Sequence[FormerFolder], trial: str, *, rank: int | None = None
) -> Iterator[StoredLine]:
    """Reads the stored log of a trial as `read_logs` does, first what is in former folders, the oldest first.

    Logs are told whole: also that of an attempt of which a later life knew nothing. So two attempts may have one
    number, but never one id.

    Args:
        store: The bucket.
        experiment_prefix: What all keys of the experiment start with; it ends with a slash.
        former: Where it has stored things before, the oldest first.
        trial: The trial whose log is wanted, by its present name.
        rank: Of a gang: the rank whose log is wanted; all when None.

    Raises:
        StoreError: The store can't be read now, or at all.
    """
    for folder in former:
        for line in read_logs(store, folder.prefix, folder.find_former_name(trial), rank=rank):
            yield replace(line, trial=trial)
    yield from read_logs(store, experiment_prefix, trial, rank=rank)


def read_all_results(
    store: ReadableStore, experiment_prefix: str, former: Sequence[FormerFolder], *, trial: str = "", rank: int = 0
) -> Iterator[StoredResult]:
    """Reads all results of an experiment in order of time, each once, with those from before it was restored.

    Trials have their present names. See above for what of an earlier life is left out.

    Args:
        store: The bucket.
        experiment_prefix: What all keys of the experiment start with; it ends with a slash.
        former: Where it has stored things before, the oldest first.
        trial: The only trial whose results are wanted, by its present name; all trials' when empty.
        rank: Of a gang: the rank whose results are wanted.

    Raises:
        StoreError: The store can't be read now, or at all.
    """
    if not former:
        yield from read_results(store, experiment_prefix, trial=trial, rank=rank)
        return
    lives = [_list_streams(store, folder, trial, rank) for folder in (*former, FormerFolder(experiment_prefix, "", ""))]
    streams: list[_Stream] = []
    ends: list[_End] = []
    for name in dict.fromkeys(name for life in lives for name in life):
        for stream, end in _limit_lives(store, [life.get(name, ()) for life in lives]):
            streams.append(stream)
            ends.append(end)
    for place, stored in merge_results(store, ((stream.prefix, stream.names) for stream in streams)):
        if ends[place].admits(stored.number, stored.result.time):
            yield replace(stored, trial=streams[place].trial)


@dataclass(frozen=True, slots=True)
class _Stream:
    """The segments of one attempt and rank, in their order, of a trial by its present name."""

    prefix: str
    names: Sequence[SegmentName]
    trial: str


@dataclass(frozen=True, slots=True)
class _Begin:
    """Where a life took a trial up: number of its first attempt, and iteration of the first result."""

    number: int
    step: int


@dataclass(frozen=True, slots=True)
class _End:
    """Up to where a life's results of a trial count: the highest attempt, and this time; None for no bound."""

    number: int | None = None
    time: float | None = None

    def admits(self, number: int, time: float) -> bool:
        return (self.number is None or number <= self.number) and (self.time is None or time <= self.time)

    def tighten(self, number: int, time: float) -> _End:
        """The same with another bound, too."""
        return _End(
            number if self.number is None else min(number, self.number),
            time if self.time is None else min(time, self.time),
        )


def _list_streams(store: ReadableStore, folder: FormerFolder, trial: str, rank: int) -> Mapping[str, Sequence[_Stream]]:
    """The streams of results in a folder, by the present names of their trials."""
    found: defaultdict[str, list[_Stream]] = defaultdict(list)
    listed = store.list(folder.prefix + (f"{folder.find_former_name(trial)}/" if trial else ""))
    for prefix, names in group_segments(listed, folder.prefix, RESULT_STREAM, rank).items():
        name = folder.find_present_name(prefix.removeprefix(folder.prefix).partition("/")[0])
        found[name].append(_Stream(prefix, sorted(names), name))
    return found


def _limit_lives(store: ReadableStore, lives: Sequence[Sequence[_Stream]]) -> Iterator[tuple[_Stream, _End]]:
    """The streams of one trial in each life, the oldest first, and up to where they count."""
    later: list[_Begin] = []
    for at in range(len(lives) - 1, -1, -1):
        end = _End()
        for begin in later:
            end = end.tighten(begin.number, _find_end(store, lives[at], begin))
        yield from ((stream, end) for stream in lives[at])
        # Nothing is read of a trial that one life alone has run.
        if any(lives[:at]) and (own := _find_begin(store, lives[at])) is not None:
            later.append(own)


def _find_begin(store: ReadableStore, streams: Sequence[_Stream]) -> _Begin | None:
    """What the first result of a life says; None where it has none."""
    for stream in sorted(streams, key=lambda stream: stream.names[0].time_ms):
        for name in stream.names:
            content = read_segment(store, f"{stream.prefix}{name.format()}", RESULT_STREAM)
            first = next(parse_results(content[1]), None) if content is not None else None
            if content is not None and first is not None:
                return _Begin(content[0].number, first.step)
    return None


def _find_end(store: ReadableStore, streams: Sequence[_Stream], begin: _Begin) -> float:
    """When the last result came of those that a later life goes on from; before all time where there is none."""
    found = (_find_last(store, stream, begin) for stream in streams)
    return max((time for time in found if time is not None), default=float("-inf"))


def _find_last(store: ReadableStore, stream: _Stream, begin: _Begin) -> float | None:
    """When the last result of an earlier iteration came in one attempt, if that has no higher number."""
    for name in reversed(stream.names):
        content = read_segment(store, f"{stream.prefix}{name.format()}", RESULT_STREAM)
        if content is None:
            continue
        if content[0].number > begin.number:
            return None
        for result in parse_results(reversed(content[1])):
            if result.step < begin.step:
                return result.time
    return None
