"""What is shown while checks run: a line for each that has ended; on a terminal also what is waited for just now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from podtune.cli.commands.conformance.report import render_check
from podtune.cli.commands.conformance.running import CheckReport, CheckState

_STYLES = {CheckState.PASSED: "green", CheckState.FAILED: "red", CheckState.SKIPPED: "yellow"}


class RunListener(Protocol):
    """Who is told how a run goes."""

    def begin(self, name: str) -> None:
        """A check begins, or what comes before or after them all."""

    def say(self, words: str) -> None:
        """That is waited for now."""

    def end(self, report: CheckReport) -> None:
        """A check has ended."""


class WrittenProgress:
    """Writes lines, for pipes and logs."""

    def __init__(self, name_width: int, write: Callable[[str], None]) -> None:
        """Writes each line by a function."""
        self._name_width = name_width
        self._write = write

    def begin(self, name: str) -> None:
        """See `RunListener`; nothing is written."""

    def say(self, words: str) -> None:
        """See `RunListener`; nothing is written."""

    def end(self, report: CheckReport) -> None:
        """See `RunListener`."""
        for line in render_check(report, self._name_width, None):
            self._write(line)


class LiveProgress:
    """Keeps a line at the end of a terminal up to date."""

    def __init__(self, console: Console, name_width: int, clock: Callable[[], float]) -> None:
        """Has begun nothing yet."""
        self._console = console
        self._name_width = name_width
        self._clock = clock
        self._name, self._words, self._begun = "", "", clock()
        self._spinner = Spinner("dots")

    @contextmanager
    def show(self) -> Iterator[LiveProgress]:
        """Shows it until the end, and leaves nothing of the line behind."""
        with Live(console=self._console, refresh_per_second=4, transient=True, get_renderable=self.draw):
            yield self

    def draw(self) -> RenderableType:
        """The line: what is under way, for how long, and what is waited for."""
        if not self._name:
            return Text()
        took = f"{self._clock() - self._begun:3.0f} s"
        waits = f"waiting until {self._words}" if self._words else ""
        text = f"{self._name.ljust(self._name_width)}  {took}  {waits}".rstrip()
        room = self._console.width - 2
        self._spinner.update(text=Text(text if len(text) <= room else f"{text[: room - 1]}…", style="dim"))
        return self._spinner

    def begin(self, name: str) -> None:
        """See `RunListener`."""
        self._name, self._words, self._begun = name, "", self._clock()

    def say(self, words: str) -> None:
        """See `RunListener`."""
        self._words = words

    def end(self, report: CheckReport) -> None:
        """See `RunListener`."""
        self._name = ""
        first, *others = render_check(report, self._name_width, self._console.width)
        mark = len(first.split(maxsplit=1)[0])
        self._console.print(Text.assemble((first[:mark], _STYLES[report.state]), first[mark:]))
        for line in others:
            self._console.print(Text(line))
