"""Making several things at the same time, with all that goes wrong told by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass

from e2e.devcluster.errors import ClusterError
from e2e.devcluster.progress import Screen, screen


@dataclass(frozen=True)
class Step:
    """One thing to make."""

    name: str
    make: Callable[[], object]


@dataclass(frozen=True)
class Pipeline:
    """Steps that are made one after the other.

    Attributes:
        steps: In their order.
        counted_as: Their name when it is shown how many of them are done; where it is empty, that is not shown.
    """

    steps: Sequence[Step]
    counted_as: str = ""


def make_all(pipelines: Sequence[Pipeline], at: Screen = screen) -> None:
    """Go through all pipelines at the same time, each up to its first failure.

    A failure is told at once. The other pipelines go on meanwhile: what they make is in the cache the next time.

    Args:
        pipelines: What to make.
        at: Where to tell failures.

    Raises:
        ClusterError: Something was not made; the message names it.
    """
    with ThreadPoolExecutor(len(pipelines)) as pool:
        futures = [pool.submit(_go_through, pipeline, at) for pipeline in pipelines]
    missing = [name for future in futures for name in future.result()]
    if missing:
        raise ClusterError(f"not made: {', '.join(missing)}")


class _PipelineEndedError(Exception):
    """A step has failed, and those after it were not tried."""


def _go_through(pipeline: Pipeline, at: Screen) -> list[str]:
    """Return the names of what was not made."""
    left = list(pipeline.steps)
    try:
        with at.task(pipeline.counted_as) if pipeline.counted_as else nullcontext() as counted:
            if counted is not None:
                counted.count_to(len(left))
            while left:
                _make(left[0], at)
                del left[0]
                if counted is not None:
                    counted.done += 1
    except _PipelineEndedError:
        pass
    return [step.name for step in left]


def _make(step: Step, at: Screen) -> None:
    try:
        step.make()
    except (ClusterError, OSError) as error:
        at.say(f"error: {step.name}: {error}")
        raise _PipelineEndedError from error
