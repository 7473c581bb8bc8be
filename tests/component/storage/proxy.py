"""An HTTP proxy that does harm: it stands between the agent's storage layer and a real S3 server."""

import http.client
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

Fault = Callable[["Exchange"], None]


class Exchange:
    """One request, and what is done to it. Faults change it.

    Attributes:
        status: Answered instead of asking the server, when it is set.
        lost: The server is asked, and its answer is lost.
        cut: Half of the answer's body is sent, then the connection is closed.
        flipped: One bit of the answer's body is another one.
        damaged: One bit of the request's body is another one.
    """

    def __init__(self, method: str, target: str) -> None:
        self.method = method
        self.target = target
        self.status: int | None = None
        self.lost = self.cut = self.flipped = self.damaged = False


class Proxy:
    """Passes requests on; `faults` are asked about each one."""

    def __init__(self, server: str) -> None:
        self.faults: list[Fault] = []
        self.seen: list[Exchange] = []
        self._server = urlsplit(server)
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # head and body are written one after the other

            def do_GET(self) -> None:
                outer._handle(self)

            do_PUT = do_POST = do_DELETE = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        exchange = Exchange(handler.command, handler.path)
        with self._lock:
            self.seen.append(exchange)
            for fault in self.faults:
                fault(exchange)
        if exchange.status is not None:
            self._answer(handler, exchange.status, {"Content-Length": "0"}, b"")
            return
        status, headers, content = self._pass_on(handler, _flip(body) if exchange.damaged else body)
        if exchange.lost:
            handler.close_connection = True
            return
        if exchange.cut:
            handler.close_connection = True
            self._answer(handler, status, headers, content[: len(content) // 2])
            return
        self._answer(handler, status, headers, _flip(content) if exchange.flipped else content)

    def _pass_on(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self._server.hostname or "", self._server.port, timeout=30)
        try:
            connection.putrequest(handler.command, handler.path, skip_host=True, skip_accept_encoding=True)
            for name, value in handler.headers.items():
                if name.lower() not in ("connection", "expect"):
                    connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            content = answer.read()
            headers = {name: value for name, value in answer.getheaders() if name.lower() != "transfer-encoding"}
            return answer.status, headers | {"Content-Length": str(len(content))}, content
        finally:
            connection.close()

    def _answer(self, handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], content: bytes) -> None:
        handler.send_response_only(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(content)
        handler.wfile.flush()


def _flip(content: bytes) -> bytes:
    if not content:
        return content
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def times(count: int, matches: Callable[[Exchange], bool], change: Callable[[Exchange], None]) -> Fault:
    """A fault that befalls the first so many requests that match."""
    left = [count]

    def fault(exchange: Exchange) -> None:
        if left[0] > 0 and matches(exchange):
            left[0] -= 1
            change(exchange)

    return fault
