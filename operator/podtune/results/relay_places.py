"""Which logs are passed on while there is not room for all: no pod and no namespace takes the places of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import Gauge

from podtune.results.authentication import Caller

LOG_RELAYS = Gauge("podtune_log_relays", "Logs of programs that are passed on to their agents at present.")
MAX_RELAYS = 2500
"""Logs passed on at a time; each takes two connections."""
RELAYS_OF_POD = 4
"""Of one pod. Its agent reads one, and may ask for the next before the end of the one before has been seen here: where
a connection is lost without a word, that takes until something is written to it."""
SHARE = 4
"""So many times as many as there are places left may one namespace have. Alone it gets to 2,000 of 2,500; two that want
more get to 1,111 each, and ten to 243 each. So there are always places for a namespace that has few."""


class NoPlace(Exception):
    """One more log can't be passed on at present; the text says why.

    Attributes:
        is_of_caller: Whether it is because of what the caller's pod or namespace has already.
    """

    def __init__(self, message: str, *, is_of_caller: bool) -> None:
        super().__init__(message)
        self.is_of_caller = is_of_caller


class RelayPlaces:
    """Counts the logs that are passed on."""

    def __init__(self) -> None:
        self._taken = 0
        self._of_pod: Counter[str] = Counter()
        self._of_namespace: Counter[str] = Counter()

    @contextmanager
    def take(self, caller: Caller) -> Iterator[None]:
        """Holds a place for one more log while the context lasts.

        Raises:
            NoPlace: There is none, or others have more right to it.
        """
        self._check(caller)
        self._count(caller, 1)
        try:
            yield
        finally:
            self._count(caller, -1)

    def _check(self, caller: Caller) -> None:
        left = MAX_RELAYS - self._taken
        if left <= 0:
            raise NoPlace(f"{self._taken} logs are passed on already", is_of_caller=False)
        if (of_pod := self._of_pod[caller.uid]) >= RELAYS_OF_POD:
            raise NoPlace(f"{of_pod} logs are passed on already to pod {caller.pod}", is_of_caller=True)
        if (of_namespace := self._of_namespace[caller.namespace]) >= SHARE * left:
            text = f"{of_namespace} logs are passed on already to namespace {caller.namespace}; others need the rest"
            raise NoPlace(text, is_of_caller=True)

    def _count(self, caller: Caller, change: int) -> None:
        self._taken += change
        LOG_RELAYS.set(self._taken)
        for counter, key in ((self._of_pod, caller.uid), (self._of_namespace, caller.namespace)):
            counter[key] += change
            if not counter[key]:
                del counter[key]
