"""The local cluster's dashboard, on a port of this machine's loopback until it is interrupted.

python -m e2e.dashboard
"""

from __future__ import annotations

import re
import select
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType

from e2e.devcluster import Cluster
from e2e.devcluster.errors import ClusterError
from e2e.install import OPERATOR_NAMESPACE, RELEASE

PORT = 8480
"""Where it is, unless another program is there."""
OPEN: Mapping[str, str | int] = MappingProxyType({"dashboard.enabled": True, "dashboard.open": True})
"""Values of the chart: all may see all, which is nothing that matters in a cluster on one's own machine."""
_CHUNK = 1 << 16


@contextmanager
def forward(cluster: Cluster, service: str, namespace: str) -> Iterator[int]:
    """Has `kubectl port-forward` lead to a Service's port `http`; yields the port on the cluster's network's loopback.

    Raises:
        ClusterError: There is no such Service, or no pod behind it that is ready.
    """
    command = ["kubectl", "-n", namespace, "port-forward", "--address=127.0.0.1", f"service/{service}", ":http"]
    with cluster.popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            found = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
            if found is None:
                raise ClusterError(f"{' '.join(command)}: {process.stderr.read().strip()}")
            # It writes a line for each connection, and would wait for a reader.
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield int(found[1])
        finally:
            process.terminate()


@contextmanager
def open_dashboard(cluster: Cluster) -> Iterator[str]:
    """Yields the address of the installed dashboard for a browser on this machine.

    Raises:
        ClusterError: It is not installed.
    """
    with (
        forward(cluster, f"{RELEASE}-dashboard", OPERATOR_NAMESPACE) as inner,
        _listen(_make_handler(cluster, inner)) as server,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()


class _Server(socketserver.ThreadingTCPServer):
    """Takes connections on this machine's network: browsers are not on the cluster's."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True


def _listen(handler: type[socketserver.BaseRequestHandler]) -> _Server:
    with suppress(OSError):
        return _Server(("127.0.0.1", PORT), handler)
    return _Server(("127.0.0.1", 0), handler)


def _make_handler(cluster: Cluster, port: int) -> type[socketserver.BaseRequestHandler]:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with cluster.inside():  # a socket stays on the network on which it was made
                there = socket.create_connection(("127.0.0.1", port))
            with there:
                _relay(self.request, there)

    return Handler


def _relay(here: socket.socket, there: socket.socket) -> None:
    """Passes on what each says to the other, until one of them is done."""
    others = {here: there, there: here}
    with suppress(ConnectionError):
        while True:
            readable, _, _ = select.select(list(others), [], [])
            for speaker in readable:
                said = speaker.recv(_CHUNK)
                if not said:
                    return
                others[speaker].sendall(said)


def main() -> int:
    """Serves it; returns the exit code."""
    try:
        with open_dashboard(Cluster.connect()) as address, suppress(KeyboardInterrupt):
            print(address, flush=True)
            threading.Event().wait()
    except ClusterError as error:
        print(f"error: {error}; `make demo` installs it", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
