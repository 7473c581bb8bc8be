"""The page about `podtune.trial`, made of the module's own docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from podtune import trial

INTRODUCTION = """# podtune.trial

What a training program in Python imports: seven functions that need the standard library alone. Programs in other
languages do the same with two files: see [Your first experiment](../tutorial/first-experiment.md#2-the-program).

The image of your program needs the package `podtune`. From a checkout: `pip install .`, or copy the folder
`operator/podtune/trial` to `podtune/trial` on the image's `PYTHONPATH`; it imports nothing else.
"""


def trial_module_page() -> str:
    """The page's text."""
    members = [getattr(trial, name) for name in trial.__all__]
    sections = [part for member in members if inspect.isfunction(member) for part in _section(member)]
    return "\n".join([INTRODUCTION, _overview(), *sections])


def _overview() -> str:
    """The module's docstring, without its first sentence, which the introduction says."""
    _, _, text = inspect.cleandoc(trial.__doc__ or "").partition("\n\n")
    return re.sub(r"^( {4}.*\n(?: {4}.*\n|\n(?= {4}))*)", _fence, f"{text}\n", flags=re.MULTILINE)


def _fence(code: re.Match[str]) -> str:
    return f"```python\n{inspect.cleandoc(code[1])}\n```\n"


def _section(function: Callable[..., Any]) -> Iterator[str]:
    """A heading, the signature, and the docstring with its arguments as a list."""
    yield f"## {function.__name__}\n"
    yield f"```python\n{function.__name__}{_signature(function)}\n```\n"
    for paragraph in inspect.cleandoc(function.__doc__ or "").split("\n\n"):
        head, _, entries = paragraph.partition("\n")
        yield f"{head[:-1]}:\n\n{_entries(entries)}\n" if head in ("Args:", "Raises:") else f"{paragraph}\n"


def _signature(function: Callable[..., Any]) -> str:
    return str(inspect.signature(function)).replace("'", "").replace("os.PathLike[str]", "PathLike")


def _entries(text: str) -> str:
    """`name: meaning` lines, continued ones joined, as a list."""
    joined = re.sub(r"\n {8,}", " ", text)
    return "\n".join(re.sub(r"^ +(\w+): ", r"- `\1`: ", line) for line in joined.splitlines())
