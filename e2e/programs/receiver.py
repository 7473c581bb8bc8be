"""A receiver of webhooks: it prints each event that it is sent, as a line of JSON, and takes it."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for event in content if isinstance(content, list) else [content]:
            print(json.dumps(event), flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Its log holds events alone."""


ThreadingHTTPServer(("", 8080), Receiver).serve_forever()
