"""Tables of generated pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_CODE = re.compile(r"`[^`]*`|[^`]+")


def make_table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, with an empty line after it; texts of cells may be Markdown."""
    lines = [heading, ["---"] * len(heading), *([fill_cell(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def fill_cell(text: str) -> str:
    """A text as one cell: on one line, without what would end the cell or begin an element."""
    return escape_elements(" ".join(text.split())).replace("|", r"\|")


def escape_elements(text: str) -> str:
    """A text without what would begin an element; what is in code is shown as it is anyway."""
    return _CODE.sub(lambda part: part[0] if part[0].startswith("`") else part[0].replace("<", "&lt;"), text)
