"""Users' regular expressions that the operator itself matches, in RE2's syntax, which takes linear time.

Python's own expressions can take exponential time for a short text, and one user's would hold up everybody's
experiments.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Protocol

import re2
from pydantic import AfterValidator, Field

MAX_PATTERN = 512
_MEMORY = 1 << 20
"""Bytes that one expression and its automaton may take; a larger one is refused."""


class Pattern(Protocol):
    """A compiled expression."""

    def search(self, text: str) -> object | None:
        """Finds the expression in a text; None where it is not there."""


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Pattern:
    """Compiles an expression.

    Raises:
        ValueError: It is none, or too large.
    """
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        found: Pattern = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        raise ValueError(f"{pattern!r} is not a valid RE2 regular expression: {reason}; correct it") from error
    return found


def _check(pattern: str) -> str:
    compile_pattern(pattern)
    return pattern


LinearPattern = Annotated[str, Field(min_length=1, max_length=MAX_PATTERN), AfterValidator(_check)]
"""A regular expression in RE2's syntax."""
