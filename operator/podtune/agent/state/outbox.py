"""Results on their way to the operator: the sending half of go-back-N.

Every reply names the last accepted result, and sending continues with the next one, whatever was sent before. So a lost
request, a lost reply, and a restarted operator that remembers less are all the same case. A result is dropped once it
is durable: until then an operator may ask for it again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from podtune.protocol.messages import MAX_REPORT_BYTES, MAX_RESULTS_A_REPORT, Result, encode_result

CAPACITY = 20_000
MAX_BATCH_BYTES = MAX_REPORT_BYTES // 2
"""Leaves room for the rest of a report."""


@dataclass(frozen=True, slots=True)
class _Held:
    result: Result
    size: int


class Outbox:
    """The results of one attempt that are not durable yet. Not thread-safe.

    Attributes:
        last: The last result that was added.
        acked_seq: Last result that the operator has taken in, by its latest reply.
        durable_seq: Last result that the operator can no longer lose.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        """Starts empty; `is_full` from so many results on."""
        self._capacity = capacity
        self._held: deque[_Held] = deque()
        self.last: Result | None = None
        self.acked_seq = 0
        self.durable_seq = 0

    @property
    def last_seq(self) -> int:
        """Number of the last result that was added; 0 before the first."""
        return self.last.seq if self.last else 0

    @property
    def is_full(self) -> bool:
        """Whether no more should be added before some are durable: the file holds them meanwhile."""
        return len(self._held) >= self._capacity

    @property
    def is_acked(self) -> bool:
        """Whether the operator has taken all in."""
        return self.acked_seq >= self.last_seq

    def add(self, result: Result) -> None:
        """Takes the next result.

        Raises:
            ValueError: Its number is not the next one.
        """
        if result.seq != self.last_seq + 1:
            raise ValueError(f"result {result.seq} can't follow result {self.last_seq}; results are numbered from 1")
        self.last = result
        if result.seq > self.durable_seq:
            self._held.append(_Held(result, len(encode_result(result))))

    def build_batch(self) -> tuple[Result, ...]:
        """The results to send now: those after the last acknowledged one, as many as fit into a report."""
        batch: list[Result] = []
        room = MAX_BATCH_BYTES
        for held in islice(self._list_after(self.acked_seq), MAX_RESULTS_A_REPORT):
            room -= held.size
            if room < 0 and batch:
                break
            batch.append(held.result)
        return tuple(batch)

    def take_reply(self, acked_seq: int, durable_seq: int) -> None:
        """Takes in how far the operator has got.

        Args:
            acked_seq: Sending continues after this one, even if it is less than before. An operator may know of more
                than this agent has read so far: one that was restarted reads the same results again.
            durable_seq: Results up to here are dropped.
        """
        self.durable_seq = max(self.durable_seq, min(durable_seq, acked_seq))
        self.acked_seq = max(acked_seq, self.durable_seq)
        while self._held and self._held[0].result.seq <= self.durable_seq:
            self._held.popleft()

    def release(self) -> tuple[Result, ...]:
        """Gives up on the results that are not durable, and returns them."""
        released = tuple(held.result for held in self._held)
        self._held.clear()
        return released

    def _list_after(self, seq: int) -> Iterator[_Held]:
        first = self._held[0].result.seq if self._held else 0
        return islice(self._held, max(0, seq + 1 - first), None)
