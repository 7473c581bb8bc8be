"""Pages and pictures have the same colours, from one style sheet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import podtune.dashboard
from podtune.dashboard.rendering import read_palette

PACKAGE = Path(podtune.dashboard.__file__).parent
SHEET = PACKAGE / "static" / "styles" / "palette.css"
ICON = PACKAGE / "static" / "mark.svg"
"""Browsers show it beside the title, in any theme."""
COLOUR = re.compile(r"#[0-9a-fA-F]{3,8}\b")
ALIKE = {"dot", "dot_edge"}
"""What lies on a colour of its own, which both themes have."""
LEAST_CONTRAST = 4.5
"""What WCAG 2 asks for texts. Browsers' tools don't examine those of drawings and those that stand in empty fields."""
SURFACES = ("page", "card", "raised", "hair", "accent_soft", "notice", "bad_soft")
"""What texts lie on."""
BUTTONS = {("card", "accent"), ("card", "bad")}
"""Texts on a colour, which lie on nothing else."""
TEXT_COLOUR = re.compile(r"(?<![\w-])color: var\(--([a-z0-9-]+)\)|text \{[^}]*fill: var\(--([a-z0-9-]+)\)")
LINE_NAMES = ("hue0", "hue1", "hue2", "hue3", "hue4")
"""Lines of charts are named in their colour; charts lie on cards."""


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


def list_texts() -> Iterator[tuple[str, str]]:
    """Colours of texts, each with what it may lie on."""
    sheets = "".join(file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.css"))
    colours = {(one or other).replace("-", "_") for one, other in TEXT_COLOUR.findall(sheets)}
    assert {"ink", "soft", "faint"} <= colours
    yield from BUTTONS
    yield from ((name, "card") for name in LINE_NAMES)
    yield from ((colour, surface) for colour in colours - {text for text, _ in BUTTONS} for surface in SURFACES)


def measure_contrast(one: str, other: str) -> float:
    """By WCAG 2: from 1 for the same colour to 21 for black on white."""
    darker, brighter = sorted(map(measure_luminance, (one, other)))
    return (brighter + 0.05) / (darker + 0.05)


def measure_luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_each_text_can_be_read_on_whatever_it_lies_on(is_dark: bool) -> None:
    palette = read_palette(is_dark=is_dark)
    contrasts = {pair: measure_contrast(*map(palette.__getitem__, pair)) for pair in list_texts()}
    assert not {pair: contrast for pair, contrast in contrasts.items() if contrast < LEAST_CONTRAST}
    assert measure_contrast("#000000", "#ffffff") == pytest.approx(21)


def test_what_stands_in_empty_fields_is_no_paler_than_other_texts() -> None:
    """Browsers have colours of their own for it."""
    sheets = "".join(file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.css"))
    assert re.findall(r"(\S*)::placeholder \{ (.*) \}", sheets) == [("", "color: var(--faint); opacity: 1;")]
