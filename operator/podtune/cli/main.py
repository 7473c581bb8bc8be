"""The command `podtune`, which is `kubectl podtune` too."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from podtune.cli.command_table import make_program
from podtune.cli.completion import PROGRAM, VARIABLE, describe_line, read_words
from podtune.cli.errors import CliError, ExitStatus, choose_exit_code, explain_error
from podtune.kube.errors import ApiError
from podtune.kube.paths import PathError

UsageError: Any = typer.BadParameter.__mro__[1]
"""Any mistake on the command line; typer itself names only this one of its parser's errors."""

_OF_PYDANTIC = "Value error, "
"""Begins what pydantic, which typer uses, says of a value; people need not know of either."""
_NO_FILES = ":4"
"""Ends what kubectl is offered: names of files are nothing that could follow."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    # As in the operator's image: on small matrices several threads are slower. NumPy reads it when it is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if (line := read_words(os.environ)) is not None:
        # Only where a shell asks; typer does not say that it re-exports it.
        from typer.completion import completion_init  # type: ignore[attr-defined]  # noqa: PLC0415

        completion_init()
        make_program(line)([], prog_name=PROGRAM, complete_var=VARIABLE)
    try:
        result = make_program(given)(given, prog_name=_find_program_name(), standalone_mode=False)
        return result if isinstance(result, int) else ExitStatus.DONE
    except (CliError, ApiError, PathError) as error:
        typer.echo(f"error: {explain_error(error)}", err=True)
        return choose_exit_code(error)
    except UsageError as error:
        said = error.format_message().rstrip(".").replace(_OF_PYDANTIC, "")
        typer.echo(f"error: {said}; --help shows what there is", err=True)
        return ExitStatus.USAGE
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED
    except SystemExit as ended:  # so typer and rich end where nobody reads any more
        if isinstance(ended.__context__, BrokenPipeError):
            return ExitStatus.DONE
        raise


def complete_for_kubectl(arguments: Sequence[str] | None = None) -> int:
    """Completes `kubectl podtune …`: kubectl asks the program `kubectl_complete-podtune`, with the words so far."""
    os.environ.update(describe_line(sys.argv[1:] if arguments is None else arguments))
    try:
        return main([])
    finally:
        typer.echo(_NO_FILES)


def _find_program_name() -> str:
    name = Path(sys.argv[0]).name
    return "kubectl podtune" if name.startswith("kubectl") else "podtune"


if __name__ == "__main__":
    raise SystemExit(main())
