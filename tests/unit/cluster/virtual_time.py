"""An event loop whose clock jumps to the next timer as soon as nothing else is left to do."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any


class _Selector(selectors.DefaultSelector):
    now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise AssertionError("the test waits for something that will never happen")
        if not ready and timeout:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Never sleeps. Not for real sockets or threads: those take time that it does not know of."""

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs an async test function in virtual time.

    For tests in which only coroutines of our own take part.
    """

    # No functools.wraps: pytest must not take it for a coroutine function, but has to see its arguments.
    def run(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    import inspect

    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
    run.__signature__ = inspect.signature(test)  # type: ignore[attr-defined]
    return run


def now() -> float:
    """The present time of the running loop."""
    return asyncio.get_running_loop().time()


async def settle() -> None:
    """Lets everything run that can run without time passing."""
    for _ in range(50):
        await asyncio.sleep(0)
