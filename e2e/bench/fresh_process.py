"""Measures in processes of their own: what one run leaves behind in memory would slow the next one down."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import ParamSpec, TypeVar

from podtune.app.garbage import collect_in_small_portions

P = ParamSpec("P")
T = TypeVar("T")


def in_fresh_process(work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Returns what a function of a module returns; its arguments and that are pickled.

    Without garbage collection in small portions an API server of 10,000 trials, faked there, stands still for seconds.

    Raises:
        BaseException: What the function has raised.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=collect_in_small_portions) as pool:
        return pool.submit(work, *arguments, **named).result()
