"""`podtune simulate`: an experiment in virtual time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podtune.cli.client.experiment_file import read_spec
from podtune.cli.errors import CliError, explain_missing_package
from podtune.cli.options import (
    EvaluationTime,
    Format,
    FormatOption,
    Gpus,
    ManifestPath,
    Output,
    PodStart,
    TimePerIteration,
    read_duration_option,
)
from podtune.cli.output import print_facts

if TYPE_CHECKING:
    from podtune.api.resources.experiment import ExperimentSpec
    from podtune.simulation.curves.base import Curves

DEFAULT_FUNCTION = "styblinski-tang"
"""The function that trainings end up at where neither it nor curves are named: it goes with every space."""


def simulate(
    manifest: ManifestPath,
    *,
    curves: Annotated[Path | None, typer.Option("--curves", help="CSV file of real curves.")] = None,
    function: Annotated[
        str | None,
        typer.Option("--function", help=f"Function that trainings end up at; {DEFAULT_FUNCTION} by default."),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option("--iterations", min=1, help="Iterations of a whole training; else up to the scheduler's maxTime."),
    ] = None,
    time_per_iteration: TimePerIteration = "1m",
    gpus: Gpus = None,
    pod_start: PodStart = "20s",
    evaluation_time: EvaluationTime = "1m",
    checkpoint_time: Annotated[
        str, typer.Option("--checkpoint-time", metavar="DURATION", help="How long storing one takes.")
    ] = "5s",
    checkpoint_every: Annotated[
        int,
        typer.Option("--checkpoint-every", min=0, help="Iterations between checkpoints; 0: when one is asked for."),
    ] = 1,
    crashes: Annotated[float, typer.Option("--crashes-per-hour", min=0, help="Per hour of a trial's training.")] = 0.0,
    disruptions: Annotated[
        float, typer.Option("--disruptions-per-hour", min=0, help="Pods taken away, per hour of training.")
    ] = 0.0,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Seed of everything; else search.seed.")] = None,
    generate: Annotated[
        int | None,
        typer.Option("--generate", min=1, metavar="COUNT", help="Print curves of so many configurations, and end."),
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Run an Experiment in virtual time, without a cluster: hours of tuning in seconds.

    The operator's own code decides; training is played by real curves (--curves) or by a function with a learning
    curve. The same seeds decide the same.
    """
    # Other commands do without these, and start faster.
    from podtune.cli.views import simulation_text  # noqa: PLC0415
    from podtune.simulation.cluster import ClusterModel  # noqa: PLC0415
    from podtune.simulation.simulation import Simulation  # noqa: PLC0415

    name, spec = read_spec(manifest)
    if seed is not None:
        spec = spec.model_copy(update={"search": spec.search.model_copy(update={"seed": seed})})
    if spec.search.warm_start is not None:
        typer.echo("note: what the earlier experiment knows is left out: it is in the cluster", err=True)
        spec = spec.model_copy(update={"search": spec.search.model_copy(update={"warm_start": None})})
    spec = _remove_disturbances(spec)
    model = ClusterModel(
        gpus=gpus,
        pod_start=read_duration_option(pod_start, "--pod-start"),
        checkpoint=read_duration_option(checkpoint_time, "--checkpoint-time"),
        checkpoint_every=checkpoint_every,
        evaluation=read_duration_option(evaluation_time, "--evaluation-time"),
        crashes_per_hour=crashes,
        disruptions_per_hour=disruptions,
    )
    with explain_failures():
        seconds = read_duration_option(time_per_iteration, "--time-per-iteration")
        trained = _choose_curves(spec, curves, function, iterations, seconds)
        if generate is not None:
            _print_curves(trained, spec, generate)
            return
        outcome = Simulation(spec, trained, model, name=name, seed=spec.search.seed).run()
    if output is not Format.TABLE:
        print_facts(simulation_text.collect_outcome(outcome), Output(output))
    else:
        simulation_text.print_picture(simulation_text.render_outcome(name, spec, outcome, gpus))


def _remove_disturbances(spec: ExperimentSpec) -> ExperimentSpec:
    """The same, not suspended or stopped by a user, and without what only the cluster has: others' checkpoints."""
    initial = [entry.model_copy(update={"restore_from": None}) for entry in spec.search.initial]
    search = spec.search.model_copy(update={"initial": initial})
    stop = spec.stop.model_copy(update={"now": None})
    return spec.model_copy(update={"suspend": False, "search": search, "stop": stop})


def _choose_curves(
    spec: ExperimentSpec, table: Path | None, function: str | None, iterations: int | None, seconds: float
) -> Curves:
    """What trials report: curves from a file, or over a function."""
    from podtune.simulation.curves.functions import CURVE_FUNCTIONS  # noqa: PLC0415
    from podtune.simulation.curves.synthetic import SyntheticCurves  # noqa: PLC0415
    from podtune.simulation.curves.table import read_curves  # noqa: PLC0415
    from podtune.simulation.horizon import ITERATIONS, find_iteration_limit  # noqa: PLC0415
    from podtune.tuning.schedulers.factory import make_scheduler  # noqa: PLC0415

    if table is not None and function is not None:
        raise CliError("use either --curves or --function, not both")
    if table is not None:
        time = make_scheduler(spec).time_attribute
        try:
            with table.open(encoding="utf-8", newline="") as lines:
                return read_curves(lines, spec.parameters, spec.objective, time=time, seconds=seconds)
        except OSError as error:
            raise CliError(f"{table}: {error.strerror or error}; name a file that can be read") from error
    chosen = CURVE_FUNCTIONS.get(function or DEFAULT_FUNCTION)
    if chosen is None:
        raise CliError(f"--function {function} is not known; choose one of {', '.join(CURVE_FUNCTIONS)}")
    length = iterations or find_iteration_limit(spec, seconds) or ITERATIONS
    return SyntheticCurves(
        chosen, spec.parameters, spec.objective, iterations=length, seconds=seconds, seed=spec.search.seed
    )


def _print_curves(curves: Curves, spec: ExperimentSpec, count: int) -> None:
    from podtune.simulation.curves.generate import write_curves  # noqa: PLC0415
    from podtune.tuning.schedulers.factory import make_scheduler  # noqa: PLC0415

    time = make_scheduler(spec).time_attribute
    write_curves(sys.stdout, curves, spec, time=time, count=count, seed=spec.search.seed)


@contextmanager
def explain_failures() -> Iterator[None]:
    """Says in one line what keeps an experiment from being simulated.

    Raises:
        CliError: Something does.
    """
    from podtune.simulation.curves.base import CurveError  # noqa: PLC0415
    from podtune.simulation.simulation import SimulationError  # noqa: PLC0415

    try:
        yield
    except (CurveError, SimulationError) as error:
        raise CliError(str(error)) from error
    except ModuleNotFoundError as error:
        raise explain_missing_package(error, "cli,operator") from error
