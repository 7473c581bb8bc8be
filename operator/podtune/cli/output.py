"""What commands print, for people and for programs."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import typer

from podtune.api.names import EXPERIMENT_KIND, GROUP, TRIAL_KIND
from podtune.cli.options import Output
from podtune.kube.paths import KINDS


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """What a command answers, in each form that can be asked for; a form is made when it is.

    Attributes:
        lines: For people, by the width of their terminal; by None without an end, for pipes.
        facts: For programs.
        wide: For people, with all columns; as `lines` where it is not given.
        names: Kind and name of each object, as kubectl takes them.
    """

    lines: Callable[[int | None], Sequence[str]]
    facts: Callable[[], Mapping[str, Any]]
    wide: Callable[[], Sequence[str]] | None = None
    names: Callable[[], Iterable[str]] | None = None


def print_answer(answer: CommandAnswer, output: StrEnum | None) -> None:
    """Prints the answer to a command in the form that is asked for; that in words fits the terminal, if any."""
    match output:
        case "json" | "yaml":
            print_facts(answer.facts(), Output(output))
        case "name" if answer.names is not None:
            print_lines([*answer.names()])
        case "wide" if answer.wide is not None:
            print_lines(answer.wide())
        case _:
            print_lines(answer.lines(find_width()))


def print_changed(
    said: Sequence[str], output: StrEnum | None, path: str, read: Callable[[str], Mapping[str, Any]]
) -> None:
    """Prints what a command has done to an object: in words, or as the object that it is now, as kubectl shows it.

    Args:
        said: What was done, for people.
        output: The form that is asked for.
        path: Where the object is on the API server.
        read: Gives the object of a path; called only where it is asked for.
    """
    plural, name = path.split("/")[-2:]
    answer = CommandAnswer(
        lines=lambda _: said,
        facts=lambda: _leave_out_managers(read(path)),
        names=lambda: [f"{KINDS[plural].lower()}.{GROUP}/{name}"],
    )
    print_answer(answer, output)


def _leave_out_managers(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """An object without the list of who has written which field."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    return {**item, "metadata": metadata}


def find_width() -> int | None:
    """How many characters a line may have: as many as the terminal has; None where there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def name_experiment(name: str) -> str:
    """An Experiment as `-o name` has it."""
    return f"{EXPERIMENT_KIND.lower()}.{GROUP}/{name}"


def name_trial(name: str) -> str:
    """A Trial as `-o name` has it."""
    return f"{TRIAL_KIND.lower()}.{GROUP}/{name}"


def print_lines(lines: Sequence[str]) -> None:
    """Prints the answer to a command."""
    if lines:
        typer.echo("\n".join(lines))


def print_note(message: str) -> None:
    """Says something besides the answer."""
    typer.echo(message, err=True)


def print_facts(facts: Mapping[str, Any], output: Output) -> None:
    """Prints the answer to a command for programs."""
    if output is Output.JSON:
        typer.echo(to_json(facts))
    else:
        import yaml  # noqa: PLC0415 - `version` does without it, and starts faster

        typer.echo(yaml.safe_dump(dict(facts), sort_keys=False, allow_unicode=True), nl=False)


def to_json(facts: Mapping[str, Any], *, indent: int | None = 2) -> str:
    """Writes facts as JSON; a number that is not finite, which JSON has no word for, becomes null."""
    return json.dumps(_replace_infinite(facts), indent=indent, ensure_ascii=False, allow_nan=False)


def _replace_infinite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _replace_infinite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_infinite(entry) for entry in value]
    return value
