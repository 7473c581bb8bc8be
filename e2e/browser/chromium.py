"""The browser: Debian's Chromium, driven by Playwright, which never downloads one of its own.

python -m e2e.browser.chromium installs it where it is missing.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from e2e.devcluster.building import packages
from e2e.devcluster.errors import ClusterError

PROGRAMS = ("chromium", "google-chrome", "chromium-browser")
"""Names under which people have it. Other distributions than Debian and those without root bring their own."""
PACKAGES = ("chromium", "fonts-inter")
"""With the font that pages ask for first: widths of texts, and so pictures, are then the same on each machine."""
LIBRARY, LIBRARY_PACKAGE = "libatomic.so.1", "libatomic1"
"""What the Node.js in Playwright's package needs, and neither that package nor Debian's smallest system has."""
SWITCHES = (
    # No calls home, and no component that updates itself meanwhile: a request that leaves is the page's own.
    "--disable-background-networking",
    "--disable-component-update",
    # The shared memory of a container is too small for it.
    "--disable-dev-shm-usage",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
)


def ensure_chromium() -> str:
    """Installs the browser, and what drives it, where they are missing; returns its path.

    Raises:
        ClusterError: We may not install it; the message holds the command to run.
    """
    path, is_driven = _find_chromium(), _has_library(LIBRARY)
    missing = [*(() if path else PACKAGES), *(() if is_driven else (LIBRARY_PACKAGE,))]
    if missing:
        try:
            packages.install(*missing)
            path = path or packages.program(PROGRAMS[0])
        except ClusterError as error:
            names = f"there is no {', '.join(PROGRAMS[:-1])} or {PROGRAMS[-1]} on PATH"
            lack = names if path is None else f"Playwright can't start without {LIBRARY}"
            raise ClusterError(f"{lack}, and it could not be installed: {error}") from error
    assert path is not None
    return path


def _has_library(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def _find_chromium() -> str | None:
    return next((path for name in PROGRAMS if (path := packages.find_program(name))), None)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser without a window, while the context lasts.

    Raises:
        ClusterError: It is missing, and we may not install it.
    """
    program = ensure_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(SWITCHES))
        try:
            yield browser
        finally:
            browser.close()


def main() -> int:
    """Makes sure of it; returns the exit code."""
    try:
        ensure_chromium()
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
