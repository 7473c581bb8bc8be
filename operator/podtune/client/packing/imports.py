"""How the names that a function uses were imported where it is written.

The statements are taken over as they were written: `from sklearn.datasets import load_digits` goes on to work where the
module that really holds the function is another one in another version.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

_MISSING = object()


@dataclass(frozen=True, slots=True)
class ImportedName:
    """A global name that comes from an import.

    Attributes:
        name: The name that is bound.
        statement: The statement that binds it.
        module: The module that the statement needs.
    """

    name: str
    statement: str
    module: str


def find_imports(function: FunctionType) -> list[ImportedName]:
    """Finds the imports where the function is written: in its file, or in the cells of its notebook.

    Only those whose names still mean what was imported.
    """
    cells = function.__globals__.get("In")  # a notebook's cells as they were run
    sources = [cell for cell in cells if isinstance(cell, str)] if isinstance(cells, list) else []
    sources.append("".join(linecache.getlines(function.__code__.co_filename)))
    package = function.__globals__.get("__package__") or ""
    found = [entry for source in sources for entry in read_imports(source, package)]
    return [entry for entry in dict.fromkeys(found) if _still_holds(entry, function.__globals__)]


def read_imports(source: str, package: str) -> list[ImportedName]:
    """Reads the imports at a module's level; none where the source is no Python, as a cell with a magic is not."""
    try:
        statements = ast.parse(source).body
    except SyntaxError:
        return []
    return [entry for node in _list_imports(statements) for entry in _read_statement(node, package)]


def import_module_as(name: str, module: ModuleType) -> ImportedName | None:
    """The import that gives this name to a module, or None where no import finds it."""
    if module.__name__ == "__main__" or sys.modules.get(module.__name__) is not module:
        return None
    return ImportedName(name, f"import {module.__name__} as {name}", module.__name__)


def _list_imports(statements: Iterable[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in statements:
        match node:
            case ast.Import() | ast.ImportFrom():
                yield node
            case ast.If() | ast.Try() | ast.With():
                yield from _list_imports(node.body)
                yield from _list_imports(getattr(node, "orelse", ()))
                for handler in getattr(node, "handlers", ()):
                    yield from _list_imports(handler.body)


def _read_statement(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[ImportedName]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            bound = alias.asname or alias.name.partition(".")[0]
            yield ImportedName(bound, f"import {_write(alias)}", alias.name)
        return
    module = _find_absolute(node, package)
    if module == "__future__":
        return
    for alias in node.names:
        if alias.name == "*":
            for name in _list_public(module):
                yield ImportedName(name, f"from {module} import {name}", module)
        else:
            submodule = f"{module}.{alias.name}"
            needed = submodule if submodule in sys.modules else module
            yield ImportedName(alias.asname or alias.name, f"from {module} import {_write(alias)}", needed)


def _find_absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parents = package.split(".")
    return ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [node.module])])


def _list_public(module: str) -> list[str]:
    names = vars(sys.modules[module]) if module in sys.modules else {}
    return list(names.get("__all__", [name for name in names if not name.startswith("_")]))


def _write(alias: ast.alias) -> str:
    return f"{alias.name} as {alias.asname}" if alias.asname else alias.name


def _still_holds(entry: ImportedName, names: Mapping[str, Any]) -> bool:
    """Whether the name means what the statement would give."""
    value = names.get(entry.name, _MISSING)
    word, _, rest = entry.statement.partition(" ")
    if word == "import":
        module, _, alias = rest.partition(" as ")
        return value is sys.modules.get(module if alias else module.partition(".")[0], entry)
    source, _, target = rest.partition(" import ")
    attribute = target.partition(" as ")[0]
    holder = sys.modules.get(source)
    return value is getattr(holder, attribute, entry) or value is sys.modules.get(f"{source}.{attribute}", entry)
