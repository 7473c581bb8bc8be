"""`python -m e2e.soak`: runs it on the local cluster, says what has grown, and writes the figures."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random

from rich.console import Console
from rich.table import Table

from e2e.containers import read_container_id
from e2e.devcluster import Cluster
from e2e.install import OPERATOR_NAMESPACE, OPERATOR_PODS
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.namespaces import fresh_namespace
from e2e.soak.growth import MEASURES, Growth, Sample, find_unmeasured, measure_growth, sample_process
from e2e.soak.load import LASTING, Load
from e2e.soak.operator_metrics import OperatorMetrics, reading_metrics
from e2e.soak.watches import WatchFigures, find_stale, read_watches
from e2e.tests.conftest import store_secret

FIGURES = Path(__file__).parent / "figures.json"
NAMESPACE = "e2e-soak"
SAMPLE_SECONDS = 15.0
FAULT_SECONDS = 20.0
"""Seconds between two faults on average."""
Sampler = Callable[[float], Sample | None]
"""Looks at a process, so many seconds after the beginning; None where it has ended."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What a soak has found.

    Attributes:
        minutes: How long it was.
        load: The experiments and faults.
        growths: How each measure of each process has grown.
        watches: The operator's, by resource.
    """

    minutes: float
    load: Load
    growths: Mapping[str, Mapping[str, Growth]]
    watches: Mapping[str, WatchFigures]


def find_container(pods: Sequence[Object], statuses: str, name: str) -> str:
    """The id of a container of the only pod."""
    (pod,) = pods
    (found,) = (status for status in pod["status"].get(statuses, ()) if status["name"] == name)
    return read_container_id(found)


def sample_operator(container: str, metrics: OperatorMetrics, seconds: float) -> Sample | None:
    """Looks at the operator's process, and at the tasks of its event loop where it says how many there are."""
    sample = sample_process(container, seconds)
    tasks = metrics.read("podtune_event_loop_tasks")
    return sample if sample is None or tasks is None else Sample(seconds, {**sample.used, "tasks": tasks})


def soak(load: Load, samplers: Mapping[str, Sampler], minutes: float) -> dict[str, list[Sample]]:
    """Keeps up load and faults for so many minutes; returns the samples of each process."""
    samples: dict[str, list[Sample]] = {name: [] for name in samplers}
    begun = time.monotonic()
    next_fault = FAULT_SECONDS
    while (seconds := time.monotonic() - begun) < minutes * 60:
        load.replenish()
        if seconds >= next_fault:
            load.strike()
            next_fault = seconds + load.random.uniform(0.5, 1.5) * FAULT_SECONDS
        for name, look in samplers.items():
            sample = look(seconds)
            if sample is None:
                load.problems.append(f"the process of {name} has ended")
                return samples
            samples[name].append(sample)
        time.sleep(max(0.0, begun + seconds + SAMPLE_SECONDS - time.monotonic()))
    return samples


def show(growths: Mapping[str, Mapping[str, Growth]]) -> Table:
    """Shows what each process used, and how that has grown."""
    table = Table("process", "what", "median", "growth", "")
    for process, measures in growths.items():
        for name, growth in measures.items():
            unit, digits = (1e6, 1) if name == "memory" else (1.0, 1)
            shown = f"{name}, MB" if name == "memory" else name
            numbers = (f"{growth.typical / unit:,.{digits}f}", f"{growth.growth / unit:+,.{digits}f}")
            table.add_row(process, shown, *numbers, "flat" if growth.is_flat else "grows")
    return table


def main() -> int:
    """Runs it; returns 1 where something has grown, an experiment came to a bad end, or too little has happened."""
    parser = argparse.ArgumentParser(prog="python -m e2e.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=45.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    cluster = Cluster.connect()
    operator = Kubernetes(cluster, OPERATOR_NAMESPACE)
    with fresh_namespace(cluster, NAMESPACE) as namespace, reading_metrics(operator) as metrics:
        namespace.apply(store_secret(cluster.s3.access_key, cluster.s3.secret_key))
        load = Load(namespace, Random(options.seed))
        load.begin()
        lasting = eventually(
            lambda: namespace.list("pods", f"podtune.dev/experiment={LASTING}"),
            lambda pods: [pod["status"]["phase"] for pod in pods] == ["Running"],
            what="the lasting trial runs",
        )
        operator_container = find_container(operator.list("pods", OPERATOR_PODS), "containerStatuses", "operator")
        agent = find_container(lasting, "initContainerStatuses", "podtune-agent")
        samplers: dict[str, Sampler] = {
            "operator": partial(sample_operator, operator_container, metrics),
            "agent": partial(sample_process, agent),
        }
        began = datetime.now(UTC)
        samples = soak(load, samplers, options.minutes)
        with cluster.audit_log.open(encoding="utf-8") as lines:
            watches = read_watches(lines, began)
        ended = datetime.now(UTC)
    found = Findings(
        options.minutes,
        load,
        {name: measure_growth(taken) for name, taken in samples.items() if taken},
        {resource: WatchFigures.make(of_resource, ended) for resource, of_resource in watches.items()},
    )
    problems = [
        *load.problems,
        *load.find_idleness(options.minutes),
        *find_stale(found.watches, options.minutes),
        *say_unmeasured(samples["operator"]),
    ]
    console = Console()
    console.print(show(found.growths))
    faults = ", ".join(f"{count} {name}" for name, count in sorted(load.faults.items()))
    console.print(f"{load.ended} experiments came to a good end; pods: {faults or 'no fault'}")
    renewed = ", ".join(f"{one.count} of {name}" for name, one in sorted(found.watches.items()))
    console.print(f"the operator's watches: {renewed}")
    for problem in problems:
        print(problem, file=sys.stderr)
    if options.json:
        options.json.write_text(json.dumps(make_figures(found, problems), indent=2) + "\n", encoding="utf-8")
    return int(bool(problems) or not all(g.is_flat for measures in found.growths.values() for g in measures.values()))


def say_unmeasured(samples: Sequence[Sample]) -> list[str]:
    """Says of which measures of the operator too few samples could be taken."""
    return [
        f"{count} of {len(samples)} samples of the operator have no {name}: its metrics did not answer"
        for name, count in find_unmeasured(samples, MEASURES).items()
    ]


def make_figures(found: Findings, problems: Sequence[str]) -> Object:
    """The figures as they are committed."""
    return {
        "minutes": found.minutes,
        "experiments": found.load.ended,
        "faults": dict(sorted(found.load.faults.items())),
        "problems": list(problems),
        "watches": {
            resource: {"count": one.count, "longest": round(one.longest)}
            for resource, one in sorted(found.watches.items())
        },
        "processes": {
            process: {
                name: {
                    "median": round(growth.typical),
                    "growth": round(growth.growth),
                    "flat": growth.is_flat,
                    "course": [round(mean, 1 if name != "memory" else None) for mean in growth.course],
                }
                for name, growth in measures.items()
            }
            for process, measures in found.growths.items()
        },
    }


if __name__ == "__main__":
    sys.exit(main())
