"""A receiver of webhooks: it prints each event that it is sent, as a line of JSON, and takes it; SIGTERM ends it."""

import json
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for event in content if isinstance(content, list) else [content]:
            print(json.dumps(event), flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Its log holds events alone."""


def end(number: int, frame: FrameType | None) -> None:
    sys.exit(0)


signal.signal(signal.SIGTERM, end)  # the first process of a container is ended by no signal that it does not catch
ThreadingHTTPServer(("", 8080), Receiver).serve_forever()
