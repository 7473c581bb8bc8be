"""Looks at pages, and notes whatever goes wrong there: errors, violated policies, requests to elsewhere."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, Request

from podtune.dashboard.access.session import COOKIE

Theme = Literal["light", "dark"]
WIDEST, WIDE, NARROW, NARROWEST = 3840, 1440, 390, 360
"""Windows in pixels: what people have on their desks and in their hands, and the ends of what pages are made for."""
HEIGHT = 900
DEADLINE = 90_000
"""Milliseconds for whatever a busy machine may be slow at."""

# Runs before the page's own scripts. The browser tells the console of violations, too, but in words that change.
_TELL_VIOLATIONS = """document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI}`))"""
# What is drawn later than the page: its element is hidden until then.
_IS_DRAWN = """() => document.readyState === "complete" && document.fonts.status === "loaded"
  && !document.querySelector("[data-parallel][hidden]")"""
# Blank pages may store nothing, and say so by an error.
_IS_STORED = "() => { try { return localStorage.length > 0; } catch { return false; } }"
# Chromium breaks requests off when a network interface comes or goes, as with each pod; pages ask again.
_NETWORK_CHANGED = "net::ERR_NETWORK_CHANGED"
# A canvas is drawn anew in the frame after the one in which its size changes.
_AWAIT_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@dataclass
class Visitor:
    """One browser tab.

    Attributes:
        page: The tab.
        address: Of the dashboard's first page, without a slash at its end. All that pages ask for comes from there.
        problems: What went wrong so far, a sentence each.
        pardoned: A problem that has one of these texts in it is none: a page that is not there is one to the console.
    """

    page: Page
    address: str
    problems: list[str] = field(default_factory=list)
    pardoned: list[str] = field(default_factory=lambda: [_NETWORK_CHANGED])

    def __post_init__(self) -> None:
        """Begins to listen."""
        self.page.add_init_script(_TELL_VIOLATIONS)
        self.page.on("console", self._hear_console)
        self.page.on("pageerror", self._hear_error)
        self.page.on("request", self._see_request)

    def open(self, path: str = "") -> Page:
        """Opens a page of the dashboard, until all of it is drawn."""
        self.page.goto(f"{self.address}/{path}")
        self.await_drawn()
        return self.page

    def await_drawn(self) -> None:
        """Returns as soon as scripts have drawn what they draw."""
        self.page.wait_for_function(_IS_DRAWN)

    def log_in(self, token: str) -> None:
        """Has a session, as the login form gives it."""
        cookie = {"name": COOKIE, "value": f"{int(time.time())}.{token}", "url": self.address, "httpOnly": True}
        self.page.context.add_cookies([cookie])  # type: ignore[list-item]

    def resize(self, width: int) -> None:
        """Makes the window wider or narrower, until all is drawn anew."""
        self.page.set_viewport_size({"width": width, "height": HEIGHT})
        self.page.evaluate(_AWAIT_FRAMES)

    def prefer(self, theme: Theme) -> None:
        """The visitor's system changes to another theme."""
        self.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        self.page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)

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
        asked, own = urlsplit(request.url), urlsplit(self.address)
        if asked.scheme not in ("data", "blob") and (asked.scheme, asked.netloc) != (own.scheme, own.netloc):
            self.problems.append(f"{self.page.url}: asks {request.url}, which is elsewhere")


@dataclass(frozen=True, slots=True)
class Window:
    """What a visitor sits before.

    Attributes:
        width: In pixels.
        theme: What the visitor's system prefers.
        has_scripts: Whether pages may run any.
    """

    width: int = WIDE
    theme: Theme = "light"
    has_scripts: bool = True


DESK = Window()


def open_context(browser: Browser, window: Window) -> BrowserContext:
    """A browser that knows nothing yet: no cookie, no script, no style."""
    context = browser.new_context(
        viewport={"width": window.width, "height": HEIGHT},
        color_scheme=window.theme,
        # Also in tests: what moves is never where one looks for it.
        reduced_motion="reduce",
        java_script_enabled=window.has_scripts,
        locale="en-GB",
        timezone_id="UTC",
    )
    context.set_default_timeout(DEADLINE)
    return context


@contextmanager
def visit(browser: Browser, address: str, window: Window = DESK) -> Iterator[Visitor]:
    """A tab of a browser that knows nothing yet, to look at the dashboard whose first page has this address."""
    with closing(open_context(browser, window)) as context:
        yield Visitor(context.new_page(), address.rstrip("/"))


class ContextPool:
    """Contexts for visitors who come one after another: each spares the next one to ask for scripts and styles."""

    def __init__(self, browser: Browser) -> None:
        """Has none yet."""
        self._browser = browser
        self._free: defaultdict[Window, list[BrowserContext]] = defaultdict(list)

    @contextmanager
    def visit(self, address: str, window: Window) -> Iterator[Visitor]:
        """A tab of a context that nobody else uses meanwhile, and in which nobody has left anything."""
        free = self._free[window]
        context = free.pop() if free else open_context(self._browser, window)
        page = context.new_page()
        try:
            yield Visitor(page, address.rstrip("/"))
        finally:
            if page.is_closed() or page.evaluate(_IS_STORED):
                context.close()
            else:
                page.close()
                context.clear_cookies()
                context.clear_permissions()
                free.append(context)
