"""The command `podtune`, which is `kubectl podtune` too."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from podtune import __version__
from podtune.api.resources.resume import RestartPolicy, ResumePolicy
from podtune.cli.client.api_client import Api, HttpApi
from podtune.cli.client.kubeconfig import connect
from podtune.cli.client.manifest import STANDARD_INPUT
from podtune.cli.client.resources import get_experiment, get_trial, list_experiments, list_trials
from podtune.cli.commands import lifecycle, transfer
from podtune.cli.commands import logs as trial_logs
from podtune.cli.commands.archive import read_archive
from podtune.cli.commands.plan import plan
from podtune.cli.commands.release import release as let_go
from podtune.cli.commands.simulate import simulate
from podtune.cli.errors import CliError
from podtune.cli.views import tables
from podtune.cli.views.explain import explain_as_data, explain_in_sentences
from podtune.cli.views.facts import description_facts, experiment_facts
from podtune.cli.views.json_output import to_json
from podtune.kube.paths import PathError

app = typer.Typer(
    help="Hyperparameter tuning that belongs to Kubernetes.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


UsageError: Any = typer.BadParameter.__mro__[1]
"""Any mistake on the command line; typer itself names only this one of its parser's errors."""


class Output(StrEnum):
    """How commands answer programs."""

    JSON = "json"
    YAML = "yaml"


ForPrograms = Annotated[Output | None, typer.Option("--output", "-o", help="For programs.")]
ExperimentName = Annotated[str, typer.Argument(metavar="EXPERIMENT", help="Name of the Experiment.")]
TrialName = Annotated[str, typer.Argument(metavar="TRIAL", help="Name of the Trial.")]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Namespace; else the context's.")]
Context = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig; else the current one.")]
Kubeconfig = Annotated[
    Path | None, typer.Option("--kubeconfig", help="Kubeconfig; else $KUBECONFIG or ~/.kube/config.")
]


def open_api(kubeconfig: Path | None, context: str | None, namespace: str | None) -> tuple[Api, str]:
    """The API server, and the namespace that is meant; tests put another one here.

    Raises:
        CliError: No way to a cluster is known.
    """
    connection = connect(kubeconfig, context, namespace)
    return HttpApi(connection), connection.namespace


@app.command("list")
def list_command(
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="In all namespaces.")] = False,
    output: ForPrograms = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """List Experiments, how far they are and what they found."""
    api, chosen = open_api(kubeconfig, context, namespace)
    views = list_experiments(api, None if all_namespaces else chosen)
    if output is not None:
        _print_facts({"items": [experiment_facts(view) for view in views]}, output)
        return
    if not views:
        where = "" if all_namespaces else f" in namespace {chosen}"
        typer.echo(f"No Experiments{where}.", err=True)
        return
    _print(tables.experiment_list(views, datetime.now(UTC), with_namespace=all_namespaces))


