"""The last result of each trial that is in the store, without reading all of them.

It tells how far a lost experiment had come after its snapshot: of each attempt, the last segment is read alone.
"""

from __future__ import annotations

from collections.abc import Collection

from podtune.protocol.messages import Result
from podtune.storage.object_store import ReadableStore
from podtune.storage.segments.reader import group_segments, parse_results, read_segment
from podtune.storage.segments.segment import RESULT_STREAM


def find_last_results(store: ReadableStore, experiment_prefix: str, *, skip: Collection[str] = ()) -> dict[str, Result]:
    """By trial, the result that came furthest among the last ones of its attempts.

    Args:
        store: The store.
        experiment_prefix: What all keys of the experiment start with; it ends with a slash.
        skip: Trials that nobody asks about.

    Raises:
        StoreError: The store can't be read now, or at all.
    """
    found: dict[str, Result] = {}
    for prefix, names in group_segments(store.list(experiment_prefix), experiment_prefix, RESULT_STREAM, 0).items():
        trial = prefix.removeprefix(experiment_prefix).partition("/")[0]
        if trial in skip:
            continue
        content = read_segment(store, f"{prefix}{max(names).format()}", RESULT_STREAM)
        last = _find_last(content[1]) if content is not None else None
        if last is not None and (trial not in found or last.step > found[trial].step):
            found[trial] = last
    return found


def _find_last(lines: list[bytes]) -> Result | None:
    """The last line that is a result: one that was being written when its pod vanished may be cut off."""
    return next(parse_results(reversed(lines)), None)
