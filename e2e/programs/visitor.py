"""A pod of a tenant that is no trial's, and what it tries on a server of the operator's; it prints what came of it.

URL      where the server is, by TLS
CA       certificates of the authorities that it is believed by
OTHER_CA certificate of an authority that it must not be believed by; unset: it is not tried
PLAIN    a port where there may be a server of plain HTTP; unset: it is not tried
ASKS     what to ask there, as JSON: a list of {path, token, body}; what has no body is a GET
METRICS  where the operator's metrics are, by TLS, with the certificate of the server of URL
GETS     what to get there, as JSON: a list of {path, token}
SILENT   so many connections are opened that never send a whole request (0)
"""

import http.client
import json
import os
import resource
import select
import socket
import ssl
import time
from urllib.parse import urlsplit

PATIENCE = 120.0


def ask(path: str, token: str, body: object = None) -> dict[str, object]:
    """Posts a report, or asks for a log; one that is given comes to no end, and has the visitor fail."""
    trust = ssl.create_default_context(cadata=os.environ["CA"])
    connection = http.client.HTTPSConnection(SERVER[0], SERVER[1], timeout=10, context=trust)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    method, data = ("POST", json.dumps(body)) if body is not None else ("GET", None)
    connection.request(method, path, data, headers)
    answer = connection.getresponse()
    return {"status": answer.status, "text": answer.read().decode()}


def get(path: str, token: str) -> dict[str, object]:
    """Asks for metrics, as Prometheus does: the server has another address than the name in its certificate."""
    place = urlsplit(os.environ["METRICS"])
    trust = ssl.create_default_context(cadata=os.environ["CA"])
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=10)
    connection.connect()
    connection.sock = trust.wrap_socket(connection.sock, server_hostname=SERVER[0])
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
    answer = connection.getresponse()
    return {"status": answer.status, "text": answer.read().decode()}


def connect(authority: str) -> str:
    """The version of TLS that a client who believes one authority agrees on, or why the certificate is not believed."""
    trust = ssl.create_default_context(cadata=authority)
    try:
        plain = socket.create_connection(SERVER, timeout=10)
        with plain, trust.wrap_socket(plain, server_hostname=SERVER[0]) as secured:
            return str(secured.version())
    except ssl.SSLCertVerificationError as error:
        return error.verify_message


def connect_plainly(port: int) -> str:
    try:
        socket.create_connection((SERVER[0], port), timeout=5).close()
    except OSError as error:
        return type(error).__name__
    return "connected"


def stay_silent(count: int) -> dict[str, object]:
    """How long each connection that was closed had been let, and how many are open at the end.

    One of them sends its headers byte by byte.
    """
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    begun = time.monotonic()
    waiting = select.poll()
    opened = {}
    since = {}
    address = socket.gethostbyname(SERVER[0])  # once: all have to be open before the first has had its time
    for _ in range(count):
        connection = socket.create_connection((address, SERVER[1]), timeout=10)
        opened[connection.fileno()] = connection
        since[connection.fileno()] = time.monotonic()
        waiting.register(connection, select.POLLIN)
    slow = next(iter(opened.values()), socket.socket())
    if opened:
        slow.sendall(b"\x16\x03\x01\x02\x00")  # the handshake's first message has 512 bytes
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
SERVER = (url.hostname or "", url.port or 443)
answers = [ask(**one) for one in json.loads(os.environ.get("ASKS", "[]"))]
told = {
    "answers": answers,
    "metrics": [get(**one) for one in json.loads(os.environ.get("GETS", "[]"))],
    **stay_silent(int(os.environ.get("SILENT", "0"))),
}
if other := os.environ.get("OTHER_CA"):
    told |= {"believed": connect(os.environ["CA"]), "not believed": connect(other)}
if port := os.environ.get("PLAIN"):
    told["plain"] = connect_plainly(int(port))
print(json.dumps(told), flush=True)