@app.command()
def describe(
    experiment: ExperimentName,
    output: ForPrograms = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show an Experiment: what was asked, how it goes, and all its Trials."""
    api, chosen = open_api(kubeconfig, context, namespace)
    view, trials = get_experiment(api, chosen, experiment), list_trials(api, chosen, experiment)
    if output is not None:
        _print_facts(description_facts(view, trials), output)
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    _print(tables.experiment_description(view, trials, datetime.now(UTC), width))


@app.command()
def watch(
    experiment: ExperimentName, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None
) -> None:
    """Follow an Experiment until it ends; the exit code is 0 if it is complete."""
    # Other commands do without these, and start faster.
    from rich.console import Console  # noqa: PLC0415

    from podtune.cli.views import watch_view  # noqa: PLC0415
    from podtune.cli.views.progress import follow  # noqa: PLC0415

    api, chosen = open_api(kubeconfig, context, namespace)
    states = follow(api, chosen, experiment)
    if sys.stdout.isatty():
        last = watch_view.show_live(states, Console(), lambda: datetime.now(UTC))
    else:
        last = watch_view.show_lines(states, typer.echo, lambda: datetime.now(UTC))
    code, words = (last.outcome if last else None) or (1, "the watch ended")
    typer.echo(f"{experiment}: {words}", err=code != 0)
    raise typer.Exit(code)


@app.command()
def logs(
    trial: TrialName,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines come.")] = False,
    agent: Annotated[bool, typer.Option("--agent", help="The agent's log, not the program's.")] = False,
    rank: Annotated[int, typer.Option(min=0, help="Of a trial of several pods: which one's.")] = 0,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Print the log of a Trial's current or last attempt."""
    api, chosen = open_api(kubeconfig, context, namespace)
    view = get_trial(api, chosen, trial)
    lines = trial_logs.trial_log(api, chosen, view, _note, follow=follow, agent=agent, rank=rank)
    for line in lines:
        typer.echo(line)


@app.command()
def best(
    experiment: ExperimentName,
    output: ForPrograms = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Print the best configuration: its parameters, its value, and where its checkpoint is."""
    api, chosen = open_api(kubeconfig, context, namespace)
    facts = tables.best_facts(get_experiment(api, chosen, experiment))
    _print(tables.best_lines(facts)) if output is None else _print_facts(facts, output)


app.command()(plan)
app.command()(simulate)


@app.command()
def why(
    trial: TrialName,
    output: ForPrograms = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Say why a Trial is where it is: the decisions on it, with their numbers."""
    api, chosen = open_api(kubeconfig, context, namespace)
    view = get_trial(api, chosen, trial)
    _print(explain_in_sentences(view)) if output is None else _print_facts(explain_as_data(view), output)


TargetName = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the Trial or Experiment; trial/NAME where it is both.")
]


@app.command()
def pause(
    name: TargetName, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None
) -> None:
    """Have a Trial store a checkpoint and give its pod back, or all Trials of an Experiment."""
    api, chosen = open_api(kubeconfig, context, namespace)
    typer.echo(lifecycle.pause(api, chosen, lifecycle.find_target(api, chosen, name)))


@app.command()
def resume(
    name: TargetName,
    *,
    values: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PARAMETER=VALUE", help="Go on with another value; may be given several times."),
    ] = None,
    unfinished: Annotated[
        ResumePolicy | None, typer.Option("--unfinished", help="Of an Experiment that has ended: its stopped Trials.")
    ] = None,
    errored: Annotated[
        ResumePolicy | None, typer.Option("--errored", help="Of an Experiment that has ended: its failed Trials.")
    ] = None,
    finished: Annotated[
        RestartPolicy | None, typer.Option("--finished", help="Of an Experiment that has ended: its other Trials.")
    ] = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Have a paused Trial go on where it was, or an Experiment that is suspended or has ended."""
    api, chosen = open_api(kubeconfig, context, namespace)
    given = {"unfinished": unfinished, "errored": errored, "finished": finished}
    policies = {field: str(policy) for field, policy in given.items() if policy is not None}
    typer.echo(lifecycle.resume(api, chosen, lifecycle.find_target(api, chosen, name), values or (), policies))


@app.command()
def stop(name: TargetName, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None) -> None:
    """End a Trial, or an Experiment and all its Trials, for good."""
    api, chosen = open_api(kubeconfig, context, namespace)
    typer.echo(lifecycle.stop(api, lifecycle.find_target(api, chosen, name)))


@app.command("export")
def export_command(
    experiment: ExperimentName,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where to; - is standard output.")],
    anyway: Annotated[bool, typer.Option("--anyway", help="Also one that still runs, as it is now.")] = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Write a whole Experiment and its Trials to a file, to import it elsewhere."""
    api, chosen = open_api(kubeconfig, context, namespace)
    archive = transfer.export_experiment(api, chosen, experiment, anyway=anyway, warn=_warn)
    try:
        sys.stdout.write(archive.to_yaml()) if output == STANDARD_INPUT else output.write_text(archive.to_yaml())
    except OSError as error:
        raise CliError(f"{output}: {error.strerror or error}; name a file that can be written") from error
    typer.echo(f"experiment {experiment} with {len(archive.trials)} trials is in {output}", err=True)


@app.command("import")
def import_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `export` has written; - is standard input.")],
    name: Annotated[str | None, typer.Option("--name", help="Another name for the Experiment.")] = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Make the Experiment of a file that `export` has written, to go on where it was."""
    archive = read_archive(file)
    api, chosen = open_api(kubeconfig, context, namespace)
    typer.echo(transfer.import_experiment(api, chosen, archive.renamed(name) if name else archive))


@app.command()
def release(
    experiment: ExperimentName, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None
) -> None:
    """Let an Experiment go that waits for its checkpoints' deletion; they stay in the bucket."""
    api, chosen = open_api(kubeconfig, context, namespace)
    typer.echo(let_go(api, chosen, experiment))


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    # As in the operator's image: on small matrices several threads are slower. NumPy reads it when it is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        result = app(given, prog_name=_program_name(), standalone_mode=False)
        return result if isinstance(result, int) else 0
    except (CliError, PathError) as error:
        typer.echo(f"error: {error}", err=True)
        return 1
    except UsageError as error:
        typer.echo(f"error: {error.format_message().rstrip('.')}; --help shows what there is", err=True)
        return 2
    except KeyboardInterrupt:
        return 130


def _program_name() -> str:
    name = Path(sys.argv[0]).name
    return "kubectl podtune" if name.startswith("kubectl") else "podtune"


def _print_facts(facts: Mapping[str, Any], output: Output) -> None:
    if output is Output.JSON:
        typer.echo(to_json(facts))
    else:
        typer.echo(yaml.safe_dump(dict(facts), sort_keys=False, allow_unicode=True), nl=False)


def _note(message: str) -> None:
    typer.echo(message, err=True)


def _warn(message: str) -> None:
    typer.echo(f"warning: {message}", err=True)


def _print(lines: Sequence[str]) -> None:
    typer.echo("\n".join(lines))


if __name__ == "__main__":
    raise SystemExit(main())
