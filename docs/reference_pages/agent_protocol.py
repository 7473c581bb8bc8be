"""The page about what agent and operator say to each other, made of the models in `podtune.protocol`."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from itertools import pairwise
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from docs.reference_pages.tables import make_table
from podtune.protocol import agent_environment, messages

TITLE = "# Agent protocol\n"
VERSIONS = """A side ignores fields that it does not know, and takes the default of those that it does not get. So an
operator also serves the agents of the release before. You need this page to debug the connection. Programs that are
trained use [podtune.trial](podtune-trial.md), or the files that it writes.
"""
MESSAGES: tuple[type, ...] = (messages.Report, messages.Reply, messages.FinalCommit)
"""What is sent; what messages are made of is found from them."""
LIMITS = {
    "MAX_REPORT_BYTES": "bytes of a report",
    "MAX_RESULTS_A_REPORT": "results in a report",
    "MAX_COMMITS_A_REPORT": "checkpoints in a report",
    "MAX_METRICS": "metrics of a result, with those that the agent adds",
    "MAX_KEY": "characters in the name of a metric",
    "MAX_TEXT": "characters in the value of a metric",
    "MAX_REPORTED_MESSAGE": "characters of a message that is reported; the rest is cut off",
    "MAX_ATTEMPT": "characters of an attempt's id",
    "MAX_FINAL_COMMIT": "bytes of a final commit",
    "MAX_COMMITS_AT_END": "checkpoints in a final commit",
}
"""By the constant that holds each."""
WORDS = {bool: "boolean", int: "whole number", float: "number", str: "text", Any: "any value"}
CONSTANTS = {"None": "null", "True": "true", "False": "false"}
"""What docstrings call values, and JSON does."""
_CONSTANT = re.compile(rf"\b(?:{'|'.join(CONSTANTS)})\b")


def agent_protocol_page() -> str:
    """The page's text."""
    overview, _, _ = inspect.cleandoc(messages.__doc__ or "").partition("\n\nStandard library only")
    _, _, routes = overview.partition("\n\n")
    sections = [part for model in list_models() for part in _describe_model(model)]
    return "\n".join([TITLE, f"{routes}\n", VERSIONS, *sections, *_list_limits(), *_list_variables(agent_environment)])


def list_models() -> list[type]:
    """The messages, and behind them whatever they contain."""
    models = list(MESSAGES)
    for model in models:  # it grows meanwhile
        inner = (part for hint in get_type_hints(model).values() for part in _list_parts(hint))
        models += dict.fromkeys(
            part for part in inner if inspect.isclass(part) and is_dataclass(part) and part not in models
        )
    return models


def _list_parts(hint: Any) -> Iterator[Any]:
    yield hint
    for inner in get_args(hint):
        yield from _list_parts(inner)


def _describe_model(model: type) -> Iterator[str]:
    """A heading, what it is, and a row for each field."""
    text, _, attributes = inspect.cleandoc(model.__doc__ or "").partition("\n\nAttributes:\n")
    meanings, hints = read_attributes(attributes), get_type_hints(model)
    rows = [
        (f"`{each.name}`", _name_type(hints[each.name]), _write_default(each), meanings.get(each.name, ""))
        for each in fields(model)
    ]
    yield f"## {model.__name__}\n"
    yield f"{text}\n"
    yield make_table(("field", "type", "default", "meaning"), rows)


def read_attributes(text: str) -> Mapping[str, str]:
    """The meaning of each attribute that a docstring describes, on one line."""
    parts = re.split(r"^ {4}(\w+): ", text, flags=re.MULTILINE)[1:]
    named = zip(parts[::2], parts[1::2], strict=True)
    return {name: _CONSTANT.sub(lambda found: CONSTANTS[found[0]], " ".join(said.split())) for name, said in named}


def _name_type(hint: Any) -> str:
    """A type in the words of JSON; models are links to their sections."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return "one of " + ", ".join(f"`{word}`" for word in inner)
    if inspect.isclass(hint) and issubclass(hint, Enum):
        return "one of " + ", ".join(f"`{member.value}`" for member in hint)
    if origin in (Union, UnionType):
        # Each whole number is a number; null comes last, whatever stands behind it.
        kinds = [each for each in inner if each is not NoneType and not (each is int and float in inner)]
        named = [*map(_name_type, kinds), *(["null"] if NoneType in inner else [])]
        return " or ".join(filter(None, [", ".join(named[:-1]), named[-1]]))
    if origin is tuple:
        return f"list of {_name_type(inner[0])}"
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return f"object of {_name_type(inner[1])}"
    if inspect.isclass(hint) and is_dataclass(hint):
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    return WORDS[hint]


def _write_default(each: Field[Any]) -> str:
    if each.default is MISSING:
        return "*required*" if each.default_factory is MISSING else ""
    if each.default is None or each.default in ((), ""):
        return ""
    written = json.dumps(each.default).strip('"')
    return f"`{written}`"


def _list_limits() -> Iterator[str]:
    yield "## Limits\n"
    yield make_table(("at most", "of what"), [(f"{getattr(messages, name):,}", what) for name, what in LIMITS.items()])


def _list_variables(module: ModuleType) -> Iterator[str]:
    """The variables that have a description in the module's code."""
    yield "## Variables of the agent\n"
    yield "The operator gives them to the agent's containers as one JSON object, the only argument of the command.\n"
    yield make_table(("variable", "meaning"), [(f"`{name}`", said) for name, said in read_variables(module)])


def read_variables(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Each constant that is the name of a variable, with the text below it."""
    body = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")).body
    for statement, after in pairwise(body):
        match statement, after:
            case ast.Assign(value=ast.Constant(value=str(name))), ast.Expr(value=ast.Constant(value=str(said))):
                if name.startswith("PODTUNE_"):
                    yield name, " ".join(said.split())
