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

The agent brings the module if the template names `/podtune/site-packages` in `PYTHONPATH`. Or you install it in the
image: see [Prepare an image for training](../how-to/prepare-an-image.md). It runs on Python 3.8 and later.
"""


def trial_module_page() -> str:
    """The page's text."""
    members = [getattr(trial, name) for name in trial.__all__]
    sections = [part for member in members if inspect.isfunction(member) for part in describe_function(member)]
    return "\n".join([INTRODUCTION, _overview(), *sections])


def _overview() -> str:
    """The module's docstring, without its first sentence, which the introduction says."""
    _, _, text = inspect.cleandoc(trial.__doc__ or "").partition("\n\n")
    return re.sub(r"^( {4}.*\n(?: {4}.*\n|\n(?= {4}))*)", _fence, f"{text}\n", flags=re.MULTILINE)


def _fence(code: re.Match[str]) -> str:
    return f"```python\n{inspect.cleandoc(code[1])}\n```\n"


def describe_function(function: Callable[..., Any], heading: str = "##", name: str = "") -> Iterator[str]:
    """A heading, the signature, and the docstring with its arguments as a list."""
    name = name or function.__name__
    yield f"{heading} {name}\n"
    yield f"```python\n{name}{_signature(function)}\n```\n"
    yield from describe_parts(function.__doc__ or "")


def describe_parts(docstring: str) -> Iterator[str]:
    """The paragraphs of a docstring, what it lists as a list."""
    for paragraph in inspect.cleandoc(docstring).split("\n\n"):
        head, _, entries = paragraph.partition("\n")
        if head in ("Args:", "Raises:", "Attributes:"):
            yield f"{head[:-1]}:\n\n{_entries(entries)}\n"
        elif head == "Returns:":
            yield f"Returns: {inspect.cleandoc(entries)}\n"
        else:
            yield f"{paragraph}\n"


def _signature(function: Callable[..., Any]) -> str:
    text = str(inspect.signature(function)).replace("'", "").replace("os.PathLike[str]", "PathLike")
    return text.replace("(self, ", "(").replace("(self)", "()")


def _entries(text: str) -> str:
    """`name: meaning` lines, continued ones joined, as a list."""
    joined = re.sub(r"\n {8,}", " ", text)
    return "\n".join(re.sub(r"^ +(\w+): ", r"- `\1`: ", line) for line in joined.splitlines())
