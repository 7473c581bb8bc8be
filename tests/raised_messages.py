"""Collects what the product says when something is wrong: the messages of its errors, and the events that it logs.

Both are read from the source. In a message, `…` stands for what is only known when it is said.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PRODUCT = Path(__file__).resolve().parents[1] / "operator" / "podtune"
OPEN = "…"
_CAMEL_CASE = re.compile(r"[A-Z][a-z]+([A-Z][a-z]+)+|OOMKilled|OutOf[a-z-]+")
_LOUD = frozenset({"warning", "error", "exception"})
_BUILT_IN = frozenset({"Exception", "ValueError", "TypeError", "LookupError", "OSError", "RuntimeError", "KeyError"})


@dataclass(frozen=True)
class RaisedMessage:
    """What an error says.

    Attributes:
        file: Where it is raised, below the package.
        kind: The class of the error.
        text: The message, with `…` for what differs.
    """

    file: str
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}: {self.kind}: {self.text}"


@cache
def _read_trees() -> Mapping[str, ast.Module]:
    return {
        str(path.relative_to(PRODUCT)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PRODUCT.rglob("*.py"))
    }


def find_subclasses(*roots: str) -> set[str]:
    """Names of the classes that are derived from some classes, those included."""
    found, before = set(roots), 0
    while len(found) > before:
        before = len(found)
        for tree in _read_trees().values():
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef) and found & {_read_name(base) for base in node.bases}:
                    found.add(node.name)
    return found


def list_messages() -> Iterator[RaisedMessage]:
    """Lists the messages of errors that are made with a text of their own."""
    errors = find_subclasses(*_BUILT_IN)
    for file, tree in _read_trees().items():
        for scope in ast.walk(tree):
            if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
                for node in _walk_own(scope):
                    if isinstance(node, ast.Call) and (kind := _read_name(node.func)) in errors:
                        for text in _read_first_text(node.args, _read_variables(scope)):
                            yield RaisedMessage(file, kind, text)


def list_logged_events(*folders: str) -> Iterator[tuple[str, str]]:
    """Lists what is logged as a warning or an error below some folders: the file, and the event."""
    for file, tree in _read_trees().items():
        if file.startswith(folders):
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LOUD:
                    for text in _read_first_text(node.args[:1], {}):
                        yield file, text


def list_reason_words(*folders: str) -> Iterator[tuple[str, str]]:
    """Lists the texts of one word in CamelCase below some folders: the file, and the word."""
    for file, tree in _read_trees().items():
        if file.startswith(folders):
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and _CAMEL_CASE.fullmatch(node.value):
                    yield file, node.value


def _walk_own(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of functions in it."""
    for child in ast.iter_child_nodes(scope):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from _walk_own(child)


def _read_variables(scope: ast.AST) -> Mapping[str, list[str]]:
    """The texts that a function gives its variables."""
    found: dict[str, list[str]] = {}
    for node in _walk_own(scope):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).extend(_read_texts(node.value, {}))
    return found


def _read_first_text(arguments: Sequence[ast.expr], variables: Mapping[str, list[str]]) -> list[str]:
    """The texts of the last argument that has any: before it stands what the message is about."""
    return next((texts for node in reversed(arguments) if (texts := _read_texts(node, variables))), [])


def _read_texts(node: ast.expr, variables: Mapping[str, list[str]]) -> list[str]:
    """The texts that an expression may come to; none if nothing of it is known."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(str(part.value) if isinstance(part, ast.Constant) else OPEN for part in parts)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            ends = [_read_texts(side, variables) or [OPEN] for side in (left, right)]
            return [a + b for a in ends[0] for b in ends[1]]
        case ast.IfExp(body=body, orelse=orelse):
            return [*_read_texts(body, variables), *_read_texts(orelse, variables)]
        case ast.Name(id=name):
            return list(variables.get(name, ()))
    return []


def _read_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
