"""The colours of pages, for pictures too: read from the style sheet, so that both have the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_SHEET = Path(__file__).parent / "static" / "styles" / "palette.css"
_BLOCK = re.compile(r':root(?P<dark>\[data-theme="dark"\])? \{(?P<colours>[^}]*)\}')
_COLOUR = re.compile(r"--(?P<name>[a-z0-9-]+): (?P<colour>[^;]+);")
_OTHER = re.compile(r"var\(--(?P<name>[a-z0-9-]+)\)")


@cache
def read_palette(*, is_dark: bool) -> Mapping[str, str]:
    """The colours of a theme, by their names in the style sheet with underscores for hyphens."""
    given: dict[str, str] = {}
    for block in _BLOCK.finditer(_SHEET.read_text(encoding="utf-8")):
        if is_dark or not block["dark"]:
            given |= {colour["name"]: colour["colour"] for colour in _COLOUR.finditer(block["colours"])}
    return {name.replace("-", "_"): _resolve(given, colour) for name, colour in given.items()}


def _resolve(given: Mapping[str, str], colour: str) -> str:
    other = _OTHER.fullmatch(colour)
    return _resolve(given, given[other["name"]]) if other else colour
