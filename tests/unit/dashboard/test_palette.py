"""Pages and pictures have the same colours, from one style sheet."""

from __future__ import annotations

import re
from pathlib import Path

import podtune.dashboard
from podtune.dashboard.rendering import read_palette

PACKAGE = Path(podtune.dashboard.__file__).parent
SHEET = PACKAGE / "static" / "styles" / "palette.css"
ICON = PACKAGE / "static" / "mark.svg"
"""Browsers show it beside the title, in any theme."""
COLOUR = re.compile(r"#[0-9a-fA-F]{3,8}\b")
ALIKE = {"dot", "dot_edge"}
"""What lies on a colour of its own, which both themes have."""


def test_colours_stand_in_the_palette_and_nowhere_else() -> None:
    files = {file for kind in ("svg", "css", "js", "py") for file in PACKAGE.rglob(f"*.{kind}")}
    assert {SHEET, ICON} <= files
    for file in files - {SHEET, ICON}:
        assert not COLOUR.findall(file.read_text(encoding="utf-8")), f"{file.name} has a colour of its own"


def test_a_theme_has_all_colours_of_the_other_and_each_is_one() -> None:
    light, dark = read_palette(is_dark=False), read_palette(is_dark=True)
    assert list(light) == list(dark)
    assert all(COLOUR.fullmatch(colour) for colour in [*light.values(), *dark.values()])
    assert {name for name in light if light[name] == dark[name]} == ALIKE


def test_a_colour_is_the_one_that_the_style_sheet_gives_it() -> None:
    light, dark = read_palette(is_dark=False), read_palette(is_dark=True)
    bright, dim = SHEET.read_text(encoding="utf-8").split(':root[data-theme="dark"]')
    assert f"--failed: {light['failed']};" in bright
    assert f"--failed: {dark['failed']};" in dim
    assert (light["hue4"], dark["hue4"]) == (light["ink"], dark["ink"])  # var(--ink), in both
    assert "--accent-soft: " + light["accent_soft"] in bright
