"""What commands print, for people and for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import typer
import yaml

from podtune.cli.options import Output


def print_lines(lines: Sequence[str]) -> None:
    """Prints the answer to a command."""
    typer.echo("\n".join(lines))


def print_note(message: str) -> None:
    """Says something besides the answer."""
    typer.echo(message, err=True)


def print_facts(facts: Mapping[str, Any], output: Output) -> None:
    """Prints the answer to a command for programs."""
    if output is Output.JSON:
        typer.echo(to_json(facts))
    else:
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
