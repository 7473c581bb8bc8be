"""The measures count what they say they count."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.measure_codebase import (
    MAP,
    SourceFile,
    Walk,
    count_lines,
    find_crowded_folders,
    find_tiny_modules,
    measure,
    read_files,
    read_walks,
)


def module(path: str, text: str = "") -> SourceFile:
    return SourceFile(f"operator/podtune/{path}", text)


@pytest.mark.parametrize(("files", "crowded"), [(15, {}), (16, {"operator/podtune/runner": 16})])
def test_a_folder_is_crowded_with_more_than_fifteen_files(files: int, crowded: dict[str, int]) -> None:
    tree = [module("runner/__init__.py"), *(module(f"runner/m{number}.py") for number in range(files))]
    assert find_crowded_folders(tree) == crowded


@pytest.mark.parametrize(
    "text",
    ["import podtune.a", "from podtune import a", "from podtune.a import A", "def f():\n    from podtune.a import A"],
)
def test_a_small_module_with_one_importer_is_tiny(text: str) -> None:
    small, importer = module("a.py", "A = 1\n" * 39), module("b.py", text)
    assert find_tiny_modules([small, importer]) == {"podtune.a": "podtune.b"}
    assert find_tiny_modules([small, importer, module("c.py", text)]) == {}
    assert find_tiny_modules([module("a.py", "A = 1\n" * 40), importer]) == {}


SOURCE = '''"""Says what

it is."""

# Why.
TEXT = """a

# b
"""


def f():
    """Does it."""
    return 1  # one
'''

PAGE = """# Map

### From a failed pod to the retry

1. `a.py` `f`: calls
2. `b/c.py` `g`: calls `h` of
3. `a.py` `h`: ends

Called on the way: `d.py`, `a.py`.

### Else

1. `e.py`
"""


def test_lines_are_counted_by_kind() -> None:
    assert count_lines(module("a.py", SOURCE)) == {"docstrings": 4, "blank": 3, "comments": 1, "code": 6}


def test_a_walk_counts_each_file_once(tmp_path: Path) -> None:
    (tmp_path / MAP).mkdir(parents=True)
    (tmp_path / MAP / "codebase-walks.md").write_text(PAGE, encoding="utf-8")
    walks = read_walks(tmp_path)
    assert list(walks) == ["From a failed pod to the retry"]
    assert walks["From a failed pod to the retry"] == Walk(frozenset({"a.py", "b/c.py"}), frozenset({"d.py"}))


def test_what_is_not_on_the_map_breaks_no_bound(tmp_path: Path) -> None:
    assert all(figure.is_held for figure in measure(tmp_path, read_files(tmp_path)))
