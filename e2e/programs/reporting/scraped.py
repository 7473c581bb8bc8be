"""Serves its metrics to Prometheus, and knows nothing of Podtune; it goes on once they were scraped twice."""

from __future__ import annotations

import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BASE = float(os.environ["BASE"])
METRICS = {"epoch": 0.0, 'value{split="val"}': 0.0}
SCRAPED = threading.Semaphore(0)


class Handler(BaseHTTPRequestHandler):
    """Answers as the client library of Prometheus does."""

    def do_GET(self) -> None:
        """Serves the metrics as they are."""
        text = "".join(f"# TYPE {name.partition('{')[0]} gauge\n{name} {value}\n" for name, value in METRICS.items())
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.end_headers()
        self.wfile.write(text.encode())
        SCRAPED.release()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def main() -> None:
    """Trains three epochs."""
    server = ThreadingHTTPServer(("", int(os.environ["PORT"])), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for epoch in (1, 2, 3):
        METRICS.update({"epoch": epoch, 'value{split="val"}': BASE - 1 / (epoch + 1)})
        for _ in range(4):  # one may have begun before, what is new is scraped twice, and then it is written
            SCRAPED.acquire()


main()
