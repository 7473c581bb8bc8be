"""The agent's endpoint: answers on loopback what programs ask that know nothing of Podtune.

It listens on 127.0.0.1, so nobody outside the pod reaches it. Whoever asks has to send the pod's token all the same:
on a machine without a cluster, one trial must not report for another.
"""

from __future__ import annotations

import hmac
import json
import socket
import socketserver
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl

from podtune.agent.endpoint.mlflow_tracking import MlflowTracking
from podtune.agent.endpoint.requests import BadRequest, HttpAnswer, Request, Source
from podtune.agent.endpoint.results_writer import ResultsWriter
from podtune.agent.endpoint.trainer_status import TrainerStatus
from podtune.agent.event_log import EventLog, LogThrottle
from podtune.agent.settings import Settings
from podtune.protocol import agent_environment as env
from podtune.trial import layout

MAX_BODY = 1 << 20
"""Bytes that come with a request at most."""
_MAX_CONNECTIONS = 64
"""Those beyond are closed at once."""
_SECONDS = 30.0
"""How long a connection may stay silent."""
_CLOSING_POLL = 0.1
"""Seconds from one look whether it is closed to the next: the end of a trial waits for that."""
_LOOPBACK = "127.0.0.1"
_BEARER = "Bearer "


class Endpoint:
    """Answers programs from `start` to `close`, in threads of its own."""

    def __init__(
        self,
        settings: Settings,
        log: EventLog,
        port: int = env.ENDPOINT_PORT,
        make_source: Callable[[str, Settings, ResultsWriter], Source] | None = None,
    ) -> None:
        """Takes the port.

        Args:
            settings: The attempt's.
            log: Where to tell of requests that are refused.
            port: On loopback; 0 is any that is free.
            make_source: Makes what speaks the protocol of one kind of programs; `make_agent_source` by default.

        Raises:
            OSError: It can't be had.
        """
        self._directory = settings.directory
        self._token = settings.endpoint_token
        self._writer = ResultsWriter(settings.directory)
        make = make_source or make_agent_source
        sources = [make(name, settings, self._writer) for name in settings.sources]
        self._server = _Server((_LOOPBACK, port), _Handler, sources, settings.endpoint_token, log)

    @property
    def address(self) -> str:
        """Its URL."""
        return f"http://{_LOOPBACK}:{self._server.server_address[1]}"

    def start(self) -> None:
        """Answers from now on, and leaves the token where programs find it.

        Raises:
            OSError: The token can't be written.
        """
        serve = self._server.serve_forever
        threading.Thread(target=serve, args=(_CLOSING_POLL,), name="endpoint", daemon=True).start()
        self._directory.replace_file(layout.ENDPOINT_TOKEN, self._token.encode())

    def close(self) -> None:
        """Waits for what is being written, and answers no more."""
        self._writer.close()
        self._server.shutdown()
        self._server.server_close()


def make_agent_source(name: str, settings: Settings, writer: ResultsWriter) -> Source:
    """Makes what speaks the protocol of one kind of programs, by the name of its field in `results`."""
    if name == env.MLFLOW:
        return MlflowTracking(settings.directory, settings.objective, writer)
    path = env.TRAINER_STATUS_ROUTE.format(namespace=settings.namespace, trial=settings.trial)
    return TrainerStatus(path, settings.objective, writer)


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Gives each connection a thread, and only so many."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = _MAX_CONNECTIONS

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BaseHTTPRequestHandler],
        sources: Sequence[Source],
        token: str,
        log: EventLog,
    ) -> None:
        self.sources = sources
        self.token = token.encode()
        self.log = log
        self.refused = LogThrottle()
        self._free = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        super().__init__(address, handler)

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        """Begins a thread, unless there are too many."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started
            self._free.release()
            raise

    def process_request_thread(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        """Serves a connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


class _Handler(BaseHTTPRequestHandler):
    """Reads the requests of one connection."""

    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = _SECONDS

    def __getattr__(self, name: str) -> Any:
        """All methods of HTTP come to one place."""
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Programs that ask are no news."""

    def handle(self) -> None:
        """Serves the connection, until its other end has gone."""
        try:
            super().handle()
        except ConnectionError:
            self.close_connection = True

    def _serve(self) -> None:
        path, _, query = self.path.partition("?")
        source = next((source for source in self.server.sources if source.is_asked(path)), None)
        problem = self._find_problem()
        if problem is not None:
            self.close_connection = True  # what came with it was not read
            self._refuse(source, *problem)
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if source is None:
            self._refuse(source, 404, f"{path} is not known here")
            return
        request = Request(self.command, path, dict(parse_qsl(query)), body)
        try:
            self._send(source.answer(request))
        except BadRequest as error:
            self._refuse(source, 400, str(error))
        except ConnectionError:
            raise
        except OSError as error:
            self._refuse(source, 503, f"the result can't be written: {error}")

    def _find_problem(self) -> tuple[int, str] | None:
        """Why a request is not taken, before anything of its body is read."""
        given = self.headers.get("Authorization") or ""
        if not given.startswith(_BEARER) or not hmac.compare_digest(
            given.removeprefix(_BEARER).strip().encode(), self.server.token
        ):
            return 401, f"the token is missing or wrong; send that of $PODTUNE_DIR/{layout.ENDPOINT_TOKEN}"
        if self.headers.get("Transfer-Encoding"):
            return 411, "the length of the body is missing; send Content-Length"
        length = self.headers.get("Content-Length") or "0"
        if not length.isdecimal() or not length.isascii():
            return 400, f"Content-Length is {length!r:.40}, not a whole number"
        if len(length) > 18 or int(length) > MAX_BODY:
            return 413, f"the body is longer than {MAX_BODY} bytes; send less at once"
        return None

    def _refuse(self, source: Source | None, status: int, problem: str) -> None:
        self._send(source.refuse(status, problem) if source else HttpAnswer(status, {"message": problem}))

    def _send(self, answer: HttpAnswer) -> None:
        if answer.status >= HTTPStatus.BAD_REQUEST and self.server.refused.should_log():  # programs often say nothing
            self.server.log.warning(
                "request refused",
                status=int(answer.status),
                method=self.command,
                path=self.path[:200],
                message=str(answer.content.get("message", "")),
                times=self.server.refused.count,
            )
        content = json.dumps(answer.content).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
