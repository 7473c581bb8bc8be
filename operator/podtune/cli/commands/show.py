"""`podtune list`, `describe`, `watch`, `dashboard`, `best`, `importance` and `why`: what goes on, and why."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from podtune.cli.client import api_client
from podtune.cli.client.named_api import open_named
from podtune.cli.client.resources import fetch_experiment, get_experiment, get_trial, list_experiments, list_trials
from podtune.cli.errors import CliError, ExitStatus
from podtune.cli.options import (
    Context,
    ExperimentName,
    ForPrograms,
    Kubeconfig,
    NamedFormat,
    Namespace,
    Output,
    TableFormat,
    TableOutput,
    TrialName,
)
from podtune.cli.output import (
    CommandAnswer,
    name_experiment,
    name_trial,
    print_answer,
    print_facts,
    print_lines,
    print_note,
)
from podtune.cli.views import tables
from podtune.cli.views.explain import explain_as_data, explain_in_sentences
from podtune.cli.views.facts import collect_description, collect_experiment_facts


def show_list(
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="In all namespaces.")] = False,
    output: TableFormat = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """List Experiments, how far they are and what they found."""
    api, chosen = api_client.open_api(kubeconfig, context, namespace)
    views = list_experiments(api, None if all_namespaces else chosen)
    now = datetime.now(UTC)
    if not views and (output is None or output is TableOutput.WIDE):
        where = "" if all_namespaces else f" in namespace {chosen}"
        print_note(f"No Experiments{where}.")
        return
    answer = CommandAnswer(
        lines=lambda width: tables.render_list(views, now, width, with_namespace=all_namespaces),
        wide=lambda: tables.render_list(views, now, with_namespace=all_namespaces, is_wide=True),
        facts=lambda: {"items": [collect_experiment_facts(view) for view in views]},
        names=lambda: (name_experiment(view.name) for view in views),
    )
    print_answer(answer, output)


def describe(
    experiment: ExperimentName,
    output: TableFormat = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show an Experiment: what was asked, how it goes, and all its Trials."""
    api, chosen, experiment = open_named(experiment, kubeconfig, context, namespace)
    view, trials = get_experiment(api, chosen, experiment), list_trials(api, chosen, experiment)
    now = datetime.now(UTC)
    answer = CommandAnswer(
        lines=lambda width: tables.render_description(view, trials, now, width),
        wide=lambda: tables.render_description(view, trials, now, None),
        facts=lambda: collect_description(view, trials),
        names=lambda: [name_experiment(view.name)],
    )
    print_answer(answer, output)


def follow_experiment(
    experiment: ExperimentName, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None
) -> None:
    """Follow an Experiment until it ends; the exit code is 0 if it is complete."""
    # Other commands do without these, and start faster.
    from rich.console import Console  # noqa: PLC0415

    from podtune.cli.views import watch_view  # noqa: PLC0415
    from podtune.cli.views.progress import follow  # noqa: PLC0415

    api, chosen, experiment = open_named(experiment, kubeconfig, context, namespace)
    states = follow(api, chosen, experiment)
    if sys.stdout.isatty():
        last = watch_view.show_live(states, Console(), lambda: datetime.now(UTC))
    else:
        last = watch_view.show_lines(states, typer.echo, lambda: datetime.now(UTC))
    code, words = (last.outcome if last else None) or (ExitStatus.FAILED, "the watch ended")
    typer.echo(f"{experiment}: {words}", err=code != 0)
    raise typer.Exit(code)


