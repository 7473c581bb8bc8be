"""A web server whose answers are scripted, and that remembers what it was asked."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class RecordedRequest:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Answer = tuple[int, dict[str, str], bytes]  # status, headers, body


@dataclass
class WebServer:
    """Answers by `answer(asked)`: status, headers, body; a status of 0 hangs up without an answer.

    HEAD is unknown to it unless `answers_head` is set: the AWS SDK asks by it for a region, again and again.
    """

    answer: Callable[[RecordedRequest], Answer] = lambda asked: (200, {}, b"")
    asked: list[RecordedRequest] = field(default_factory=list)
    answers_head: bool = False

    def __post_init__(self) -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # head and body are written one after the other

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = RecordedRequest(self.command, self.path, headers, body)
                outer.asked.append(asked)
                status, headers, content = outer.answer(asked)
                if not status:
                    self.close_connection = True
                    return
                self.send_response(status)
                headers.setdefault("Content-Length", str(len(content)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command == "HEAD":
                    return
                self.wfile.write(content)
                if int(headers["Content-Length"]) != len(content):
                    self.close_connection = True

            do_GET = do_PUT = do_POST = do_DELETE = handle_any

            def do_HEAD(self) -> None:
                self.handle_any() if outer.answers_head else self.send_error(501)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
