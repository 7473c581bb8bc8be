"""Looks at pages, and notes whatever goes wrong there: errors, violated policies, requests to elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, Request

Theme = Literal["light", "dark"]
WIDE, NARROW = 1440, 390
HEIGHT = 900
DEADLINE = 90_000
"""Milliseconds for whatever a busy machine may be slow at."""

# Runs before the page's own scripts. The browser tells the console of violations, too, but in words that change.
_TELL_VIOLATIONS = """document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI}`))"""
# What is drawn later than the page: its element is hidden until then.
_IS_DRAWN = """() => document.readyState === "complete" && document.fonts.status === "loaded"
  && !document.querySelector("[data-parallel][hidden]")"""


@dataclass
class Visitor:
    """One browser tab.

    Attributes:
        page: The tab.
        origin: Where all that it asks for has to come from.
        problems: What went wrong so far, a sentence each.
        pardoned: A problem that has one of these texts in it is none: a page that is not there is one to the console.
    """

    page: Page
    origin: str
    problems: list[str] = field(default_factory=list)
    pardoned: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begins to listen."""
        self.page.add_init_script(_TELL_VIOLATIONS)
        self.page.on("console", self._hear_console)
        self.page.on("pageerror", self._hear_error)
        self.page.on("request", self._see_request)

    def open(self, path: str = "") -> Page:
        """Opens a page of the dashboard, until all of it is drawn."""
        self.page.goto(f"{self.origin}/{path}")
        self.await_drawn()
        return self.page

    def await_drawn(self) -> None:
        """Returns as soon as scripts have drawn what they draw."""
        self.page.wait_for_function(_IS_DRAWN)

    def pardon(self, text: str) -> None:
        """Problems with this text are expected."""
        self.pardoned.append(text)

    def list_problems(self) -> list[str]:
        """What went wrong, but for what was expected."""
        return [problem for problem in self.problems if not any(text in problem for text in self.pardoned)]

    def _hear_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"{self.page.url}: console: {message.text} {message.location.get('url', '')}")

    def _hear_error(self, error: Error) -> None:
        self.problems.append(f"{self.page.url}: a script failed: {error}")

    def _see_request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob") and f"{address.scheme}://{address.netloc}" != self.origin:
            self.problems.append(f"{self.page.url}: asks {request.url}, which is elsewhere")


@contextmanager
def visit(
    browser: Browser,
    address: str,
    *,
    width: int = WIDE,
    theme: Theme = "light",
    is_touched: bool = False,
    has_scripts: bool = True,
) -> Iterator[Visitor]:
    """A tab that has been nowhere before.

    Args:
        browser: The browser.
        address: Of the dashboard's first page.
        width: Of the window, in pixels.
        theme: What the visitor's system prefers.
        is_touched: Whether it is a telephone.
        has_scripts: Whether pages may run any.
    """
    context = browser.new_context(
        viewport={"width": width, "height": HEIGHT},
        color_scheme=theme,
        # Also in tests: what moves is never where one looks for it.
        reduced_motion="reduce",
        has_touch=is_touched,
        java_script_enabled=has_scripts,
        locale="en-GB",
        timezone_id="UTC",
    )
    with _closing(context):
        context.set_default_timeout(DEADLINE)
        yield Visitor(context.new_page(), address.rstrip("/"))


@contextmanager
def _closing(context: BrowserContext) -> Iterator[None]:
    try:
        yield
    finally:
        context.close()
