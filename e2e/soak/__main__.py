"""`python -m e2e.soak`: runs it on the local cluster, says what has grown, and writes the figures."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from rich.console import Console
from rich.table import Table

from e2e.containers import read_container_id
from e2e.devcluster import Cluster
from e2e.install import OPERATOR_NAMESPACE, OPERATOR_PODS
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.namespaces import fresh_namespace
from e2e.soak.growth import Growth, Sample, measure_growth, sample_process
from e2e.soak.load import LASTING, Load
from e2e.tests.conftest import store_secret

FIGURES = Path(__file__).parent / "figures.json"
NAMESPACE = "e2e-soak"
SAMPLE_SECONDS = 15.0
FAULT_SECONDS = 20.0
"""Seconds between two faults on average."""


def find_container(pods: Sequence[Object], statuses: str, name: str) -> str:
    """The id of a container of the only pod."""
    (pod,) = pods
    (found,) = (status for status in pod["status"].get(statuses, ()) if status["name"] == name)
    return read_container_id(found)


def soak(load: Load, containers: Mapping[str, str], minutes: float) -> dict[str, list[Sample]]:
    """Keeps up load and faults for so many minutes; returns the samples of each container."""
    samples: dict[str, list[Sample]] = {name: [] for name in containers}
    begun = time.monotonic()
    next_fault = FAULT_SECONDS
    while (seconds := time.monotonic() - begun) < minutes * 60:
        load.replenish()
        if seconds >= next_fault:
            load.strike()
            next_fault = seconds + load.random.uniform(0.5, 1.5) * FAULT_SECONDS
        for name, container in containers.items():
            sample = sample_process(container, seconds)
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
    """Runs it; returns 1 where something has grown, or an experiment came to a bad end."""
    parser = argparse.ArgumentParser(prog="python -m e2e.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=45.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    cluster = Cluster.connect()
    operator = Kubernetes(cluster, OPERATOR_NAMESPACE)
    with fresh_namespace(cluster, NAMESPACE) as namespace:
        namespace.apply(store_secret(cluster.s3.access_key, cluster.s3.secret_key))
        load = Load(namespace, Random(options.seed))
        load.begin()
        lasting = eventually(
            lambda: namespace.list("pods", f"podtune.dev/experiment={LASTING}"),
            lambda pods: [pod["status"]["phase"] for pod in pods] == ["Running"],
            what="the lasting trial runs",
        )
        containers = {
            "operator": find_container(operator.list("pods", OPERATOR_PODS), "containerStatuses", "operator"),
            "agent": find_container(lasting, "initContainerStatuses", "podtune-agent"),
        }
        samples = soak(load, containers, options.minutes)
    growths = {name: measure_growth(found) for name, found in samples.items() if found}
    console = Console()
    console.print(show(growths))
    faults = ", ".join(f"{count} {name}" for name, count in sorted(load.faults.items()))
    console.print(f"{load.ended} experiments came to their end; pods: {faults or 'no fault'}")
    for problem in load.problems:
        print(problem, file=sys.stderr)
    if options.json:
        options.json.write_text(
            json.dumps(make_figures(options.minutes, load, growths), indent=2) + "\n", encoding="utf-8"
        )
    return int(bool(load.problems) or not all(g.is_flat for measures in growths.values() for g in measures.values()))


def make_figures(minutes: float, load: Load, growths: Mapping[str, Mapping[str, Growth]]) -> Object:
    """The figures as they are committed."""
    return {
        "minutes": minutes,
        "experiments": load.ended,
        "faults": dict(sorted(load.faults.items())),
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
            for process, measures in growths.items()
        },
    }


if __name__ == "__main__":
    sys.exit(main())
