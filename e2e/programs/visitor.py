"""A pod of a tenant that is no trial's, and what it tries on a server of the operator's; it prints what came of it.

URL      where the server is
POSTS    reports to post, as JSON: a list of {path, token, body}
SILENT   so many connections are opened that never send a whole request (0)
"""

import http.client
import json
import os
import resource
import select
import socket
import time
from urllib.parse import urlsplit

PATIENCE = 120.0


def post(path: str, token: str, body: object) -> dict[str, object]:
    connection = http.client.HTTPConnection(SERVER[0], SERVER[1], timeout=10)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connection.request("POST", path, json.dumps(body), headers)
    answer = connection.getresponse()
    return {"status": answer.status, "text": answer.read().decode()}


def stay_silent(count: int) -> dict[str, object]:
    """How long each connection that was closed had been let, and how many are open at the end.

    One of them sends its headers byte by byte.
    """
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    begun = time.monotonic()
    waiting = select.poll()
    opened = {}
    since = {}
    for _ in range(count):
        connection = socket.create_connection(SERVER, timeout=10)
        opened[connection.fileno()] = connection
        since[connection.fileno()] = time.monotonic()
        waiting.register(connection, select.POLLIN)
    slow = next(iter(opened.values()), socket.socket())
    if opened:
        slow.sendall(b"POST / HTTP/1.1\r\n")
    closed = []
    while opened and time.monotonic() < begun + PATIENCE:
        for file, _ in waiting.poll(500):
            waiting.unregister(file)
            opened.pop(file).close()
            closed.append(time.monotonic() - since[file])
        if slow.fileno() in opened:
            try:
                slow.sendall(b"X")
            except OSError:
                continue  # the next poll sees it
    return {"closed": closed, "open": len(opened)}


url = urlsplit(os.environ["URL"])
SERVER = (url.hostname or "", url.port or 80)
answers = [post(**one) for one in json.loads(os.environ.get("POSTS", "[]"))]
print(json.dumps({"answers": answers, **stay_silent(int(os.environ.get("SILENT", "0")))}), flush=True)
