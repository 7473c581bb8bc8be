"""The map of the code names what there is, leaves no folder out, and its walks follow what calls what."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PRODUCT = ROOT / "operator" / "podtune"
NAME = "docs/explanation/codebase*.md"
PAGE = "".join(page.read_text(encoding="utf-8") for page in sorted(ROOT.glob(NAME)))
QUESTIONS = ("Where is …?", "Where is … that people see?")
WALKS = (
    "From a result to the scheduler's decision",
    "From a failed pod to the retry",
    "From a checkpoint to its restore",
)
SPAN = re.compile(r"`([^`]+)`")
ITEM = re.compile(
    r"^(?P<number>\d+)\. `(?P<file>[\w/]+\.py)`(?P<functions>(?:,? `[\w.]+`)+)(?P<through> \*through [^*]+\*)?:"
)
"""A number, a file, functions, and what lies between this item and the ones before it that no import connects."""


@dataclass(frozen=True)
class Stop:
    """An item of a walk."""

    number: int
    file: str
    functions: tuple[str, ...]
    is_called: bool

    @property
    def module(self) -> str:
        """The module, as it is imported."""
        return "podtune." + self.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def section(heading: str) -> str:
    """The text below a heading, up to the next one."""
    _, found, rest = PAGE.partition(f"# {heading}\n")
    assert found, f"{NAME} lacks the heading {heading!r}; the test looks for it"
    return re.split(r"^#+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def rows(heading: str) -> list[list[str]]:
    lines = [line.strip("|").split(" | ") for line in section(heading).splitlines() if line.startswith("|")]
    return [[cell.strip(" |") for cell in line] for line in lines[2:]]


def stops(heading: str) -> list[Stop]:
    found = []
    for line in section(heading).splitlines():
        if re.match(r"\d+\. ", line):
            item = ITEM.match(line)
            assert item, (
                f"{NAME}, {heading}: write the item as '1. `FILE` `FUNCTION`, `FUNCTION`: what it does': {line}"
            )
            functions = tuple(SPAN.findall(item["functions"]))
            found.append(Stop(int(item["number"]), item["file"], functions, item["through"] is None))
    return found


@cache
def tree(file: str) -> ast.Module:
    path = PRODUCT / file
    assert path.is_file(), f"{NAME} names {file}, which is not in operator/podtune; name what has taken its place"
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def defines(file: str, name: str) -> bool:
    """Whether a function, method or class of this dotted name is defined in a file."""
    scope: ast.AST = tree(file)
    for part in name.split("."):
        inner = [
            node
            for node in ast.iter_child_nodes(scope)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == part
        ]
        if not inner:
            return False
        scope = inner[-1]
    return True


@cache
def imports(file: str) -> frozenset[str]:
    """The modules, and what of them, that a file imports."""
    found: set[str] = set()
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
    return frozenset(found)


@cache
def refers_to(file: str) -> frozenset[str]:
    """The names and attributes that a file uses."""
    nodes = list(ast.walk(tree(file)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return frozenset(names | {node.attr for node in nodes if isinstance(node, ast.Attribute)})


def is_reached(stop: Stop, former: list[Stop]) -> bool:
    """Whether one of the former stops imports the module, or uses the name of what is called first in it."""
    name = stop.functions[0].rpartition(".")[2]
    return any(
        before.file == stop.file or stop.module in imports(before.file) or name in refers_to(before.file)
        for before in former
    )


@pytest.mark.parametrize("heading", WALKS)
def test_every_stop_of_a_walk_exists(heading: str) -> None:
    for stop in stops(heading):
        for name in stop.functions:
            assert defines(stop.file, name), (
                f"{NAME}, {heading}, item {stop.number}: {stop.file} defines no {name}; name what is called there now"
            )


@pytest.mark.parametrize("heading", WALKS)
def test_a_walk_is_numbered_from_one_on(heading: str) -> None:
    numbers = [stop.number for stop in stops(heading)]
    assert numbers == list(range(1, len(numbers) + 1)), f"{NAME}, {heading}: number the items from 1 on"
    assert len(numbers) > 1, f"{NAME}, {heading}: the walk has no items"


@pytest.mark.parametrize("heading", WALKS)
def test_every_stop_is_called_from_one_before_it(heading: str) -> None:
    walk = stops(heading)
    for position, stop in enumerate(walk[1:], 1):
        assert not stop.is_called or is_reached(stop, walk[:position]), (
            f"{NAME}, {heading}, item {stop.number}: no earlier item imports {stop.module} or uses "
            f"{stop.functions[0]}; add the item that leads there, or say what lies between: *through …*"
        )


@pytest.mark.parametrize("heading", WALKS)
def test_what_a_stop_passes_after_its_first_function_is_used_there(heading: str) -> None:
    walk = stops(heading)
    for position, stop in enumerate(walk):
        for name in stop.functions[1:]:
            called = name.rpartition(".")[2]
            assert any(called in refers_to(at.file) for at in walk[: position + 1]) or stop.functions[0] in name, (
                f"{NAME}, {heading}, item {stop.number}: nothing calls {name} up to there; name what is called instead"
            )


@pytest.mark.parametrize("heading", WALKS)
def test_what_is_called_on_the_way_exists_and_is_imported_by_a_stop(heading: str) -> None:
    files = {stop.file for stop in stops(heading)}
    _, _, named = section(heading).partition("Called on the way:")
    aside = SPAN.findall(named)
    assert aside, f"{NAME}, {heading}: end the walk with 'Called on the way: `FILE`, `FILE`.'"
    for file in aside:
        assert file not in files, f"{NAME}, {heading}: {file} is an item already; take it out of 'Called on the way'"
        module = Stop(0, file, (), is_called=True).module
        tree(file)
        assert any(module in imports(by) for by in {*files, *aside}), (
            f"{NAME}, {heading}: no file of the walk imports {file}; take it out of 'Called on the way'"
        )


def test_every_question_leads_to_what_there_is() -> None:
    asked = [row for heading in QUESTIONS for row in rows(heading) if row[1]]
    assert asked
    for question, file, functions in asked:
        for name in SPAN.findall(functions):
            assert defines(file.strip("`"), name), (
                f"{NAME}, 'Where is …?', {question!r}: {file} defines no {name}; name where it is now"
            )


def test_every_folder_has_a_sentence() -> None:
    listed = [row[0].strip("`") for row in rows("The rooms")]
    there = {str(path.parent.relative_to(PRODUCT)) for path in PRODUCT.rglob("__init__.py")} - {"."}
    assert len(listed) == len(set(listed)), f"{NAME}, 'The rooms' lists a folder twice"
    assert set(listed) == there, (
        f"{NAME}, 'The rooms': add {sorted(there - set(listed))}, take out {sorted(set(listed) - there)}"
    )


def test_every_folder_of_tests_is_there() -> None:
    for row in rows("Tests"):
        folder = row[0].strip("`")
        assert (ROOT / folder).is_dir(), f"{NAME}, 'Tests' names {folder}, which is not there; name where they are now"
