"""Measures how the code reads: files on a walk, double names, crowded folders, tiny modules, and lines by kind.

`python docs/measure_codebase.py` prints the figures; `--check` fails where one breaks its bound. `--root DIR` measures
another tree, such as an older commit's beside this one:

    git worktree add /tmp/before v0.2.0 && python docs/measure_codebase.py --root /tmp/before
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PRODUCT = "operator/podtune"
MEASURED = (PRODUCT, "tests", "e2e")
# Line counts are given for each; a file counts for the first whose folder it lies in. `e2e/cluster` is an older name.
REGIONS = {
    "product": (PRODUCT,),
    "tests": ("tests",),
    "bench": ("e2e/bench",),
    "chaos": ("e2e/chaos",),
    "devcluster": ("e2e/devcluster", "e2e/cluster"),
    "e2e": ("e2e",),
}
KINDS = ("code", "docstrings", "comments", "blank")

# Two processes each have their settings and their way in.
# The two resources are called by their names wherever somebody meets them: in the runner, and in the Python API.
SHARED_NAMES = frozenset({"Settings", "main", "Experiment", "Trial"})
MOST_FILES_IN_A_FOLDER = 15
FEWEST_LINES = 40

MAP = "docs/explanation"
MAP_PAGES = "codebase*.md"
# The headings of the walks on the map, and how many files each may pass.
WALKS = {
    "From a result to the scheduler's decision": 30,
    "From a failed pod to the retry": 25,
    "From a checkpoint to its restore": 35,
}
# An item of a walk begins with its file; other files of the section are called on the way.
STEP = re.compile(r"^\d+\. `([\w/]+\.py)`", re.MULTILINE)
FILE = re.compile(r"`([\w/]+\.py)`")


@dataclass(frozen=True)
class SourceFile:
    """A Python file of the tree."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)

    @property
    def module(self) -> str:
        """The name that the product's other modules import it by."""
        parts = Path(self.path).relative_to(Path(PRODUCT).parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def is_package(self) -> bool:
        """Whether it is a folder's `__init__.py`."""
        return self.path.endswith("/__init__.py")


@dataclass(frozen=True)
class Figure:
    """One measured number, what it counts, and the most that it may be."""

    name: str
    value: int | None
    bound: int
    found: tuple[str, ...] = ()

    @property
    def is_held(self) -> bool:
        """Whether the bound holds. What the tree does not tell breaks none."""
        return self.value is None or self.value <= self.bound


def read_files(root: Path) -> list[SourceFile]:
    """Reads all Python files that are measured, in order of their paths."""
    paths = sorted(path for folder in MEASURED for path in (root / folder).rglob("*.py"))
    return [SourceFile(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")) for path in paths]


def select_product(files: list[SourceFile]) -> list[SourceFile]:
    """The product's files."""
    return [file for file in files if file.path.startswith(PRODUCT + "/")]


def list_public_names(file: SourceFile) -> Iterator[str]:
    """Lists the public classes, functions, constants and type aliases at a module's top level.

    Variables in lower case, such as a module's logger, and type variables are no names that others look up.
    """
    for node in file.tree.body:
        names: list[str] = []
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names = [node.name]
        elif isinstance(node, ast.Assign) and not _is_type_variable(node.value):
            names = [target.id for target in node.targets if isinstance(target, ast.Name) and not target.id.islower()]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not node.target.id.islower():
            names = [node.target.id]
        yield from (name for name in names if not name.startswith("_"))


def _is_type_variable(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Name(id="TypeVar" | "ParamSpec")):
            return True
    return False


def find_double_names(files: list[SourceFile]) -> dict[str, list[str]]:
    """Finds the product's public names that several modules define; returns the paths for each."""
    definitions: dict[str, list[str]] = defaultdict(list)
    for file in select_product(files):
        for name in sorted(set(list_public_names(file)) - SHARED_NAMES):
            definitions[name].append(file.path)
    return {name: paths for name, paths in sorted(definitions.items()) if len(paths) > 1}


def find_crowded_folders(files: list[SourceFile]) -> dict[str, int]:
    """Finds the folders with too many files side by side; returns how many each has, `__init__.py` aside."""
    sizes = Counter(str(Path(file.path).parent) for file in files if not file.is_package)
    return {folder: size for folder, size in sorted(sizes.items()) if size > MOST_FILES_IN_A_FOLDER}


def find_importers(files: list[SourceFile]) -> dict[str, set[str]]:
    """Finds which of the product's modules import each of them, by statement or by a name in a string."""
    product = {file.module: file for file in select_product(files)}
    importers: dict[str, set[str]] = {name: set() for name in product}
    for name, file in product.items():
        for mentioned in _list_mentions(file):
            target = next((each for each in (mentioned, mentioned.rpartition(".")[0]) if each in product), None)
            if target is not None and target != name:
                importers[target].add(name)
    return importers


def _list_mentions(file: SourceFile) -> Iterator[str]:
    """Lists dotted names, of modules or of things in them, that a file imports or loads by name."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("podtune."):
            yield node.value.replace(":", ".")


def find_tiny_modules(files: list[SourceFile]) -> dict[str, str]:
    """Finds modules so small that they belong into the only one that imports them; returns that one for each."""
    importers = find_importers(files)
    tiny = [
        file
        for file in select_product(files)
        if not file.is_package and len(importers[file.module]) == 1 and len(file.text.splitlines()) < FEWEST_LINES
    ]
    return {file.module: next(iter(importers[file.module])) for file in tiny}


def count_lines(file: SourceFile) -> Counter[str]:
    """Counts a file's lines by kind. Lines of a docstring count as docstring, blank ones among them, too."""
    docstrings: set[int] = set()
    literals: set[int] = set()
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno is not None:
            literals.update(range(node.lineno, node.end_lineno + 1))
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstrings.update(_find_docstring(node))
    kinds: Counter[str] = Counter()
    for number, line in enumerate(file.text.splitlines(), start=1):
        kinds[_name_kind(line.strip(), number in docstrings, number in literals)] += 1
    return kinds


def _find_docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> range:
    match node.body:
        case [ast.Expr(value=ast.Constant(value=str()), lineno=first, end_lineno=int(last)), *_]:
            return range(first, last + 1)
    return range(0)


def _name_kind(line: str, is_docstring: bool, is_literal: bool) -> str:
    if is_docstring:
        return "docstrings"
    if is_literal:
        return "code"
    if not line:
        return "blank"
    return "comments" if line.startswith("#") else "code"


@dataclass(frozen=True)
class Walk:
    """The files that an event passes: those that hand it on, and those that they call on the way."""

    steps: frozenset[str]
    called: frozenset[str]


def read_walks(root: Path) -> dict[str, Walk]:
    """Reads the walks from the map of the code; none where there is no map."""
    text = "".join(page.read_text(encoding="utf-8") for page in sorted((root / MAP).glob(MAP_PAGES)))
    sections = re.split(r"^#+ ", text, flags=re.MULTILINE)
    walks = {}
    for section in sections:
        heading, _, text = section.partition("\n")
        if heading in WALKS:
            steps = frozenset(STEP.findall(text))
            walks[heading] = Walk(steps, frozenset(FILE.findall(text)) - steps)
    return walks


def measure(root: Path, files: list[SourceFile]) -> list[Figure]:
    """Measures all that has a bound."""
    double = tuple(f"{name}: {', '.join(paths)}" for name, paths in find_double_names(files).items())
    crowded = tuple(f"{folder}: {size}" for folder, size in find_crowded_folders(files).items())
    tiny = tuple(f"{module}: imported by {importer}" for module, importer in find_tiny_modules(files).items())
    return [
        Figure("public names that several modules define", len(double), 0, double),
        Figure(f"folders with more than {MOST_FILES_IN_A_FOLDER} files", len(crowded), 0, crowded),
        Figure(f"modules below {FEWEST_LINES} lines with one importer", len(tiny), 0, tiny),
        *_measure_walks(read_walks(root)),
    ]


def _measure_walks(walks: Mapping[str, Walk]) -> Iterator[Figure]:
    for heading, bound in WALKS.items():
        walk = walks.get(heading)
        if walk is None:
            yield Figure(f"files: {heading}", None, bound, ("no such walk on the map",))
        else:
            called = f"{len(walk.steps | walk.called)} with those that are called on the way"
            yield Figure(f"files: {heading}", len(walk.steps), bound, (called,))


def print_figures(figures: list[Figure]) -> None:
    """Prints each figure with its bound, and below it what breaks the bound."""
    print(f"{'':50}{'found':>8}{'at most':>10}")
    for figure in figures:
        print(f"{figure.name:50}{'?' if figure.value is None else figure.value:>8}{figure.bound:>10}")
        for found in figure.found:
            print(f"    {found}")


def print_sizes(files: list[SourceFile]) -> None:
    """Prints how many modules the product has and how many importers, and the lines of each region by kind."""
    importers = find_importers(files)
    single = sum(1 for names in importers.values() if len(names) == 1)
    print(f"\n{len(importers)} modules of the product, {single} of them with one importer;")
    print(f"{sum(len(names) for names in importers.values())} imports between them.\n")
    sizes: dict[str, Counter[str]] = {region: Counter() for region in REGIONS}
    for file in files:
        size = sizes[_find_region(file)]
        size.update(count_lines(file))
        size["files"] += 1
    print(f"{'':14}{'files':>8}{'lines':>8}" + "".join(f"{kind:>12}" for kind in KINDS))
    for region, size in sizes.items():
        total = sum(size[kind] for kind in KINDS)
        print(f"{region:14}{size['files']:>8}{total:>8}" + "".join(f"{size[kind]:>12}" for kind in KINDS))


def _find_region(file: SourceFile) -> str:
    parents = {parent.as_posix() for parent in Path(file.path).parents}
    return next(region for region, folders in REGIONS.items() if not parents.isdisjoint(folders))


def main() -> int:
    """Prints the figures, or checks them; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1], help="the tree to measure")
    parser.add_argument("--check", action="store_true", help="print only what breaks a bound, and fail where one does")
    options = parser.parse_args()
    files = read_files(options.root)
    figures = measure(options.root, files)
    if not options.check:
        print_figures(figures)
        print_sizes(files)
        return 0
    broken = [figure for figure in figures if not figure.is_held]
    if broken:
        print_figures(broken)
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
