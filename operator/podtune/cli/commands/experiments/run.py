"""`podtune run`: an experiment on this machine, without a cluster."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podtune.cli.client.experiment_file import read_with_config_maps
from podtune.cli.errors import CliError, ExitStatus, explain_missing_package
from podtune.cli.output import print_lines, print_note
from podtune.cli.views import tables

if TYPE_CHECKING:
    from podtune.cli.views.progress import Progress
    from podtune.local.local_run import LocalRun


def run_experiment(
    manifest: Annotated[
        Path | None, typer.Argument(metavar="[MANIFEST]", help="YAML file of an Experiment; - is standard input.")
    ] = None,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND]...", help="Run this in the place of the container's command."),
    ] = None,
    *,
    resume: Annotated[
        Path | None, typer.Option("--resume", metavar="DIRECTORY", help="Go on with a run, where it was left.")
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option("--directory", help="Where all of the run is kept.", show_default="podtune-runs/NAME"),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Start over: delete what an earlier run has left in the directory.")
    ] = False,
    workdir: Annotated[
        Path | None,
        typer.Option("--workdir", help="Where programs run; else the current directory, or the image's own."),
    ] = None,
    gpus: Annotated[
        int | None, typer.Option("--gpus", min=0, help="How many GPUs to deal out; else those that nvidia-smi lists.")
    ] = None,
    container: Annotated[
        str | None,
        typer.Option("--container", metavar="ENGINE", help="docker or podman: run each trial in its image."),
    ] = None,
    dashboard: Annotated[
        int | None,
        typer.Option(
            "--dashboard",
            metavar="PORT",
            min=0,
            max=65535,
            help="Show it in the browser meanwhile, at this port of loopback; 0 is any free one.",
        ),
    ] = None,
) -> None:
    """Run an Experiment on this machine, without a cluster: each trial is a process.

    The operator's own code decides. Ctrl-C pauses all trials; --resume goes on with them.
    """
    try:
        from podtune.local.starting import resume_run, start_run  # noqa: PLC0415 - the help does without it

        if resume is not None:
            if manifest or command or directory or overwrite or workdir or container:
                raise CliError(
                    f"--resume {resume} goes on with what is there; leave out all else but --gpus and --dashboard"
                )
            run = resume_run(resume, environ=os.environ, gpus=gpus)
        elif manifest is None:
            raise CliError("name the manifest of an Experiment, or a run to go on with by --resume")
        else:
            name, resource, config_maps = read_with_config_maps(manifest)
            run, notes = start_run(
                name,
                resource,
                environ=os.environ,
                command=command or (),
                directory=directory,
                workdir=workdir,
                gpus=gpus,
                config_maps=config_maps,
                engine=container or "",
                overwrite=overwrite,
            )
            for note in notes:
                print_note(f"note: {note}")
        code = _run(run, dashboard)
    except ModuleNotFoundError as error:
        raise explain_missing_package(error, "local") from error
    raise typer.Exit(code)


def _run(run: LocalRun, dashboard: int | None) -> int:
    """Runs to the end, and says what came of it; returns the exit code."""
    with closing(run), _serve_beside(run, dashboard) as address:
        with _heed_interrupts(run):
            last = _show(run.follow())
        run.write_archive()
        run.close()
        code = _tell_end(run, last)
        if address and code != ExitStatus.INTERRUPTED and _is_attended():
            with suppress(EOFError, KeyboardInterrupt):
                input(f"the dashboard stays at {address} until you press Enter ")
    return code


def _is_attended() -> bool:
    """Whether somebody sits at a terminal, and has time to look at the dashboard."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _tell_end(run: LocalRun, last: Progress | None) -> int:
    """Says what was found, where all of it is, and how the run ended; returns the exit code."""
    view = run.progress.experiment
    assert view is not None  # a run begins with one
    if view.status.best is not None:
        print_lines([run.locate(line) for line in tables.render_best(tables.collect_best(view))])
    place = _shorten(run.path)
    print_note(f"everything is in {place}; `podtune dashboard {place}` shows it")
    outcome = last.outcome if last else None
    if outcome is None:
        print_note(f"interrupted; go on with `podtune run --resume {place}`")
        return ExitStatus.INTERRUPTED
    code, words = outcome
    typer.echo(f"{view.name}: {words}", err=code != 0)
    return code


def _shorten(path: Path) -> str:
    """A path as one types it in the current directory."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def _show(states: Iterator[Progress]) -> Progress | None:
    """Shows how it goes, as `watch` does."""
    from rich.console import Console  # noqa: PLC0415 - other commands do without it, and start faster

    from podtune.cli.views import watch_view  # noqa: PLC0415

    if sys.stdout.isatty():
        return watch_view.show_live(states, Console(), lambda: datetime.now(UTC))
    return watch_view.show_lines(states, typer.echo, lambda: datetime.now(UTC))


@contextmanager
def _serve_beside(run: LocalRun, port: int | None) -> Iterator[str]:
    """Has a dashboard show the run, where one is asked for; yields its address, else nothing."""
    if port is None:
        yield ""
        return
    from podtune.cli.commands.experiments.live_dashboard import show_run  # noqa: PLC0415 - see `_start`

    with show_run(run.path, port) as address:
        print_note(f"the dashboard is at {address}")
        yield address


@contextmanager
def _heed_interrupts(run: LocalRun) -> Iterator[None]:
    """Ctrl-C has the run pause, and once more has it end at once."""
    asked = False

    def interrupt(*_: object) -> None:
        nonlocal asked
        if asked:
            run.kill()
            os._exit(ExitStatus.INTERRUPTED)
        asked = True
        print_note("trials store a checkpoint and pause; Ctrl-C once more ends them at once")
        run.interrupt()

    former = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
