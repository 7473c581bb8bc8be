"""A collector of traces: it prints each request that it is sent, in base64 on a line of its own, and takes it."""

import base64
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Collector(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        print(self.path, base64.b64encode(content).decode(), flush=True)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Its log holds requests alone."""


ThreadingHTTPServer(("", 4318), Collector).serve_forever()
