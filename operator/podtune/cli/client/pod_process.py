"""A process in a container, started by way of the API server: its standard input and output over a WebSocket.

This is what `kubectl exec` does. It takes the same rights, and no other network than that to the API server.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from podtune.cli.client.kubeconfig import ServerAccess
from podtune.kube.answers import parse_refusal
from podtune.kube.paths import check_path, exec_in
from podtune.storage.volume.remote_store import ConnectionLost

if TYPE_CHECKING:
    from websocket import WebSocket

_PROTOCOL = "v4.channel.k8s.io"
_STDIN, _STDOUT, _STDERR, _OUTCOME = range(4)
"""The first byte of each message says which of these it is of."""
_TIMEOUT = 120.0
"""Seconds in which the other side must say something that it was asked for."""
_KEPT_ERRORS = 2000
"""Bytes of standard error that are kept, for the message."""
_NO_REDIRECTS = 0
"""An API server does not send us elsewhere, and elsewhere must not get our token."""


class PodProcess:
    """A process that runs in a container; see `ReaderConnection`."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._unread = bytearray()
        self._errors = b""
        self._has_ended = False

    def write(self, data: bytes) -> None:
        """See `ReaderConnection.write`."""
        from websocket import WebSocketException  # noqa: PLC0415 - only who reads a volume needs it

        try:
            self._socket.send_binary(bytes([_STDIN]) + data)
        except (OSError, WebSocketException) as error:
            raise ConnectionLost(self._explain(str(error))) from error

    def readline(self, size: int, /) -> bytes:
        """See `LineSource.readline`."""
        seen = 0
        while (end := self._unread.find(b"\n", seen, size)) < 0 and len(self._unread) < size:
            seen = len(self._unread)
            if not self._receive():
                end = len(self._unread) - 1
                break
        return self._take(end + 1 if end >= 0 else min(size, len(self._unread)))

    def read(self, size: int, /) -> bytes:
        """See `LineSource.read`."""
        while len(self._unread) < size and self._receive():
            pass
        return self._take(size)

    def close(self) -> None:
        """See `ReaderConnection.close`."""
        self._has_ended = True
        self._socket.shutdown()  # type: ignore[no-untyped-call]

    def _take(self, size: int) -> bytes:
        taken = bytes(self._unread[:size])
        del self._unread[:size]
        return taken

    def _receive(self) -> bool:
        """Waits for a message; returns whether there may be another after it."""
        from websocket import ABNF, WebSocketException  # noqa: PLC0415 - only who reads a volume needs it

        if self._has_ended:
            return False
        try:
            operation, message = self._socket.recv_data()
        except (OSError, WebSocketException) as error:
            raise ConnectionLost(self._explain(str(error) or "no answer in time")) from error
        if operation == ABNF.OPCODE_CLOSE:
            raise ConnectionLost(self._explain("the API server has ended the connection"))
        channel, data = message[:1], message[1:]
        if channel == bytes([_STDOUT]):
            self._unread += data
        elif channel == bytes([_STDERR]):
            self._errors = (self._errors + data)[-_KEPT_ERRORS:]
        elif channel == bytes([_OUTCOME]):
            self._has_ended = True
            outcome = _parse_outcome(data)
            if outcome:
                raise ConnectionLost(self._explain(outcome))
        return True

    def _explain(self, problem: str) -> str:
        said = " ".join(self._errors.decode(errors="replace").split())
        return f"{problem} ({said})" if said else problem


def start_process(access: ServerAccess, pod_path: str, container: str, command: Sequence[str]) -> PodProcess:
    """Starts a process in a container.

    Raises:
        ApiRefusal: The server refuses, for lack of rights perhaps.
        ConnectionLost: It does not answer.
    """
    from websocket import WebSocketBadStatusException, WebSocketException, create_connection  # noqa: PLC0415

    query = urlencode(
        [
            ("container", container),
            *(("command", word) for word in command),
            *((stream, "true") for stream in ("stdin", "stdout", "stderr")),
        ]
    )
    url = f"{access.server}{check_path(exec_in(pod_path))}?{query}"
    options = _build_options(access)
    try:
        return PodProcess(create_connection(f"ws{url.removeprefix('http')}", _TIMEOUT, **options))
    except WebSocketBadStatusException as error:
        body = error.resp_body or b""
        raise parse_refusal(error.status_code, body if isinstance(body, bytes) else body.encode()) from error
    except (OSError, WebSocketException, http.client.HTTPException) as error:
        raise ConnectionLost(f"{access.server} does not start a process in the pod: {error}") from error


def _build_options(access: ServerAccess) -> dict[str, Any]:
    options: dict[str, Any] = {
        "subprotocols": [_PROTOCOL],
        "header": [f"{name}: {value}" for name, value in access.headers.items()],
        "redirect_limit": _NO_REDIRECTS,
        "suppress_origin": True,
        "skip_utf8_validation": True,
    }
    if isinstance(access.tls, ssl.SSLContext):
        options["sslopt"] = {"context": access.tls}
    if access.proxy:
        proxy = urlsplit(access.proxy)
        options |= {"http_proxy_host": proxy.hostname, "http_proxy_port": proxy.port}
        if proxy.username:
            options["http_proxy_auth"] = (proxy.username, proxy.password or "")
    return options


def _parse_outcome(data: bytes) -> str:
    """Why the process has ended; empty where all went well."""
    try:
        status = json.loads(data)
    except ValueError:
        return f"the process has ended: {data!r:.200}"
    if not isinstance(status, dict) or status.get("status") == "Success":
        return ""
    return str(status.get("message") or "the process has failed")
