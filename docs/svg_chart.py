"""Small charts as SVG, in the dashboard's colours: light or dark, as the reader's system is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from podtune.dashboard.charts.scales import Scale

WIDTH = 760
LEFT, RIGHT = 64, 84
_STYLE = """
  svg { --card: #fff; --line: #e3e7ec; --ink: #14202e; --faint: #5f6b79;
    --best: #2855d6; --done: #5aa9bd; --stopped: #8d98a5; --other: #c25400 }
  @media (prefers-color-scheme: dark) { svg { --card: #12171e; --line: #242d38; --ink: #eaf0f6; --faint: #8b98a7;
    --best: #82a7ff; --done: #3f8d9d; --stopped: #73808f; --other: #ff9a57 } }
  text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; fill: var(--faint) }
  .strong { fill: var(--ink); font-weight: 600 }
  .grid { stroke: var(--line) }
  path { fill: none; stroke-linejoin: round; stroke-linecap: round }
  .best { stroke: var(--best); stroke-width: 2.5 } .done { stroke: var(--done); stroke-width: 1.3; opacity: .75 }
  .stopped { stroke: var(--stopped); stroke-width: 1.3; opacity: .75 }
  .front { stroke: var(--best); stroke-width: 1.5 }
  circle { stroke: var(--card) }
  circle.best, rect.best { fill: var(--best) } circle.done, rect.done { fill: var(--done); opacity: 1 }
  circle.stopped, rect.stopped { fill: var(--stopped); opacity: 1 } circle.other { fill: var(--other) }
  circle.best, circle.done, circle.stopped, circle.other { stroke-width: 1 } rect { stroke: none }
  .card { fill: var(--card) }
"""

Point = tuple[float, float]


class Panel:
    """A part of a chart with axes of its own."""

    def __init__(self, chart: Chart, top: float, height: float, x: Scale, y: Scale) -> None:
        """Takes the place from `top` on, over the chart's whole width; see `Chart.add_panel`."""
        self._chart = chart
        self._top, self._height = top, height
        self._x, self._y = x, y

    def at(self, x: float, y: float) -> Point:
        """Where values are in the picture."""
        across = LEFT + self._x.place(x) * (WIDTH - LEFT - RIGHT)
        return round(across, 1), round(self._top + (1 - self._y.place(y)) * self._height, 1)

    def draw_axes(self, x_label: str, y_label: str, *, has_heights: bool = True) -> None:
        """Draws the grid, the numbers beside it, and what they are."""
        bottom, right = self._top + self._height, WIDTH - RIGHT
        for tick in self._y.list_ticks(5) if has_heights else ():
            height = round(bottom - tick.place * self._height, 1)
            self._chart.draw(f'<path class="grid" d="M{LEFT} {height}H{right}"/>')
            self._chart.write(LEFT - 8, height + 4, tick.label, anchor="end")
        for tick in self._x.list_ticks(7):
            across = round(LEFT + tick.place * (right - LEFT), 1)
            self._chart.write(across, bottom + 20, tick.label, anchor="middle")
        self._chart.write(LEFT, self._top - 12, y_label, style="strong")
        self._chart.write(WIDTH - 16, bottom + 20, x_label, anchor="end", style="strong")

    def draw_line(self, points: Sequence[Point], style: str, *, is_stepped: bool = False) -> None:
        """Draws a line through values."""
        (x, y), *others = (self.at(*point) for point in points)
        way = "".join(f"H{x:g}V{y:g}" if is_stepped else f"L{x:g} {y:g}" for x, y in others)
        self._chart.draw(f'<path class="{style}" d="M{x:g} {y:g}{way}"/>')

    def draw_dot(self, x: float, y: float, style: str, radius: float = 3) -> None:
        """Draws a dot at values."""
        across, height = self.at(x, y)
        self._chart.draw(f'<circle class="{style}" cx="{across:g}" cy="{height:g}" r="{radius:g}"/>')

    def draw_bar(self, begin: float, end: float, y: float, style: str, thickness: float) -> None:
        """Draws a bar along the x axis."""
        (left, height), (right, _) = self.at(begin, y), self.at(end, y)
        size = f'width="{max(right - left - 1, 1):.1f}" height="{thickness:g}" rx="1.5"'
        self._chart.draw(f'<rect class="{style}" x="{left:g}" y="{height - thickness / 2:g}" {size}/>')

    def write(self, x: float, y: float, text: str, *, style: str = "strong", right: float = 7) -> None:
        """Writes beside values, to the right."""
        across, height = self.at(x, y)
        self._chart.write(across + right, height + 4, text, style=style)


class Chart:
    """A picture of one or more panels."""

    def __init__(self, height: int, description: str) -> None:
        """Makes an empty one; the description is for who doesn't see it."""
        self._height = height
        self._description = description
        self._parts: list[str] = []

    def add_panel(self, top: float, height: float, x: Scale, y: Scale) -> Panel:
        """Adds a panel whose axes begin at `top` and are so high."""
        return Panel(self, top, height, x, y)

    def draw(self, part: str) -> None:
        """Adds an element."""
        self._parts.append(part)

    def write(self, x: float, y: float, text: str, *, anchor: str = "start", style: str = "") -> None:
        """Adds a text."""
        kind = f' class="{style}"' if style else ""
        where = f' text-anchor="{anchor}"' if anchor != "start" else ""
        self.draw(f'<text x="{x:g}" y="{y:g}"{kind}{where}>{escape(text)}</text>')

    def draw_legend(self, entries: Iterable[tuple[str, str]], top: float = 24) -> None:
        """Says what the colours are, at the right of the top."""
        right: float = WIDTH - RIGHT
        for style, text in reversed(list(entries)):
            right -= 6.3 * len(text)
            self.write(round(right), top, text)
            self.draw(f'<circle class="{style}" cx="{round(right) - 10}" cy="{top - 4:g}" r="4.5"/>')
            right -= 34

    def render(self) -> str:
        """The picture."""
        size = f'viewBox="0 0 {WIDTH} {self._height}" width="{WIDTH}" height="{self._height}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><title>{escape(self._description)}</title>'
        card = f'<rect class="card" width="{WIDTH}" height="{self._height}" rx="8"/>'
        return "\n".join((f"{head}\n<style>{_STYLE}</style>", card, *self._parts, "</svg>")) + "\n"
