"""The ends of a trial's logs, as attempts have stored them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from podtune.dashboard.stores.limits import LimitReached
from podtune.storage.object_store import ReadableStore
from podtune.storage.segments.former import FormerFolder
from podtune.storage.segments.reader import group_segments, read_segment
from podtune.storage.segments.segment import LOG_STREAM, SegmentName

MOST_LOG_LINES = 300
"""Of the log of one attempt and rank, so many are read: the last."""
MOST_LOGS = 16
"""Of so many attempts and ranks: the latest."""
MOST_CHARACTERS = 2000
"""Of one line."""
MOST_TEXT = 1 << 19
"""Characters of all logs of a page; no other one is begun after that."""


@dataclass(frozen=True, slots=True)
class StoredLog:
    """The end of what one attempt has printed in one rank.

    Attributes:
        number: Number of the attempt among the trial's.
        rank: Rank of the pod in its gang; 0 where it is alone.
        printed: How many lines it has printed, as far as the store knows.
        lines: The last of them; where some were not kept, one says how many.
    """

    number: int
    rank: int
    printed: int
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class StoredLogs:
    """What is shown of the logs of a trial.

    Attributes:
        logs: The latest attempt first.
        left_out: Of how many attempts and ranks more there are logs.
        cut: Why no more was read; empty where there is no such reason.
    """

    logs: Sequence[StoredLog]
    left_out: int = 0
    cut: str = ""


def read_log_ends(
    store: ReadableStore, experiment_prefix: str, trial: str, former: Sequence[FormerFolder] = ()
) -> StoredLogs:
    """Reads the end of the log of each attempt and rank, the latest first.

    Args:
        store: The store, which may have limits: what was read until they were reached is the answer then.
        experiment_prefix: What all keys of the experiment start with; it ends with a slash.
        trial: Name of the trial.
        former: Where the experiment has stored things before it was restored.

    Raises:
        StoreError: The store can't be read.
    """
    logs: list[StoredLog] = []
    length, left_out, cut = 0, 0, ""
    try:
        for prefix, names in _list_streams(store, experiment_prefix, trial, former):
            if len(logs) == MOST_LOGS or length > MOST_TEXT:
                left_out += 1
            elif (log := _read_end(store, prefix, names)) is not None:
                logs.append(log)
                length += sum(map(len, log.lines))
    except LimitReached as error:
        cut = str(error)
    return StoredLogs(logs, left_out, cut)


def _list_streams(
    store: ReadableStore, experiment_prefix: str, trial: str, former: Sequence[FormerFolder]
) -> list[tuple[str, list[SegmentName]]]:
    """The segments of each attempt and rank: of the latest attempt first, and in each rank by rank."""
    streams: dict[str, list[SegmentName]] = {}
    folders = ((folder.prefix, folder.find_former_name(trial)) for folder in former)
    for prefix, name in (*folders, (experiment_prefix, trial)):
        streams |= group_segments(store.list(f"{prefix}{name}/"), prefix, LOG_STREAM, None)
    begins: dict[str, int] = {}
    for prefix, names in streams.items():
        attempt, _ = _read_prefix(prefix)
        begins[attempt] = min(begins.get(attempt, names[0].time_ms), *(name.time_ms for name in names))

    def find_place(prefix: str) -> tuple[int, str, int]:
        attempt, rank = _read_prefix(prefix)
        return -begins[attempt], attempt, rank

    return [(prefix, streams[prefix]) for prefix in sorted(streams, key=find_place)]


def _read_prefix(prefix: str) -> tuple[str, int]:
    """The attempt's folder, and the rank."""
    attempt, _, rank = prefix.removesuffix("/").rsplit("/", 2)
    return attempt, int(rank)


def _read_end(store: ReadableStore, prefix: str, names: Sequence[SegmentName]) -> StoredLog | None:
    """The last lines of a stream; None where it has none, or no longer any."""
    lines: list[str] = []
    number, rank, printed, after = 0, 0, 0, 0
    for at, text, attempt, of_rank in _walk_back(store, prefix, names):
        if printed and at < after - 1:
            lines.append(f"[podtune: {after - at - 1:,} lines are not kept here]")
        printed = printed or at
        lines.append(text)
        number, rank, after = attempt, of_rank, at
        if len(lines) >= MOST_LOG_LINES:
            break
    return StoredLog(number, rank, printed, lines[::-1]) if lines else None


def _walk_back(store: ReadableStore, prefix: str, names: Sequence[SegmentName]) -> Iterator[tuple[int, str, int, int]]:
    """Each line once, the last first: its number, its text, and the attempt's number and the rank."""
    before: int | None = None
    for name in sorted(names, reverse=True):
        content = read_segment(store, f"{prefix}{name.format(LOG_STREAM)}", LOG_STREAM)
        if content is None:
            continue
        header, lines = content
        for at, line in reversed([*enumerate(lines[:-1], name.first)]):
            if before is None or at < before:
                before = at
                yield at, _read_text(line), header.number, header.rank


def _read_text(line: bytes) -> str:
    """What was printed, without the time that stands before it."""
    _, _, text = line.decode("utf-8", "replace").partition(" ")
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