def show_dashboard(
    *,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="What `export` has written, or the directory of a `podtune run`; without it, the cluster.",
        ),
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port on loopback; 0 for any free one.")] = 8480,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")] = False,
    gpu_price: Annotated[
        str,
        typer.Option(
            "--gpu-price",
            metavar="PRICE",
            envvar="PODTUNE_GPU_PRICE",
            help="Of a GPU-hour, such as 2.5, for experiments whose manifest has no cost.",
        ),
    ] = "",
    currency: Annotated[
        str, typer.Option("--currency", metavar="UNIT", envvar="PODTUNE_CURRENCY", help="Of prices, such as EUR.")
    ] = "",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show the Experiments of the cluster, an exported one or a run, in the browser, on this machine, until Ctrl+C."""
    try:
        from podtune.dashboard import pricing, serving  # noqa: PLC0415 - other commands do without its packages
    except ModuleNotFoundError as error:
        raise CliError(
            f"the dashboard needs {error.name}, which is not installed; pip install 'podtune[cli,dashboard]'"
        ) from error
    price = pricing.check_price(gpu_price, currency)
    if file is not None:
        if all_namespaces or namespace or context or kubeconfig:
            raise CliError(f"{file} is shown without a cluster; leave out -A, -n, --context and --kubeconfig, or FILE")
        print_note(f"reading {file}")
        if file.is_dir():
            from podtune.cli.client import run_directory  # noqa: PLC0415 - the rest does without it

            run = run_directory.open_run(file)
            serving.serve_cluster(
                lambda: run,
                run_directory.LOCAL_NAMESPACE,
                port,
                lambda address: print_lines([address]),
                price=price,
                title=f"run {file.resolve().name}",
            )
            return
        serving.serve_archive(file, port, lambda address: print_lines([address]), price=price)
        return
    _, chosen = api_client.open_api(kubeconfig, context, namespace)
    print_note("reading all namespaces" if all_namespaces else f"reading namespace {chosen}")
    serving.serve_cluster(
        lambda: api_client.open_api(kubeconfig, context, namespace)[0],
        None if all_namespaces else chosen,
        port,
        lambda address: print_lines([address]),
        price=price,
    )


def show_best(
    experiment: ExperimentName,
    *,
    export_manifest: Annotated[
        bool, typer.Option("--export-manifest", help="Print a manifest that trains with it: a Job.")
    ] = False,
    kind: Annotated[
        str, typer.Option("--as", metavar="KIND", help="With --export-manifest: job, or experiment, of one Trial.")
    ] = "job",
    output: NamedFormat = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Print the best configuration: its parameters, its value, and where its checkpoint is."""
    api, chosen, experiment = open_named(experiment, kubeconfig, context, namespace)
    if export_manifest:
        # The rest of the command does without it, and starts faster.
        from podtune.cli.commands.experiments import best_manifest  # noqa: PLC0415

        item = fetch_experiment(api, chosen, experiment)
        made = best_manifest.build_best_manifest(item, best_manifest.parse_kind(kind))
        print_facts(made, Output.JSON if output == "json" else Output.YAML)
        return
    facts = tables.collect_best(get_experiment(api, chosen, experiment))
    answer = CommandAnswer(
        lines=lambda _: tables.render_best(facts),
        facts=lambda: facts,
        names=lambda: [name_trial(facts["trial"])],
    )
    print_answer(answer, output)


def show_importance(
    experiment: ExperimentName,
    *,
    objective: Annotated[
        str | None, typer.Option("--objective", metavar="METRIC", help="For which objective; the first if not given.")
    ] = None,
    output: ForPrograms = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Say which parameters matter for an objective, and which for training time."""
    # Other commands do without it, and start faster.
    from podtune.dashboard.importance_text import collect_importance, measure_views, render_importance  # noqa: PLC0415

    api, chosen, experiment = open_named(experiment, kubeconfig, context, namespace)
    view, trials = get_experiment(api, chosen, experiment), list_trials(api, chosen, experiment)
    chart = measure_views(view, trials, objective)
    answer = CommandAnswer(lambda width: render_importance(chart, width), lambda: collect_importance(chart))
    print_answer(answer, output)


def why(
    trial: TrialName,
    output: NamedFormat = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Say why a Trial is where it is: the decisions on it, with their numbers."""
    api, chosen, trial = open_named(trial, kubeconfig, context, namespace)
    view = get_trial(api, chosen, trial)
    answer = CommandAnswer(
        lines=lambda _: explain_in_sentences(view),
        facts=lambda: explain_as_data(view),
        names=lambda: [name_trial(view.name)],
    )
    print_answer(answer, output)
