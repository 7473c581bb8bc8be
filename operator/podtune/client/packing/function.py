"""Packs a function: checks that it can travel, and writes the module that holds it in the pod."""

from __future__ import annotations

import ast
import builtins
import inspect
import symtable
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from podtune.client.packing import runner
from podtune.client.packing.imports import ImportedName, find_imports, import_module_as, read_imports
from podtune.client.packing.modules import PackingError, collect_files, is_packed, is_users_own
from podtune.client.packing.packed import RUNNER_FILE, PackedFunction, check_size

FUNCTION_FILE = f"{runner.FUNCTION_MODULE}.py"
_GIVEN_TO_EACH_MODULE = frozenset({"__name__", "__file__", "__doc__", "__builtins__", "__package__", "__spec__"})


def pack_function(function: Callable[..., Any], modules: Sequence[ModuleType] = ()) -> PackedFunction:
    """Packs a function `train(config)` whose results are what it returns, yields or reports.

    Args:
        function: Written in a file or a notebook's cell, at its top level. It gets the trial's parameters as a dict.
            What it uses from outside must be imports, there or in its body.
        modules: Modules and packages of yours that it imports.

    Raises:
        PackingError: Something can't travel; the message names it, and says what works.
    """
    inner = _check(function)
    files = collect_files(modules)
    taken = {RUNNER_FILE, FUNCTION_FILE} & {*files}
    if taken:
        name = min(taken).removesuffix(".py")
        raise PackingError(f"module {name} has a name that Podtune needs for itself; rename it")
    home = inner.__module__
    if is_packed(home, files) and getattr(sys.modules[home], inner.__name__, None) is function:
        text = f"from {home} import {inner.__name__} as {runner.FUNCTION_NAME}\n"
        needed: list[ImportedName] = []
    else:
        source = _read_source(inner)
        needed = _find_needed(inner, source)
        text = _write_module(inner.__name__, source, needed)
    _check_modules(inner, needed, files)
    files = {RUNNER_FILE: inspect.getsource(runner), FUNCTION_FILE: text, **files}
    check_size(files)
    return PackedFunction(inner.__name__, files)


def _check(function: Callable[..., Any]) -> FunctionType:
    """The function itself, without what decorators have put around it, where it is one that can be packed."""
    inner = inspect.unwrap(function)
    name = getattr(inner, "__qualname__", None) or repr(function)[:80]
    remedy = "write it as a function of one argument: def train(config): …"
    if not isinstance(inner, FunctionType):
        kind = "a class" if inspect.isclass(inner) else "no Python function"
        raise PackingError(f"{name} is {kind} ({type(inner).__name__}); {remedy}")
    if inner.__name__ == "<lambda>":
        raise PackingError(f"a lambda can't be packed, for it has no source of its own; {remedy}")
    if inner.__code__.co_freevars:
        names = ", ".join(inner.__code__.co_freevars)
        raise PackingError(
            f"{name} uses {names} of the function around it, which can't travel; pass such values as parameters, or "
            "set them in the function"
        )
    if "." in inner.__qualname__:
        around = inner.__qualname__.rpartition(".")[0].removesuffix(".<locals>")
        raise PackingError(f"{name} is defined inside {around}; define it at the top level of its file or cell")
    if inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner):
        raise PackingError(f"{name} is asynchronous; make it a plain function that calls asyncio.run(…)")
    try:
        inspect.signature(inner).bind({})
    except TypeError as error:
        raise PackingError(
            f"{name}{inspect.signature(inner)} can't be called with the configuration alone ({error}); take it as the "
            "first argument, and give all others defaults"
        ) from error
    return inner


def _read_source(function: FunctionType) -> str:
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError) as error:
        raise PackingError(
            f"the source of {function.__name__} can't be found; define it in a file or a notebook's cell"
        ) from error
    # Indented below an if, say. Taking the indentation away would change texts of several lines.
    return f"if True:\n{source}" if source[:1].isspace() else source


def _write_module(name: str, source: str, needed: Iterable[ImportedName]) -> str:
    lines = ["from __future__ import annotations", "", *dict.fromkeys(entry.statement for entry in needed)]
    return "\n".join([*lines, "", "", source.rstrip(), "", "", f"{runner.FUNCTION_NAME} = {name}", ""])


