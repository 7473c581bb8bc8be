"""What the operator is held to, by the name of the figure that tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A limit of a figure."""

    limit: float
    unit: str = ""
    at_least: bool = False

    def holds(self, value: float) -> bool:
        """Whether a figure is within the limit; one that is not a number is not."""
        return value >= self.limit if self.at_least else value <= self.limit

    @property
    def text(self) -> str:
        """As people read it."""
        return f"{'≥' if self.at_least else '≤'} {self.limit:,g} {self.unit}".strip()


TARGETS: Mapping[str, Target] = {
    "trials a second, as a share of a bare Job's pods": Target(0.65, at_least=True),
    "trials a second, as a share of a Job's with a trial's pods": Target(0.8, at_least=True),
    "operator's API writes a no-op trial": Target(4.1),
    "API writes a trial that ASHA stops": Target(7),
    "operator's processor time a no-op trial": Target(9, "ms"),
    "processor time a trial, as by default, to none kept": Target(1.05),
    "processor time a trial, logs kept, too, to none kept": Target(1.15),
    "results taken in a second": Target(5000, "results/s", at_least=True),
    "results lost": Target(0),
    "results counted twice": Target(0),
    "growth of the processor time a trial": Target(1.15),
    "processor time a trial of many experiments, to one's": Target(1.15),
    "operator's memory a trial": Target(25, "kB"),
    "operator's memory at 10,000 trials": Target(500, "MB"),
    "growth of the Experiment object": Target(1.15),
    "first decision after SIGKILL": Target(15, "s"),
    "pods made twice": Target(0),
    "longest stall of the event loop": Target(100, "ms"),
    "pod's end to the next pod's POST, p99": Target(250, "ms"),
    "result to decision, p99": Target(100, "ms"),
    "operator's processor time for a log of ten lines a second": Target(0.15, "%"),
    "operator's processor time for a MiB of logs": Target(10, "ms"),
    "longest stall of the event loop while logs come": Target(100, "ms"),
    "pods of a small experiment posted, beside a giant, p50": Target(1000, "ms"),
    "agent's memory when idle": Target(45, "MB"),
    "agent's processor time until its first report": Target(0.4, "s"),
    "agent's image over its base": Target(40, "MB"),
    "1 GiB in one file: up, to what is possible": Target(1.2),
    "1 GiB in one file: up, to the faster tool": Target(1),
    "1 GiB in one file: down, to what is possible": Target(1.2),
    "1 GiB in one file: down, to the faster tool": Target(1),
    "16 × 64 MiB: up, to what is possible": Target(1.2),
    "16 × 64 MiB: up, to the faster tool": Target(1),
    "16 × 64 MiB: down, to what is possible": Target(1.2),
    "16 × 64 MiB: down, to the faster tool": Target(1),
    "5,000 × 20 kB: up, to what is possible": Target(1.2),
    "5,000 × 20 kB: up, to the faster tool": Target(1),
    "5,000 × 20 kB: down, to what is possible": Target(1.2),
    "5,000 × 20 kB: down, to the faster tool": Target(1),
    "a pod a trial, to a bare Job with a sidecar": Target(0.9, at_least=True),
    "warm pods, to Ray Tune with reused actors": Target(2, at_least=True),
    "no-op trials on one machine, to the faster other": Target(1, at_least=True),
    "trials of 1 s on one machine, to the faster other": Target(1, at_least=True),
    "first result of the digits after pip install": Target(30, "s"),
    "first trial's program runs, after a plain pod's": Target(0.5, "s"),
    "first paint of 10,000 trials": Target(1000, "ms"),
    "first chart of 10,000 trials": Target(1500, "ms"),
    "server's processor time for a live update of 10,000 trials": Target(50, "ms"),
    "dashboard's memory with an archive of 10,000 trials": Target(400, "MB"),
    "dashboard's memory at 10,000 trials that change": Target(400, "MB"),
}
