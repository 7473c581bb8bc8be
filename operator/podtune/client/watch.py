"""An Experiment as it goes on: snapshots, one after each change."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from numbers import Real
from types import TracebackType
from typing import Self

from podtune.api.base import parse_duration
from podtune.cli.client.api_client import Api
from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.cli.views.progress import Inbox, Progress, follow
from podtune.client.display import WatchDisplay
from podtune.client.errors import ExperimentFailed, InvalidArgument, NotPossible, WaitTimeout, raise_own_errors
from podtune.client.page import draw_snapshot
from podtune.client.session import ClusterSession, is_expired
from podtune.client.snapshot import ExperimentSnapshot
from podtune.client.trial import Trial
from podtune.kube.errors import ApiRefusal

_MAX_SECONDS = threading.TIMEOUT_MAX
"""Longest time that can be waited for: some three hundred years."""


class _Left(Exception):
    """Nobody wants to watch any more."""


class ExperimentWatch(Iterator[ExperimentSnapshot[Trial]]):
    """Follows an Experiment: an iterator of snapshots that ends with the Experiment, or when it is closed.

    Each snapshot is shown, too, if that is wanted: in a notebook by one table that updates itself, elsewhere by a line
    for each change. Where changes come faster than they are taken, several are one snapshot.
    """

    def __init__(
        self,
        session: ClusterSession,
        namespace: str,
        name: str,
        make_trial: Callable[[TrialView, ExperimentView], Trial],
        display: WatchDisplay,
    ) -> None:
        """Is made by an Experiment; it asks the cluster when its first snapshot is taken."""
        self._session = session
        self._namespace = namespace
        self._name = name
        self._make_trial = make_trial
        self._display = display
        self._lock = threading.Lock()
        self._inbox = Inbox()
        self._end: Exception | None = None
        self._snapshots = self._follow()

    def __next__(self) -> ExperimentSnapshot[Trial]:
        """Waits for the next snapshot.

        Raises:
            PodtuneError: The API server can't be asked any more.
        """
        return next(self._snapshots)

    def wait(self, timeout: float | str | None = None) -> ExperimentSnapshot[Trial]:
        """Follows it to its end; returns the last snapshot.

        Args:
            timeout: How long to wait at most: seconds, or a duration such as 90s; None for any time.

        Raises:
            InvalidArgument: That is no length of time.
            WaitTimeout: It goes on after that time.
            PodtuneError: The API server can't be asked any more.
        """
        seconds = read_seconds(timeout)
        after = "" if seconds is None else f" after {seconds:g} s"
        late = WaitTimeout(f"experiment {self._name} goes on{after}; wait again, for longer, or stop it")
        with self, _call_after(seconds, partial(self._leave, late)):
            last = deque(self, maxlen=1)
        if not last:
            raise NotPossible(f"the watch on experiment {self._name} was closed before it had told anything")
        return last.pop()

    def _ipython_display_(self) -> None:
        """Is called for the last expression of a notebook's cell: follows the Experiment, which shows it."""
        self.wait()

    def close(self) -> None:
        """Ends it, from another thread, too: whoever waits for a snapshot gets no more."""
        self._leave(_Left())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _leave(self, reason: Exception) -> None:
        with self._lock:
            if self._end is None:
                self._end = reason
                self._inbox.close(reason)

    def _open_inbox(self) -> Inbox:
        """An inbox for new watches, closed already if somebody has left meanwhile."""
        with self._lock:
            self._inbox = Inbox()
            if self._end is not None:
                self._inbox.close(self._end)
            return self._inbox

    def _follow(self) -> Iterator[ExperimentSnapshot[Trial]]:
        with raise_own_errors():
            api = self._session.api
            while True:
                has_told = False
                try:
                    for snapshot in self._read(api, self._open_inbox()):
                        has_told = True
                        yield snapshot
                except _Left:
                    return
                except ApiRefusal as error:
                    if not is_expired(error) or not has_told:
                        raise
                    api = self._session.renew(api)
                else:
                    return

    def _read(self, api: Api, inbox: Inbox) -> Iterator[ExperimentSnapshot[Trial]]:
        view: ExperimentView | None = None
        for progress in follow(api, self._namespace, self._name, inbox):
            view = progress.experiment or view
            if view is None:
                raise ExperimentFailed(f"{self._name}: the experiment was deleted")
            if progress.outcome is not None or not inbox.has_more:
                snapshot = self._make_snapshot(progress, view)
                self._display.show(progress, partial(draw_snapshot, snapshot))
                yield snapshot

    def _make_snapshot(self, progress: Progress, view: ExperimentView) -> ExperimentSnapshot[Trial]:
        trials = tuple(progress.trials.values())
        return ExperimentSnapshot(view, trials, self._make_trial, is_deleted=progress.experiment is None)


def read_seconds(timeout: float | str | None) -> float | None:
    """Reads how long somebody wants to wait.

    Raises:
        InvalidArgument: It is no length of time.
    """
    if timeout is None:
        return None
    if not isinstance(timeout, str | Real):
        raise InvalidArgument(f"timeout: {timeout!r:.64} is no length of time; give seconds, or a duration such as 90s")
    try:
        seconds = parse_duration(timeout) if isinstance(timeout, str) else float(timeout)
    except ValueError as error:
        raise InvalidArgument(f"timeout: {error}; give seconds, or a duration such as 90s") from error
    if not 0 <= seconds <= _MAX_SECONDS:
        raise InvalidArgument(f"timeout: {timeout!r} is no time to wait; give seconds from 0 to {_MAX_SECONDS:.0f}")
    return seconds


@contextmanager
def _call_after(seconds: float | None, call: Callable[[], None]) -> Iterator[None]:
    """Has something called after some time, if it is not left before; with None never."""
    if seconds is None:
        yield
        return
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
