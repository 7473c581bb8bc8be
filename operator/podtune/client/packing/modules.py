"""Which files a module of the user's consists of, and which modules are the user's own."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from podtune.client.errors import InvalidArgument


class PackingError(InvalidArgument):
    """A function or module can't travel; the message says why, and what works."""


def collect_files(modules: Iterable[ModuleType]) -> dict[str, str]:
    """Reads the source of modules, and of packages all modules below them.

    Returns:
        Text by path, as the modules lie below a directory of `sys.path`.

    Raises:
        PackingError: A module has no source, or they are none.
    """
    files: dict[str, str] = {}
    if not isinstance(modules, Iterable):
        raise PackingError(f"modules takes a list of modules, not {modules!r:.80}; put it in brackets")
    for module in modules:
        if not isinstance(module, ModuleType):
            raise PackingError(
                f"modules takes modules, not {module!r:.80}; import the module, and pass the module itself"
            )
        files |= _collect_parents(module)
        files |= _collect_package(module) if hasattr(module, "__path__") else _collect_module(module)
    return files


def is_packed(module: str, files: Iterable[str]) -> bool:
    """Whether the module of this name is among the files."""
    path = module.replace(".", "/")
    return any(found in (f"{path}.py", f"{path}/__init__.py") for found in files)


def is_users_own(module: ModuleType, directories: Iterable[Path]) -> bool:
    """Whether a module was written beside the program rather than installed, so that no image has it.

    Args:
        module: The module.
        directories: Where the user's own code lies: the working directory, and that of the function.
    """
    if module.__name__.partition(".")[0] == "podtune" or not getattr(module, "__file__", None):
        return False
    file = Path(str(module.__file__)).resolve()
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    if any(file.is_relative_to(place) for place in installed) or {"site-packages", "dist-packages"} & {*file.parts}:
        return False
    return any(file.is_relative_to(directory.resolve()) for directory in directories)


def _collect_module(module: ModuleType) -> dict[str, str]:
    return {f"{module.__name__.replace('.', '/')}.py": _read(module.__name__, _find_source(module))}


def _collect_package(package: ModuleType) -> dict[str, str]:
    directory = _find_source(package).parent
    prefix = package.__name__.replace(".", "/")
    found = sorted(directory.rglob("*.py"))
    inside = [(path, path.relative_to(directory)) for path in found]
    named = [(path, place) for path, place in inside if all(map(str.isidentifier, place.with_suffix("").parts))]
    return {f"{prefix}/{place.as_posix()}": _read(package.__name__, path) for path, place in named}


def _collect_parents(module: ModuleType) -> dict[str, str]:
    """The packages that it lies in, themselves alone: Python imports each before the module."""
    files: dict[str, str] = {}
    parent = module.__name__.rpartition(".")[0]
    while parent:
        package = sys.modules[parent]
        if getattr(package, "__file__", None):
            files[f"{parent.replace('.', '/')}/__init__.py"] = _read(parent, _find_source(package))
        parent = parent.rpartition(".")[0]
    return files


def _find_source(module: ModuleType) -> Path:
    name = module.__name__
    if name == "__main__":
        raise PackingError("the main program can't travel as a module; put what is needed of it into a module")
    if name.partition(".")[0] in sys.stdlib_module_names:
        raise PackingError(f"module {name} comes with Python and need not travel; leave it out of modules")
    file = getattr(module, "__file__", None)
    if file is None and hasattr(module, "__path__"):
        raise PackingError(f"package {name} has no __init__.py; add one, or pass the modules in it one by one")
    if file is None or not str(file).endswith(".py"):
        raise PackingError(f"module {name} has no Python source ({file or 'built in'}); install it in the image")
    return Path(file)


def _read(module: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PackingError(f"module {module} can't be read as UTF-8 text from {path}: {error}") from error
