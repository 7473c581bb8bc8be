"""Puts the lines of a program's output into segments, as far as there is room and time for them.

Every line has the time of its print before it, as the kubelet gives it. Lines are numbered as they are stored, so that
a reader sees where the store has dropped some.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from podtune.agent.results.stdout_results import parse_nanoseconds
from podtune.storage.segments.segment_stream import SegmentStream

KEPT_BYTES_A_SECOND = 256 << 10
"""What is recorded of a program's output in the long run."""
BURST = 16 << 20
"""What is recorded at once, before that limit holds: more than a kubelet keeps of a log."""
RESUMES_AT = 1 << 20
"""Room for bytes that has to be there until lines are recorded again, so that whole passages are, not single lines."""


KEPT_AT_END = 64 << 10
"""What is recorded of the last lines in any case: why a program has failed stands there."""


class LogRecorder:
    """Takes lines from the thread that reads them; another thread stores them. A process begins or resumes one log."""

    def __init__(self, segments: SegmentStream, monotonic: Callable[[], float]) -> None:
        """Begins with the first line; `monotonic` is a clock that never goes back."""
        self._segments = segments
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._room = float(BURST)
        self._filled_at = monotonic()
        self._dropped_since = b""
        """Time of the first line that was dropped; empty while none is."""
        self._dropped: deque[bytes] = deque()
        """The last of those lines, which may come to be the program's last."""
        self._dropped_bytes = 0
        self._number = 0
        self._waiting: list[tuple[int, bytes]] | None = None
        """Lines that wait until it is known which of them an earlier process has stored; None when it is."""

    @property
    def kind(self) -> str:
        """See `SegmentStream.kind`."""
        return self._segments.kind

    @property
    def left_out(self) -> int:
        """See `SegmentStream.left_out`."""
        return self._segments.left_out

    def resume(self) -> None:
        """An earlier process has stored some of it, and its lines may come again."""
        self._waiting = []

    def take(self, line: bytes) -> None:
        """Takes the next line, `<time> <text>` without its end; its time is that of a line of the kubelet's log."""
        stamp, moment = line.partition(b" ")[0], _read_moment(line)
        if moment < 0:
            return
        with self._lock:
            self._fill()
            size = len(line) + 1
            if self._room < (RESUMES_AT if self._dropped_since else size):
                self._dropped_since = self._dropped_since or stamp
                self._remember_dropped(line)
                return
            self._room -= size
            if self._dropped_since:
                self._append_gap(line)
            self._append(moment, line)

    def finish(self) -> None:
        """No line comes any more: the last ones are recorded, even where there was no room for them."""
        with self._lock:
            last = list(self._dropped)
            if not last:
                return
            self._append_gap(last[0])
            for line in last:
                self._append(_read_moment(line), line)

    def compute_wait(self) -> float:
        """Seconds until lines are recorded again; 0 while they are."""
        with self._lock:
            self._fill()
            return max(0.0, RESUMES_AT - self._room) / KEPT_BYTES_A_SECOND if self._dropped_since else 0.0

    def store_changes(self, is_over: Callable[[], bool]) -> None:
        """See `SegmentStream.store_changes`.

        Raises:
            StoreError: The store can't do it now, or at all; the next call goes on.
        """
        if self._waiting is not None:
            self._find_place()
        self._segments.store_changes(is_over)

    def _fill(self) -> None:
        """Makes room for what may be recorded in the time since the last look."""
        now = self._monotonic()
        self._room = min(BURST, self._room + (now - self._filled_at) * KEPT_BYTES_A_SECOND)
        self._filled_at = now

    def _remember_dropped(self, line: bytes) -> None:
        self._dropped.append(line)
        self._dropped_bytes += len(line)
        while self._dropped_bytes > KEPT_AT_END and len(self._dropped) > 1:
            self._dropped_bytes -= len(self._dropped.popleft())

    def _append_gap(self, following: bytes) -> None:
        """Says before the line that follows that some are missing."""
        self._append(_read_moment(following), self._word_gap(following.partition(b" ")[0]))
        self._dropped_since, self._dropped_bytes = b"", 0
        self._dropped.clear()

    def _word_gap(self, until: bytes) -> bytes:
        since = self._dropped_since.decode("ascii", "replace")
        rate = f"{KEPT_BYTES_A_SECOND >> 10} KiB a second"
        text = f"[podtune: what was printed since {since} is not kept, because it is more than {rate}]"
        return until + b" " + text.encode()

    def _append(self, moment: int, line: bytes) -> None:
        if self._waiting is not None:
            self._waiting.append((moment, line))
            return
        self._number += 1
        self._segments.append(self._number, moment / 1e9, line + b"\n")

    def _find_place(self) -> None:
        """Finds out where an earlier process has ended, and adds the lines that follow."""
        stored = self._segments.list_stored()
        number, latest, repeated = 0, -1, 0
        for name in reversed(stored):
            moments = list(map(_read_moment, self._segments.read_records(name)))
            if not number and moments:
                number, latest = name.first + len(moments) - 1, moments[-1]
            repeated += moments.count(latest)
            if set(moments) != {latest}:
                break  # what is before it is older
        if stored:
            self._segments.continue_after(stored)
        with self._lock:
            waiting, self._waiting = self._waiting or [], None
            self._number = number
            for moment, line in waiting:
                if moment == latest and repeated > 0:
                    repeated -= 1
                elif moment >= latest:
                    self._append(moment, line)


def _read_moment(line: bytes) -> int:
    """When a line was printed, in nanoseconds since the epoch; -1 where it does not say."""
    moment = parse_nanoseconds(line.partition(b" ")[0].decode("ascii", "replace"))
    return -1 if moment is None else moment
