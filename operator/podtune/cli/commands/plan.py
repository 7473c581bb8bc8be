"""`podtune plan`: what an experiment will take, and what is wrong with its manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from podtune.cli.client.experiment_file import read_experiment_file
from podtune.cli.commands.simulate import explain_failures
from podtune.cli.errors import ExitStatus
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
from podtune.cli.views.formats import format_duration
from podtune.cli.views.numbers import format_hours_column

if TYPE_CHECKING:
    from rich.console import RenderableType

    from podtune.simulation.plan import Plan


def plan(
    manifest: ManifestPath,
    *,
    price: Annotated[
        float | None, typer.Option("--price-per-gpu-hour", min=0, help="What a GPU costs an hour, in any currency.")
    ] = None,
    time_per_iteration: TimePerIteration = "1m",
    iterations: Annotated[
        int | None,
        typer.Option("--iterations", min=1, help="Iterations of a whole training; else up to the scheduler's maxTime."),
    ] = None,
    gpus: Gpus = None,
    pod_start: PodStart = "20s",
    evaluation_time: EvaluationTime = "1m",
    output: FormatOption = Format.TABLE,
) -> None:
    """Say what an Experiment will take, without a cluster: trials at each rung, GPU-hours, cost.

    What is wrong with the manifest is said too, all of it; the exit code is 1 then.
    """
    # Other commands do without these, and start faster.
    from podtune.cli.views.simulation_text import print_picture  # noqa: PLC0415
    from podtune.simulation.cluster import ClusterModel  # noqa: PLC0415
    from podtune.simulation.plan import make_plan  # noqa: PLC0415

    seconds = read_duration_option(time_per_iteration, "--time-per-iteration")
    model = ClusterModel(
        gpus=gpus,
        pod_start=read_duration_option(pod_start, "--pod-start"),
        evaluation=read_duration_option(evaluation_time, "--evaluation-time"),
    )
    read = read_experiment_file(manifest)
    if read.spec is None:
        _print_problems(read.name, read.problems, output)
        raise typer.Exit(ExitStatus.FAILED)
    with explain_failures():
        planned = make_plan(read.spec, model, seconds=seconds, iterations=iterations)
    if output is Format.TABLE:
        print_picture(render_plan(read.name, planned, price))
    else:
        print_facts({"problems": [], **collect_plan(planned, price)}, Output(output))


def _print_problems(name: str, problems: tuple[str, ...], output: Format) -> None:
    if output is not Format.TABLE:
        print_facts({"problems": list(problems)}, Output(output))
        return
    typer.echo(f"{name}: {len(problems)} {'problem' if len(problems) == 1 else 'problems'}", err=True)
    for problem in problems:
        typer.echo(f"  {problem}", err=True)


def collect_plan(plan: Plan, price: float | None) -> dict[str, Any]:
    """The plan for programs."""
    return {
        "algorithm": plan.algorithm,
        "scheduler": plan.scheduler,
        "trials": plan.trials,
        "atOnce": plan.at_once,
        "evaluations": plan.evaluations,
        "iterations": plan.iterations,
        "timeAttribute": plan.time_attribute,
        "secondsPerIteration": plan.seconds,
        "gpusPerTrial": plan.gpus_a_trial,
        "brackets": [
            {"number": b.number, "milestones": b.milestones, "trials": b.trials, "share": b.share}
            for b in plan.brackets
        ],
        "rungs": [
            {"time": r.time, "trials": r.trials, "further": r.further, "gpuHours": r.gpu_hours} for r in plan.rungs
        ],
        "decisions": dict(plan.decisions),
        "hours": plan.hours,
        "gpuHours": plan.gpu_hours,
        "gpuHoursIfAllRanToTheirEnd": plan.whole_gpu_hours,
        "cost": None if price is None else price * plan.gpu_hours,
        "costIfAllRanToTheirEnd": None if price is None else price * plan.whole_gpu_hours,
        "notes": plan.notes,
    }


def render_plan(name: str, plan: Plan, price: float | None) -> RenderableType:
    """The plan for people."""
    from rich.console import Group  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    lines = Table.grid(padding=(0, 3))
    asked = f"{plan.algorithm}, {plan.scheduler}, {plan.trials} trials, {plan.at_once} at once"
    lines.add_row("Experiment", Text.assemble((name, "bold"), f"  {asked}"))
    training = f"{plan.iterations} iterations of {format_duration(plan.seconds)}"
    lines.add_row("Training", f"{training} on {plan.gpus_a_trial:g} GPU{'s' * (plan.gpus_a_trial > 1)}")
    if plan.evaluations is not None:
        lines.add_row("Evaluation", f"about {plan.evaluations:.1f} trials, {_describe_gpus(plan.gpus_an_evaluation)}")
    lines.add_row("Takes", f"about {format_duration(plan.hours * 3600)}")
    lines.add_row("GPU time", _format_amount(plan.gpu_hours, price))
    lines.add_row("All to the end", _format_amount(plan.whole_gpu_hours, price))
    if plan.decisions:
        counts = (f"{count:.1f} {action}" for action, count in plan.decisions.items())
        lines.add_row("Decisions", f"about {', '.join(counts)}")
    parts: list[RenderableType] = [lines, Text(), _render_rungs(plan, price)]
    if len(plan.brackets) > 1:
        parts += [Text(), _render_brackets(plan)]
    parts += [Text()] if plan.notes else []
    parts += [Text(f"Note: {note}.", style="dim") for note in plan.notes]
    return Group(*parts)


def _describe_gpus(count: float) -> str:
    return f"each on {count:g} GPU{'s' * (count > 1)}" if count else "without a GPU"


def _format_amount(gpu_hours: float, price: float | None) -> str:
    cost = "" if price is None else f", costs {price * gpu_hours:,.2f}"
    return f"{gpu_hours:,.4g} GPU-hours{cost}"


def _render_rungs(plan: Plan, price: float | None) -> RenderableType:
    from podtune.cli.views.simulation_text import make_plain_table  # noqa: PLC0415

    columns = [plan.time_attribute.upper(), "REACHED BY", "GO ON", "GPU-HOURS"]
    table = make_plain_table(*columns, *(["COST"] if price is not None else []))
    hours = format_hours_column([rung.gpu_hours for rung in plan.rungs])
    for rung, used in zip(plan.rungs, hours, strict=True):
        row = [f"{rung.time}", f"{rung.trials:.1f}", f"{rung.further:.1f}", used]
        table.add_row(*row, *([f"{rung.gpu_hours * price:,.2f}"] if price is not None else []))
    return table


def _render_brackets(plan: Plan) -> RenderableType:
    from podtune.cli.views.simulation_text import make_plain_table  # noqa: PLC0415

    table = make_plain_table("BRACKET", "SHARE OF TRIALS", "SIZE", "RUNGS")
    for bracket in plan.brackets:
        size = "-" if bracket.trials is None else str(bracket.trials)
        rungs = " ".join(map(str, bracket.milestones)) or "none"
        table.add_row(str(bracket.number), f"{bracket.share:.1%}", size, rungs)
    return table
