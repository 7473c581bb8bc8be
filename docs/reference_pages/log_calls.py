"""What operator, agent and dashboard log, read from their source: events, their levels and fields."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PRODUCT = Path(__file__).resolve().parents[2] / "operator" / "podtune"
_COMPONENTS = {"agent": "agent", "local": "agent", "dashboard": "dashboard"}
"""Which program the code of a folder runs in, where that is not the operator."""
_ELSEWHERE = ("cli", "client", "testing")
_LEVELS = {name: name for name in ("debug", "info", "warning", "error")} | {"exception": "error"}
_LOGS = ("log", "logger")
_RENAMED = {"exc_info": "exception"}


@dataclass(frozen=True, slots=True)
class LogCall:
    """A call that writes a line.

    Attributes:
        place: Its file and line.
        component: The program that it is a part of.
        level: The line's level.
        events: Which event it is; several where the call is in a function that is told.
        fields: Names of the fields that it gives.
        problem: Why events or fields can't be read from the source; empty where they can.
    """

    place: str
    component: str
    level: str
    events: tuple[str, ...]
    fields: tuple[str, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Scope:
    """A function that a call stands in."""

    file: str
    node: ast.FunctionDef | ast.AsyncFunctionDef

    def find_position(self, parameter: str) -> int | None:
        """Which of the function's arguments a parameter is, not counting `self`."""
        names = [argument.arg for argument in self.node.args.args if argument.arg not in ("self", "cls")]
        return names.index(parameter) if parameter in names else None


@cache
def list_log_calls() -> tuple[LogCall, ...]:
    """All of them, in order of their places."""
    return tuple(
        _read_call(call, scope)
        for file, tree in _read_trees().items()
        for call, scope in _walk_calls(tree, file)
        if isinstance(call.func, ast.Attribute) and call.func.attr in _LEVELS and _is_log(call.func.value)
    )


@cache
def list_context_fields() -> frozenset[str]:
    """Names of the fields that the agent's lines have besides those of the call: what its log was made with."""
    found: set[str] = set()
    for tree in _read_trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name == "log_context":
                found |= {key for part in ast.walk(node) if isinstance(part, ast.Dict) for key in _read_keys(part)}
            elif isinstance(node, ast.Call) and _read_name(node.func) == "EventLog":
                found |= {key for part in node.args if isinstance(part, ast.Dict) for key in _read_keys(part)}
            elif isinstance(node, ast.Call) and _is_binding(node):
                found |= {keyword.arg for keyword in node.keywords if keyword.arg is not None}
    return frozenset(found)


@cache
def _read_trees() -> Mapping[str, ast.Module]:
    files = {str(path.relative_to(PRODUCT)): path for path in sorted(PRODUCT.rglob("*.py"))}
    return {
        name: ast.parse(path.read_text(encoding="utf-8"))
        for name, path in files.items()
        if not name.startswith(tuple(f"{folder}/" for folder in _ELSEWHERE))
    }


def _walk_calls(node: ast.AST, file: str, scope: _Scope | None = None) -> Iterator[tuple[ast.Call, _Scope | None]]:
    for child in ast.iter_child_nodes(node):
        inner = _Scope(file, child) if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else scope
        if isinstance(child, ast.Call):
            yield child, inner
        yield from _walk_calls(child, file, inner)


def _read_call(call: ast.Call, scope: _Scope | None) -> LogCall:
    assert isinstance(call.func, ast.Attribute)
    assert scope is not None, f"line {call.lineno}: nothing is logged when a module is imported"
    events, problem = _read_events(call, scope)
    if len(call.args) != 1:
        problem = problem or "it has more arguments than the event"
    if any(keyword.arg is None for keyword in call.keywords):
        problem = problem or "it has fields that only the running program knows"
    names = [_RENAMED.get(keyword.arg, keyword.arg) for keyword in call.keywords if keyword.arg is not None]
    if call.func.attr == "exception":
        names.append("exception")
    component = _COMPONENTS.get(scope.file.partition("/")[0], "operator")
    place = f"{scope.file}:{call.lineno}"
    return LogCall(place, component, _LEVELS[call.func.attr], events, tuple(names), problem)


def _read_events(call: ast.Call, scope: _Scope) -> tuple[tuple[str, ...], str]:
    """The event that a call is about, and what is wrong with how it is given.

    A function may be told the event: then each of its calls names one.
    """
    match call.args[0] if call.args else None:
        case ast.Constant(value=str(event)):
            return (event,), ""
        case ast.Name(id=parameter) if (position := scope.find_position(parameter)) is not None:
            told = list(_find_arguments(scope, position))
            events = {node.value for node in told if isinstance(node, ast.Constant) and isinstance(node.value, str)}
            if told and len(events) == len({ast.dump(node) for node in told}):
                return tuple(sorted(events)), ""
            return tuple(sorted(events)), f"a call of {scope.node.name} does not name the event"
    return (), "its event is no constant"


def _find_arguments(scope: _Scope, position: int) -> Iterator[ast.expr]:
    """What a function is given as one of its arguments: of a private one by its own file, else by all."""
    for file, tree in _read_trees().items():
        if file == scope.file or not scope.node.name.startswith("_"):
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and _read_name(node.func) == scope.node.name:
                    yield node.args[position]


def _is_log(node: ast.expr) -> bool:
    return _read_name(node).strip("_") in _LOGS


def _is_binding(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "bind" and _is_log(call.func.value)


def _read_keys(node: ast.Dict) -> Iterator[str]:
    for key in node.keys:
        if isinstance(key, ast.Constant):
            yield str(key.value)


def _read_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
