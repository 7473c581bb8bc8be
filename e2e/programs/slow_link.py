"""Passes connections on to a server, what it is sent no faster than so many bytes a second each.

TARGET          host:port of the server
BYTES_A_SECOND  how fast
"""

import contextlib
import os
import socket
import threading
import time

PORT = 9000
CHUNK = 64 * 1024


def pass_on(source: socket.socket, sink: socket.socket, pause: float) -> None:
    try:
        while data := source.recv(CHUNK):
            sink.sendall(data)
            time.sleep(pause * len(data) / CHUNK)
    except OSError:
        pass
    for side in (source, sink):
        with contextlib.suppress(OSError):
            side.shutdown(socket.SHUT_RDWR)


def main() -> None:
    host, port = os.environ["TARGET"].rsplit(":", 1)
    pause = CHUNK / float(os.environ["BYTES_A_SECOND"])
    listener = socket.create_server(("", PORT))
    while True:
        client, _ = listener.accept()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CHUNK)
        server = socket.create_connection((host, int(port)))
        threading.Thread(target=pass_on, args=(client, server, pause), daemon=True).start()
        threading.Thread(target=pass_on, args=(server, client, 0.0), daemon=True).start()


main()
