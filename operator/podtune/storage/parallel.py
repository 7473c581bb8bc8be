"""Doing many things side by side, until one fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

WORKERS = 6


def run_all(tasks: Iterable[Callable[[], None]], workers: int = WORKERS) -> None:
    """Runs tasks in several threads. They are drawn from the iterable one by one, so there may be any number.

    Args:
        tasks: After the first that fails no other is begun; those under way are waited for.
        workers: How many at once.

    Raises:
        BaseException: What the first one that failed has raised.
    """
    pool = _Pool(iter(tasks))
    threads = [threading.Thread(target=pool.work, name=f"worker-{number}", daemon=True) for number in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if pool.failure is not None:
        raise pool.failure


class _Pool:
    def __init__(self, tasks: Iterator[Callable[[], None]]) -> None:
        self._tasks = tasks
        self._lock = threading.Lock()
        self.failure: BaseException | None = None

    def work(self) -> None:
        while (task := self._take_next()) is not None:
            try:
                task()
            except BaseException as failure:  # noqa: BLE001 - raised by run_all
                self._fail(failure)

    def _take_next(self) -> Callable[[], None] | None:
        with self._lock:
            if self.failure is not None:
                return None
            try:
                return next(self._tasks, None)
            except BaseException as failure:  # noqa: BLE001 - raised by run_all
                self.failure = failure
                return None

    def _fail(self, failure: BaseException) -> None:
        with self._lock:
            self.failure = self.failure or failure
