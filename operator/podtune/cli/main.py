"""The command `podtune`, which is `kubectl podtune` too."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer

from podtune import __version__
from podtune.cli.commands import lifecycle, show, transfer
from podtune.cli.commands.checkpoint_request import request_checkpoint
from podtune.cli.commands.checkpoints import download
from podtune.cli.commands.logs import logs
from podtune.cli.commands.plan import plan
from podtune.cli.commands.release import release_experiment
from podtune.cli.commands.restore import restore_experiment
from podtune.cli.commands.results import results
from podtune.cli.commands.retry import retry
from podtune.cli.commands.simulate import simulate
from podtune.cli.commands.trial_addition import add_trial
from podtune.cli.errors import CliError, explain_error
from podtune.kube.errors import ApiError
from podtune.kube.paths import PathError

UsageError: Any = typer.BadParameter.__mro__[1]
"""Any mistake on the command line; typer itself names only this one of its parser's errors."""


def version() -> None:
    """Print the version."""
    typer.echo(__version__)


COMMANDS: dict[str, Callable[..., None]] = {
    "list": show.show_list,
    "describe": show.describe,
    "watch": show.follow_experiment,
    "dashboard": show.show_dashboard,
    "logs": logs,
    "results": results,
    "best": show.show_best,
    "importance": show.show_importance,
    "plan": plan,
    "simulate": simulate,
    "why": show.why,
    "pause": lifecycle.pause,
    "resume": lifecycle.resume,
    "stop": lifecycle.stop,
    "retry": retry,
    "export": transfer.export_experiment,
    "import": transfer.import_experiment,
    "restore": restore_experiment,
    "release": release_experiment,
    "version": version,
}
"""In the order of the help text."""
TRIAL_COMMANDS: dict[str, Callable[..., None]] = {"add": add_trial}
CHECKPOINT_COMMANDS: dict[str, Callable[..., None]] = {"download": download, "request": request_checkpoint}

app = typer.Typer(
    help="Hyperparameter tuning that belongs to Kubernetes.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, command in COMMANDS.items():
    app.command(name)(command)
checkpoints = typer.Typer(
    help="Have trials store checkpoints, and get at those that they have stored.", no_args_is_help=True
)
for name, command in CHECKPOINT_COMMANDS.items():
    checkpoints.command(name)(command)
app.add_typer(checkpoints, name="checkpoints")
trials = typer.Typer(help="Run configurations of your own.", no_args_is_help=True)
for name, command in TRIAL_COMMANDS.items():
    trials.command(name)(command)
app.add_typer(trials, name="trials")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    # As in the operator's image: on small matrices several threads are slower. NumPy reads it when it is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        result = app(given, prog_name=_find_program_name(), standalone_mode=False)
        return result if isinstance(result, int) else 0
    except (CliError, ApiError, PathError) as error:
        typer.echo(f"error: {explain_error(error)}", err=True)
        return 1
    except UsageError as error:
        typer.echo(f"error: {error.format_message().rstrip('.')}; --help shows what there is", err=True)
        return 2
    except KeyboardInterrupt:
        return 130


def _find_program_name() -> str:
    name = Path(sys.argv[0]).name
    return "kubectl podtune" if name.startswith("kubectl") else "podtune"


if __name__ == "__main__":
    raise SystemExit(main())