def _find_needed(function: FunctionType, source: str) -> list[ImportedName]:
    """The imports that the function uses.

    Raises:
        PackingError: It uses other globals, which can't travel.
    """
    tree = ast.parse(source)
    in_annotations = _take_annotations(tree)
    found = find_imports(function)
    needed: list[ImportedName] = []
    lost: list[str] = []
    for name in sorted(_list_globals(tree) - {function.__name__} - _GIVEN_TO_EACH_MODULE):
        imported = _find_import(name, function.__globals__, found)
        needed += imported
        if not imported and not _is_builtin(name, function.__globals__):
            lost.append(name)
    if lost:
        raise PackingError(_describe_lost(function, lost))
    # Annotations are not evaluated in the pod, unless the function does so itself: what is no import is left out.
    for name in sorted(in_annotations):
        needed += _find_import(name, function.__globals__, found)
    return needed


def _find_import(name: str, names: Mapping[str, Any], found: Iterable[ImportedName]) -> list[ImportedName]:
    imported = [entry for entry in found if entry.name == name]
    value = names.get(name)
    if not imported and isinstance(value, ModuleType):
        imported += filter(None, [import_module_as(name, value)])
    return imported


def _take_annotations(tree: ast.Module) -> set[str]:
    """Takes the annotations out of the tree, and returns the names in them."""
    taken: list[ast.expr] = []
    for node in ast.walk(tree):
        match node:
            case ast.arg(annotation=ast.expr() as annotation):
                taken.append(annotation)
                node.annotation = None
            case (
                ast.FunctionDef(returns=ast.expr() as annotation)
                | ast.AsyncFunctionDef(returns=ast.expr() as annotation)
            ):
                taken.append(annotation)
                node.returns = None
            case ast.AnnAssign(annotation=annotation):
                taken.append(annotation)
                node.annotation = ast.copy_location(ast.Constant(None), annotation)
    return {node.id for annotation in taken for node in ast.walk(annotation) if isinstance(node, ast.Name)}


def _list_globals(tree: ast.Module) -> set[str]:
    """Names that the code reads, and that neither it nor a function inside it assigns."""
    read: set[str] = set()
    assigned: set[str] = set()
    waiting = [symtable.symtable(ast.unparse(tree), FUNCTION_FILE, "exec")]
    while waiting:
        table = waiting.pop()
        waiting += table.get_children()
        for symbol in table.get_symbols():
            is_global = symbol.is_global() or table.get_type() == "module"
            if is_global and symbol.is_referenced():
                read.add(symbol.get_name())
            if is_global and (symbol.is_assigned() or symbol.is_imported()):
                assigned.add(symbol.get_name())
    return read - assigned


def _is_builtin(name: str, names: Mapping[str, Any]) -> bool:
    """Whether each Python has it; a notebook adds names of its own, such as display."""
    if name in names or not hasattr(builtins, name):
        return False
    return not str(getattr(getattr(builtins, name), "__module__", "")).startswith("IPython")


def _describe_lost(function: FunctionType, lost: Iterable[str]) -> str:
    unknown = [name for name in lost if name not in function.__globals__ and not hasattr(builtins, name)]
    if unknown:
        return f"{function.__name__} uses {', '.join(unknown)}, which is not defined; define or import it first"
    values = {name: function.__globals__.get(name, getattr(builtins, name, None)) for name in lost}
    shown = ", ".join(f"{name} ({type(value).__name__})" for name, value in values.items())
    return (
        f"{function.__name__} uses the globals {shown}, which are no imports and can't travel; put them into the "
        "function, or into a module of yours that it imports, and pass modules=[…]"
    )


def _check_modules(function: FunctionType, needed: Iterable[ImportedName], files: Mapping[str, str]) -> None:
    """Refuses imports of modules that lie beside the program and don't travel: no image has them.

    Raises:
        PackingError: There are some.
    """
    directories = [Path.cwd()]
    if (file := Path(function.__code__.co_filename)).is_file():
        directories.append(file.parent)
    users = [(function.__name__, entry.module) for entry in needed]
    for path, text in files.items():
        package = ".".join(path.split("/")[:-1])
        users += [(path, entry.module) for entry in read_imports(text, package)]
    for user, name in users:
        if name.startswith("podtune.") and not f"{name}.".startswith("podtune.trial."):
            raise PackingError(
                f"{user} uses {name}, but images for trials have podtune.trial alone; import that: from podtune import "
                "trial"
            )
        module = sys.modules.get(name)
        if module is not None and not is_packed(name, files) and is_users_own(module, directories):
            short = name.partition(".")[0]
            raise PackingError(
                f"{user} imports {name}, a module of yours that no image has; send it along with modules=[{name}], or "
                f"install it in the image and import {short} in the body of the function"
            )
