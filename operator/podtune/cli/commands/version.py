"""`podtune version` and `completion`: the program itself."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from podtune import __version__
from podtune.cli.completion import PROGRAM, VARIABLE
from podtune.cli.options import ForPrograms
from podtune.cli.output import CommandAnswer, print_answer


class Shell(StrEnum):
    """Shells that can complete our commands."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def version(output: ForPrograms = None) -> None:
    """Print the version."""
    print_answer(CommandAnswer(lambda _: [__version__], lambda: {"version": __version__}), output)


def completion(shell: Annotated[Shell, typer.Argument(help="Which shell.")]) -> None:
    """Print the script that has a shell complete commands, options, and names of Experiments and Trials."""
    # `version` does without it; typer does not say that it re-exports it.
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # noqa: PLC0415

    typer.echo(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell))
