"""The page about the commands of `kubectl podtune`, made of what the commands themselves say."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import typer.main

from docs.reference_pages.tables import make_table
from podtune.cli.command_table import GROUPS, PODTUNE, make_program

INTRODUCTION = """# Commands of `kubectl podtune`

`kubectl podtune` and `podtune` are the same program. Commands that read an Experiment also take the directory of a [run
without a cluster](../how-to/run-without-a-cluster.md), such as `podtune-runs/digits`. [Output
formats](output-formats.md) explains `-o`, and [Exit codes](exit-codes.md) what scripts can tell.
"""
ALSO = "Also: [options of every command that asks a cluster](#options-of-every-command-that-asks-a-cluster)."
KINDS = {str: "text", int: "whole number", float: "number", Path: "path"}
SHARED = ("--namespace", "--context", "--kubeconfig")
"""Options of every command that talks to a cluster: described once."""


def command_line_page() -> str:
    """The page's text."""
    commands = dict(_list_commands())
    talking = [command for command in commands.values() if _find_shared(command)]
    sections = [part for name, command in commands.items() for part in _describe(name, command)]
    return "\n".join([INTRODUCTION, _list_summaries(commands), *_describe_shared(talking[0]), *sections])


def _list_commands() -> Iterator[tuple[str, Any]]:
    """Each command as typer has built it, by what is typed after `kubectl podtune`."""
    words = [*PODTUNE.commands, *GROUPS, *(name for group in GROUPS.values() for name in group.commands)]
    program: Any = typer.main.get_command(make_program(words))
    for name in PODTUNE.commands:
        yield name, program.commands[name]
    for group, below in GROUPS.items():
        for name in below.commands:
            yield f"{group} {name}", program.commands[group].commands[name]


def _list_summaries(commands: dict[str, Any]) -> str:
    rows = [(f"[`{name}`](#{name.replace(' ', '-')})", _summarize(command)) for name, command in commands.items()]
    return make_table(("command", "what it does"), rows)


def _describe_shared(command: Any) -> Iterator[str]:
    yield "## Options of every command that asks a cluster\n"
    yield _list_options(_find_shared(command))


def _describe(name: str, command: Any) -> Iterator[str]:
    """A heading, the line to type, what it does, its arguments and its options."""
    yield f"## {name}\n"
    yield f"```text\n{_make_usage(name, command)}\n```\n"
    yield f"{inspect.cleandoc(command.help)}\n"
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden and p.opts != ["--help"]]
    if rows := [(f"`{_name_argument(each)}`", each.help or "") for each in arguments]:
        yield make_table(("argument", "meaning"), rows)
    if own := [option for option in options if option.opts[0] not in SHARED]:
        yield _list_options(own)
    if len(own) < len(options):
        yield f"{ALSO}\n"


def _make_usage(name: str, command: Any) -> str:
    arguments = []
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            shown = _name_argument(parameter)
            arguments.append(shown if parameter.required or shown.startswith("[") else f"[{shown}]")
    options = "[OPTIONS]" if any(parameter.param_type_name == "option" for parameter in command.params) else ""
    return " ".join(part for part in ("kubectl podtune", name, options, *arguments) if part)


def _name_argument(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _find_shared(command: Any) -> list[Any]:
    return [parameter for parameter in command.params if parameter.opts[0] in SHARED]


def _list_options(options: list[Any]) -> str:
    rows = [(_name_option(option), _name_value(option), _name_default(option), option.help or "") for option in options]
    return make_table(("option", "value", "default", "meaning"), rows)


def _name_option(option: Any) -> str:
    """Its long name first, then what is shorter, and what says the opposite."""
    names = sorted(option.opts, key=len, reverse=True)
    return ", ".join(f"`{name}`" for name in (*names, *option.secondary_opts))


def _name_value(option: Any) -> str:
    """What stands behind the option; nothing behind one that is on or off."""
    if option.is_flag or option.count:
        return ""
    annotation = option.type_descriptor.annotation
    kind = next(iter(get_args(annotation)), annotation)
    if issubclass(kind, Enum):
        value = ", ".join(f"`{member.value}`" for member in kind)
    else:
        value = f"`{option.metavar}`" if option.metavar else KINDS[kind]
    return f"{value}, any number of times" if option.multiple else value


def _name_default(option: Any) -> str:
    if option.required:
        return "*required*"
    if isinstance(option.show_default, str):
        return f"`{option.show_default}`"
    default = getattr(option.default, "value", option.default)
    is_told = not callable(default) and default not in (None, False, "", (), [])
    return f"`{default}`" if is_told else ""


def _summarize(command: Any) -> str:
    """The first paragraph of what it says of itself, on one line."""
    return re.sub(r"\s+", " ", inspect.cleandoc(command.help).partition("\n\n")[0])
