"""Charts as SVG: axes, and what is drawn on them, in colours that suit light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

Point = tuple[float, float]

_FONT = "system-ui, 'DejaVu Sans', Verdana, sans-serif"
_LIGHT = {
    "paper": "#ffffff",
    "ink": "#1f2933",
    "soft": "#5f6b7a",
    "grid": "#d9dee5",
    "plain": "#98a4b3",
    "blue": "#1565c0",
    "orange": "#c2410c",
    "green": "#2e7d32",
    "violet": "#7b1fa2",
}
_DARK = {
    "paper": "#1e2129",
    "ink": "#e6e9ee",
    "soft": "#a5afbd",
    "grid": "#3a404c",
    "plain": "#7b8696",
    "blue": "#64b5f6",
    "orange": "#fb923c",
    "green": "#81c784",
    "violet": "#ce93d8",
}
_TICK = 4
_CHARACTER = 6.7
"""About how wide a character of the labels is."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Where values lie between two pixels.

    Attributes:
        low: The value at `start`.
        high: The value at `end`.
    """

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """The pixel of a value; those beyond the ends are put there."""
        low, high = self._bend(self.low), self._bend(self.high)
        least, most = sorted((self.low, self.high))
        share = (self._bend(min(max(value, least), most)) - low) / (high - low)
        return self.start + (self.end - self.start) * share

    def _bend(self, value: float) -> float:
        return math.log10(value) if self.is_log else value


@dataclass
class Drawing:
    """An SVG in the making.

    Attributes:
        title: What it shows, in some words; readers who don't see it are told that and the description.
    """

    width: int
    height: int
    title: str
    description: str
    parts: list[str] = field(default_factory=list)

    def add_text(
        self, place: Point, text: str, *, colour: str = "ink", anchor: str = "start", bold: bool = False
    ) -> None:
        """Writes a line of text, whose baseline starts, ends or has its middle at a point."""
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{_fmt(place[0])}" y="{_fmt(place[1])}" class="f-{colour}" text-anchor="{anchor}"{weight}>'
            f"{escape(text)}</text>"
        )

    def add_line(self, points: Sequence[Point], colour: str, *, wide: float = 1.2, dashed: bool = False) -> None:
        """Draws a line through some points."""
        path = " ".join(f"{_fmt(x)},{_fmt(y)}" for x, y in points)
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<polyline points="{path}" class="s-{colour}" stroke-width="{wide:g}"{dashes}/>')

    def add_area(self, points: Sequence[Point], colour: str, opacity: float = 0.18) -> None:
        """Fills a polygon."""
        path = " ".join(f"{_fmt(x)},{_fmt(y)}" for x, y in points)
        self.parts.append(f'<polygon points="{path}" class="f-{colour}" opacity="{opacity:g}"/>')

    def add_dot(
        self, place: Point, colour: str, radius: float = 3.0, *, hollow: bool = False, opacity: float = 1
    ) -> None:
        """Draws a dot, or a ring."""
        kind = "r" if hollow else "f"
        faint = f' opacity="{opacity:g}"' if opacity < 1 else ""
        self.parts.append(
            f'<circle cx="{_fmt(place[0])}" cy="{_fmt(place[1])}" r="{radius:g}" class="{kind}-{colour}"{faint}/>'
        )

    def add_cross(self, place: Point, colour: str, size: float = 3.5) -> None:
        """Draws a cross: something ends here."""
        (x, y), s = place, size
        for ends in (((x - s, y - s), (x + s, y + s)), ((x - s, y + s), (x + s, y - s))):
            self.add_line(ends, colour, wide=1.6)

    def add_bar(self, box: tuple[float, float, float, float], colour: str, opacity: float = 1) -> None:
        """Draws a bar: its left and top pixel, its width and height."""
        left, top, width, height = box
        self.parts.append(
            f'<rect x="{_fmt(left)}" y="{_fmt(top)}" width="{_fmt(max(width, 0.5))}" height="{_fmt(height)}" rx="1.5" '
            f'class="f-{colour}" opacity="{opacity:g}"/>'
        )

    def add_legend(self, place: Point, entries: Iterable[tuple[str, str]]) -> None:
        """Says in a row what the colours mean."""
        x, y = place
        for colour, text in entries:
            self.add_dot((x + 4, y - 4), colour, 4)
            self.add_text((x + 13, y), text, colour="soft")
            x += 13 + _CHARACTER * len(text) + 18

    def render(self) -> str:
        """The whole SVG."""
        styles = "".join(_style(name, value) for name, value in _LIGHT.items())
        dark = "".join(_style(name, value) for name, value in _DARK.items())
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" role="img" aria-labelledby="title description" font-family="{_FONT}" '
            'font-size="12">\n'
            f'<title id="title">{escape(self.title)}</title>\n'
            f'<desc id="description">{escape(self.description)}</desc>\n'
            f"<style>{styles}@media (prefers-color-scheme: dark){{{dark}}}</style>\n"
            f'<rect width="{self.width}" height="{self.height}" rx="6" class="f-paper"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


class Axes:
    """A chart within a drawing: a frame with ticks, and values placed in it."""

    def __init__(
        self,
        drawing: Drawing,
        box: tuple[float, float, float, float],
        x: tuple[float, float],
        y: tuple[float, float],
        *,
        logs: str = "",
    ) -> None:
        """Sets up the scales.

        Args:
            drawing: Where it is drawn.
            box: Its left, top, right and bottom pixel.
            x: The values at the left and right end.
            y: The values at the bottom and top end.
            logs: Which axes are logarithmic: `x`, `y` or both.
        """
        self.drawing = drawing
        self.left, self.top, self.right, self.bottom = box
        self.x = Scale(*x, self.left, self.right, is_log="x" in logs)
        self.y = Scale(*y, self.bottom, self.top, is_log="y" in logs)

    def draw_frame(self, x_label: str = "", y_label: str = "", title: str = "") -> None:
        """Draws the two axes, and what they are called."""
        self.drawing.add_line(
            [(self.left, self.top), (self.left, self.bottom), (self.right, self.bottom)], "soft", wide=1
        )
        if x_label:
            self.drawing.add_text((self.right, self.bottom + 31), x_label, colour="soft", anchor="end")
        if y_label:
            self.drawing.add_text((self.left - 6, self.top - 8), y_label, colour="soft")
        if title:
            self.drawing.add_text(((self.left + self.right) / 2, self.top - 8), title, anchor="middle", bold=True)

    def draw_x_ticks(self, values: Iterable[float], *, lines: bool = False) -> None:
        """Marks values on the x-axis; with `lines`, across the chart."""
        for value in values:
            at = self.x.place(value)
            if lines:
                self.drawing.add_line([(at, self.top), (at, self.bottom)], "grid", wide=1)
            self.drawing.add_line([(at, self.bottom), (at, self.bottom + _TICK)], "soft", wide=1)
            self.drawing.add_text((at, self.bottom + 17), f"{value:g}", colour="soft", anchor="middle")

    def draw_y_ticks(self, values: Iterable[float]) -> None:
        """Marks values on the y-axis, with lines across the chart."""
        for value in values:
            at = self.y.place(value)
            self.drawing.add_line([(self.left, at), (self.right, at)], "grid", wide=1)
            self.drawing.add_text((self.left - 7, at + 4), f"{value:g}", colour="soft", anchor="end")

    def place(self, x: float, y: float) -> Point:
        """The pixel of a point."""
        return self.x.place(x), self.y.place(y)

    def trace(self, points: Iterable[Point]) -> list[Point]:
        """The pixels of some points."""
        return [self.place(x, y) for x, y in points]

    def trace_within(self, points: Iterable[Point]) -> list[Point]:
        """The pixels of those points that are not above or below the chart."""
        least, most = sorted((self.y.low, self.y.high))
        return self.trace((x, y) for x, y in points if least <= y <= most)


def _style(name: str, value: str) -> str:
    fill, stroke = f".f-{name}{{fill:{value}}}", f".s-{name}{{stroke:{value};fill:none;stroke-linejoin:round}}"
    return f"{fill}{stroke}.r-{name}{{stroke:{value};stroke-width:1.6;fill:none}}"


def _fmt(pixels: float) -> str:
    """A length, to a tenth of a pixel."""
    return (
        f"{pixels:.1f}".removesuffix(".0").replace("-0", "0")
        if abs(pixels) < 0.05
        else f"{pixels:.1f}".removesuffix(".0")
    )
