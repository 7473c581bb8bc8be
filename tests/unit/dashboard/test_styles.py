"""Style sheets: what a class looks like is said in one of them, as pages load several."""

from __future__ import annotations

import re
from collections import defaultdict

from podtune.dashboard.rendering import find_static_files

SHEETS = {name: file.read_text(encoding="utf-8") for name, file in find_static_files().items() if name.endswith(".css")}


def list_selectors(sheet: str) -> list[str]:
    """All selectors, without those of media."""
    text = re.sub(r"/\*.*?\*/", "", sheet, flags=re.DOTALL)
    return [one.strip() for found in re.findall(r"([^{}]+)\{", text) for one in found.split(",")]


def test_no_two_sheets_say_what_a_class_looks_like() -> None:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name, sheet in SHEETS.items():
        for selector in list_selectors(sheet):
            if re.fullmatch(r"\.[a-z0-9-]+", selector):
                found[selector].add(name)
    assert not {selector: sheets for selector, sheets in found.items() if len(sheets) > 1}


def test_what_the_search_space_alone_shows_is_styled_on_its_page_alone() -> None:
    for word in (".stage", ".axes", ".ranges", ".bars", ".slices", ".contour", ".fail", ".course"):
        pattern = re.compile(rf"(?:^|\s){re.escape(word)}(?![\w-])")
        sheets = [name for name, sheet in SHEETS.items() if any(map(pattern.search, list_selectors(sheet)))]
        assert sheets == ["styles/space.css"], word
