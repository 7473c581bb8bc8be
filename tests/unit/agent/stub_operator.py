"""A stand-in for the operator's results server: takes results in order, and fails when it is told to."""

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import parse_qsl, urlsplit

from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.messages import LedgerLine, Reply, Report, Result, parse_report
from podtune.protocol.snapshot import WARM_START, SnapshotRecord, StoredVersions
from podtune.protocol.tracking import RunFacts

OK, BUSY, LOST_REQUEST, LOST_REPLY, FENCED, NO_TOKEN, GARBLED = (
    "ok", "busy", "lost request", "lost reply", "fenced", "no token", "garbled",
)  # fmt: skip


class StubOperator:
    """Keeps what it takes in by seq; `faults` are used up one a request, then all goes well.

    Its port stays its own when it is closed, until it is released: nobody else answers an agent that goes on asking.
    """

    def __init__(self, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self._port_holder = _hold_port(port)
        self.results: dict[int, Result] = {}
        self.taken: list[int] = []  # seqs, in the order in which they were taken in
        self.reports: list[Report] = []
        self.commits: dict[str, CheckpointRef] = {}
        self.faults: list[str] = []
        self.durable_seq: int | None = None  # None: as far as acked
        self.acks_commits = True
        self.decision: Literal["CONTINUE", "PAUSE", "STOP"] = "CONTINUE"
        self.should_checkpoint = False
        self.kept: tuple[str, ...] | None = None
        self.discards = False
        self.ledger: list[LedgerLine] = []
        self.records: list[SnapshotRecord] = []
        self.run: RunFacts | None = None
        self.token = "secret"
        self.log_refusals: list[int] = []  # statuses, used up one a request
        self.log_lines: Callable[[Mapping[str, str]], Iterable[bytes]] = lambda query: ()
        self.before_log: Callable[[Mapping[str, str]], None] = lambda query: None
        self.changed = threading.Condition()
        self._server = ThreadingHTTPServer(self._port_holder.getsockname(), self._handler())
        self._server.daemon_threads = True
        self._scheme = "http"
        if tls is not None:
            self._scheme = "https"
            # Each connection's handshake in its own thread: one that fails is no matter of the others.
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._connections: list[socket.socket] = []
        threading.Thread(target=lambda: self._server.serve_forever(poll_interval=0.01), daemon=True).start()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    @property
    def acked_seq(self) -> int:
        seq = 0
        while seq + 1 in self.results:
            seq += 1
        return seq

    def forget_after(self, seq: int) -> None:
        """What an operator that starts anew does with results that were not durable."""
        with self.changed:
            for number in [number for number in self.results if number > seq]:
                del self.results[number]

    def wait_for(self, condition: Callable[[], object], seconds: float = 60.0) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, seconds), "the stub operator waited in vain"

    def wait_for_results(self, count: int) -> None:
        self.wait_for(lambda: self.acked_seq == count)

    def wait_for_commits(self, count: int) -> None:
        self.wait_for(lambda: len(self.commits) == count)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        for connection in self._connections:
            with suppress(OSError):  # it has been closed already
                connection.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """Closes it for good."""
        self.close()
        self._port_holder.close()

    def take(self, report: Report) -> Reply:
        with self.changed:
            self.reports.append(report)
            for result in report.results:
                if result.seq == self.acked_seq + 1:
                    self.results[result.seq] = result
                    self.taken.append(result.seq)
            for commit in report.checkpoints:
                self.commits[commit.checkpoint.uri] = commit.checkpoint
            self.changed.notify_all()
            return Reply(
                acked_seq=self.acked_seq,
                durable_seq=self.acked_seq if self.durable_seq is None else self.durable_seq,
                acked_checkpoints=tuple(self.commits) if self.acks_commits else (),
                decision=self.decision,
                should_checkpoint=self.should_checkpoint,
                kept=self.kept,
                discards=self.discards,
                ledger=tuple(entry for entry in self.ledger if entry.number > report.ledger),
                records=tuple(self._list_newer(report.stored)) if report.stored else (),
                run=self.run,
            )

    def _list_newer(self, stored: StoredVersions) -> Iterator[SnapshotRecord]:
        for record in self.records:
            if record.trial == WARM_START or stored.lacks_warm_start:
                if record.trial == WARM_START and stored.lacks_warm_start:
                    yield record
            elif record.version > (stored.trial if record.trial else stored.experiment):
                yield record

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # as in the operator

            def setup(self) -> None:
                stub._connections.append(self.request)
                super().setup()

            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with stub.changed:
                    fault = stub.faults.pop(0) if stub.faults else OK
                if self.headers["Authorization"] != f"Bearer {stub.token}" or fault == NO_TOKEN:
                    return self._answer(401, b"who are you?")
                if fault == BUSY:
                    return self._answer(503, b"not the leader", {"Retry-After": "0"})
                if fault == FENCED:
                    return self._answer(409, b"another attempt is current")
                if fault == LOST_REQUEST:
                    self.close_connection = True
                    return None
                reply = stub.take(parse_report(body)).to_json()
                if fault == LOST_REPLY:
                    self.close_connection = True
                    return None
                return self._answer(200, b"{" if fault == GARBLED else reply)

            def do_GET(self) -> None:
                query = dict(parse_qsl(urlsplit(self.path).query))
                stub.before_log(query)
                if stub.log_refusals:
                    return self._answer(stub.log_refusals.pop(0), b"ask again", {"Retry-After": "1"})
                with suppress(BrokenPipeError):  # the agent has gone away
                    self.send_response(200)
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    for line in stub.log_lines(query):
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                        self.wfile.flush()
                    self.wfile.write(b"0\r\n\r\n")
                return None

            def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

        return Handler


def _hold_port(port: int) -> socket.socket:
    """A socket that is bound and does not listen: others that want any port get another one."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the server, which has it too, may have the same port
    holder.bind(("127.0.0.1", port))
    return holder


def wait_until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Polls for something that another thread brings about."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def dumps(**values: object) -> bytes:
    return json.dumps(values).encode() + b"\n"
