"""What processes use over time, and whether it grows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

from e2e.bench.processor_time import processes, resident_bytes_of

MEASURES = ("memory", "threads", "files", "sockets", "tasks")
WARM_UP = 0.25
"""Share of the samples, the first ones, in which caches fill."""
MOST_MEMORY = 0.05
"""How much of its median a process's memory may grow, by its slope, in the time that was looked at."""
COURSE = 10
"""Parts of the time, of each of which the mean is kept: a leak grows in all of them, a cache in the first."""
MOST_RISES = 5
"""In how many of the last parts memory has to rise to be called a leak: noise rises so often one time in 700. What
fills once rises less and less."""
MOST_AN_HOUR = 1e6
"""Bytes an hour; a leak rises by more in each of these parts. 24 MB a day would reach the limits of a long trial."""
LEAST_RISE = 65536.0
"""Bytes from one part to the next that are no rise, however short the parts: interpreters take many pages at once."""
MOST_OTHERS = 3.0
"""How many threads, files or sockets may be more at the end than at the beginning, by the slope."""
MOST_TASKS = 10.0
"""How many tasks of an event loop may be more. Each connection and request has one, so they go up and down by more than
sockets do; one that is left by each watch that is renewed would be 20 within 45 minutes."""
LEAST_MEASURED = 0.9
"""In what share of the samples a measure must be, if it is in any of them."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a process used at a moment.

    Attributes:
        seconds: Since the beginning.
        used: Bytes of memory, and numbers of threads, files, sockets and, of the operator, tasks.
    """

    seconds: float
    used: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Growth:
    """How a measure of a process has changed after the warm-up.

    Attributes:
        typical: Its median.
        growth: By how much it has grown, by the slope of a straight line through all samples.
        is_flat: Whether that is little enough; of memory, also whether it does not rise for good.
        course: Its mean in each tenth of the time, the warm-up included.
    """

    typical: float
    growth: float
    is_flat: bool
    course: tuple[float, ...]


def sample_process(container: str, seconds: float) -> Sample | None:
    """Looks at the only process of a container; None where it has none or ends meanwhile.

    Args:
        container: The container's id, which is in the name of its cgroup.
        seconds: Since the beginning.
    """
    with contextlib.suppress(OSError, ValueError):
        (process,) = processes(container)
        files = [_read_link(file) for file in (process / "fd").iterdir()]
        used = {
            "memory": float(resident_bytes_of(process)),
            "threads": float(sum(1 for _ in (process / "task").iterdir())),
            "files": float(len(files)),
            "sockets": float(sum(name.startswith("socket:") for name in files)),
        }
        return Sample(seconds, used)
    return None


def _read_link(file: Path) -> str:
    """What a descriptor is of; nothing where it was closed meanwhile."""
    with contextlib.suppress(OSError):
        return str(file.readlink())
    return ""


def measure_growth(samples: Sequence[Sample]) -> dict[str, Growth]:
    """Measures how each measure that there are samples of has grown after the warm-up."""
    measured = {name: [sample for sample in samples if name in sample.used] for name in MEASURES}
    return {name: _measure(name, found) for name, found in measured.items() if found}


def find_unmeasured(samples: Sequence[Sample], names: Iterable[str]) -> dict[str, int]:
    """Counts the samples that lack a measure; no entry for a measure that enough of them have."""
    missing = {name: sum(1 for sample in samples if name not in sample.used) for name in names}
    return {name: count for name, count in missing.items() if count > (1 - LEAST_MEASURED) * len(samples)}


def _measure(name: str, samples: Sequence[Sample]) -> Growth:
    counted = samples[int(len(samples) * WARM_UP) :]
    values = [sample.used[name] for sample in counted]
    times = [sample.seconds for sample in counted]
    growth = compute_slope(times, values) * (times[-1] - times[0])
    most = {"memory": MOST_MEMORY * median(values), "tasks": MOST_TASKS}.get(name, MOST_OTHERS)
    course = _follow(name, samples)
    keeps_rising = name == "memory" and rises_for_good(course, samples[-1].seconds - samples[0].seconds)
    return Growth(median(values), growth, growth <= most and not keeps_rising, course)


def rises_for_good(course: Sequence[float], seconds: float) -> bool:
    """Whether memory has risen in each of its last parts, by so much that it will not do for long.

    A slow leak stays below `MOST_MEMORY` within the time that it is looked at, and shows in its course all the same.

    Args:
        course: Its mean in each part of the time.
        seconds: All that time.
    """
    if len(course) <= MOST_RISES:
        return False
    least = max(LEAST_RISE, MOST_AN_HOUR / 3600 * seconds / len(course))
    last = course[-MOST_RISES - 1 :]
    return all(after - before > least for before, after in pairwise(last))


def _follow(name: str, samples: Sequence[Sample]) -> tuple[float, ...]:
    """The mean of a measure in each part of the time; of fewer samples, of each."""
    count = min(COURSE, len(samples))
    bounds = [len(samples) * part // count for part in range(count + 1)]
    return tuple(fmean(sample.used[name] for sample in samples[a:b]) for a, b in pairwise(bounds))


def compute_slope(times: Iterable[float], values: Iterable[float]) -> float:
    """Computes the slope of the straight line of least squares; 0 where all is at one time."""
    points = list(zip(times, values, strict=True))
    middle = fmean(time for time, _ in points)
    spread = sum((time - middle) ** 2 for time, _ in points)
    return sum((time - middle) * value for time, value in points) / spread if spread else 0.0
