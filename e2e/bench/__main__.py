"""`make bench`.

python -m e2e.bench [--trials 1000] [--parallelism 100] [--nodes 20] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from e2e.bench.lifecycle import ExperimentRun, JobRun, run_experiment, run_job
from e2e.cluster import Cluster
from e2e.kubernetes import Kubernetes

NAMESPACES = ("bench-job", "bench-podtune")


def main() -> int:
    """Runs the benchmark; returns the exit code."""
    options = _parser().parse_args()
    cluster = Cluster.connect()
    _remove_namespaces(cluster)
    cluster.add_kwok_nodes(options.nodes)
    try:
        job = run_job(_namespace(cluster, NAMESPACES[0]), options.trials, options.parallelism)
        _remove_namespaces(cluster)
        experiment = run_experiment(_namespace(cluster, NAMESPACES[1]), cluster, options.trials, options.parallelism)
    finally:
        _remove_namespaces(cluster)
        cluster.remove_kwok_nodes()
    _print(job, experiment, options.parallelism)
    if options.json is not None:
        figures = {"processors": os.cpu_count(), "job": asdict(job), "experiment": asdict(experiment)}
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.bench", description="Podtune beside a bare Job.")
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--parallelism", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=20, help="fake nodes")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    return parser


def _namespace(cluster: Cluster, name: str) -> Kubernetes:
    cluster.kubectl("create", "namespace", name)
    return Kubernetes(cluster, name)


def _remove_namespaces(cluster: Cluster) -> None:
    cluster.kubectl("delete", "namespace", *NAMESPACES, "--ignore-not-found", "--timeout=300s", timeout=310)


def _print(job: JobRun, experiment: ExperimentRun, parallelism: int) -> None:
    title = (
        f"{experiment.trials} no-op trials, {parallelism} at once, on fake nodes; {os.cpu_count()} processors for all"
    )
    table = Table("what", "figure", title=title, title_justify="left")
    writes = experiment.writes.total() / experiment.trials
    table.add_row("bare Job", f"{job.rate:.1f} pods/s")
    table.add_row("Podtune", f"{experiment.rate:.1f} trials/s")
    table.add_row("Podtune / bare Job", f"{experiment.rate / job.rate:.2f}")
    table.add_row("API writes of the operator a trial", f"{writes:.2f}")
    for kind, count in experiment.writes.most_common():
        table.add_row(f"  {kind}", f"{count / experiment.trials:.3f}")
    table.add_row("operator CPU a trial", f"{1000 * experiment.processor_seconds / experiment.trials:.1f} ms")
    table.add_row("operator memory at the end", f"{experiment.resident_bytes / 1e6:.0f} MB")
    Console().print(table)
    shares = Table("CPU of the cluster's components, ms a pod", "bare Job", "Podtune")
    for name in experiment.components | job.components:
        figures = (run.components[name] / experiment.trials for run in (job, experiment))
        shares.add_row(name, *(f"{figure:.1f}" for figure in figures))
    Console().print(shares)


if __name__ == "__main__":
    sys.exit(main())
