"""The site of the documentation, as `make docs` has built it: from a folder of the disk, and from a server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from e2e.browser.serving import LOOPBACK

SITE = Path(__file__).parents[2] / "build" / "site"


class _SilentHandler(SimpleHTTPRequestHandler):
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Says nothing of requests."""


def find_site() -> str:
    """The address of the folder that the site is built into.

    Raises:
        FileNotFoundError: It is not built.
    """
    if not (SITE / "index.html").is_file():
        raise FileNotFoundError(f"{SITE} holds no site; build it: make docs")
    return SITE.as_uri()


@contextmanager
def serve_site() -> Iterator[str]:
    """Serves it on loopback while the context lasts; returns its address."""
    find_site()
    with ThreadingHTTPServer((LOOPBACK, 0), partial(_SilentHandler, directory=str(SITE))) as server:
        thread = threading.Thread(target=server.serve_forever, name="site")
        thread.start()
        try:
            yield f"http://{LOOPBACK}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
