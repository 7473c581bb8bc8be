"""Completion in shells: which commands the line names, and names of Experiments and Trials.

The script that `podtune completion` prints has the shell run `podtune` with the line in its environment.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence

import typer

from podtune.cli.errors import CliError
from podtune.kube import paths
from podtune.kube.errors import ApiError
from podtune.kube.paths import PathError

PROGRAM = "podtune"
VARIABLE = "_PODTUNE_COMPLETE"
"""Set by the shell where it asks what may come next."""
_LINES = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""Variables that hold the line so far: bash has one, zsh and fish the other."""
_MOST = "200"
"""How many names are looked at: somebody waits for them at each press of the key."""


def read_words(environ: Mapping[str, str]) -> list[str] | None:
    """The words of the line that is to be completed; None where nothing is."""
    if not environ.get(VARIABLE):
        return None
    return [word for name in _LINES for word in environ.get(name, "").split()]


def describe_line(words: Sequence[str]) -> Mapping[str, str]:
    """The variables by which bash would ask for the words that follow `podtune`; the last of them is incomplete."""
    line = shlex.join([PROGRAM, *words[:-1]]) + f" {words[-1] if words else ''}"
    return {VARIABLE: "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(max(1, len(words)))}


def complete_experiments(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of Experiments that begin so."""
    return _complete(ctx, incomplete, paths.experiments)


def complete_trials(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of Trials that begin so."""
    return _complete(ctx, incomplete, paths.trials)


def complete_targets(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of Experiments and Trials that begin so."""
    return [*complete_experiments(ctx, incomplete), *complete_trials(ctx, incomplete)]


def _complete(ctx: typer.Context, incomplete: str, find_collection: Callable[[str], str]) -> list[str]:
    from podtune.cli.client import api_client  # noqa: PLC0415 - the options of all commands come by here

    given = (ctx.params.get(name) for name in ("kubeconfig", "context", "namespace"))
    try:
        api, namespace = api_client.open_api(*given)
        items = api.get(find_collection(namespace), {"limit": _MOST}).get("items") or ()
    except (CliError, ApiError, PathError):
        return []  # nothing is offered; the command itself will say what is wrong
    names = (str(item["metadata"]["name"]) for item in items)
    return [name for name in names if name.startswith(incomplete)]
