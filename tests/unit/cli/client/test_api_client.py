from __future__ import annotations

import json
import random
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from podtune.cli.client import api_client
from podtune.cli.client.api_client import WATCH_TRIES, Change, HttpApi
from podtune.cli.client.kubeconfig import ServerAccess
from podtune.cli.errors import explain_error
from podtune.kube import paths
from podtune.kube.errors import AnswerTooLarge, ApiRefusal, NotSent, ResourceNotFound, Unanswered, WrongObject
from podtune.kube.paths import PathError

Answer = tuple[int, bytes, dict[str, str]]


class Server:
    """An API server that answers what a test says, one after the other, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.changes: list[object] = []
        self.asked: list[tuple[str, dict[str, list[str]], dict[str, str]]] = []
        handler = type("Handler", (_Handler,), {"server_of_test": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def answers_with(self, body: object, status: int = 200, **headers: str) -> None:
        lines = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.answers.append((status, lines, headers))

    def streams(self, *events: dict[str, Any]) -> None:
        self.answers_with(b"".join(json.dumps(event).encode() + b"\n" for event in events))


class _Handler(BaseHTTPRequestHandler):
    server_of_test: Server

    def do_GET(self) -> None:
        split = urlsplit(self.path)
        self.server_of_test.asked.append((split.path, parse_qs(split.query), dict(self.headers)))
        status, body, headers = self.server_of_test.answers.pop(0)
        if status == 0:
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_DELETE(self) -> None:
        self.do_PATCH()

    def do_PATCH(self) -> None:
        self.server_of_test.changes.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """A test says what it wants to know."""


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.http.shutdown()
    server.http.server_close()
    thread.join()


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def api(server: Server, slept: list[float]) -> HttpApi:
    connection = ServerAccess(server.url, "vision", None, {"Authorization": "Bearer abc"})
    return HttpApi(connection, slept.append, random.Random(7))


def _item(name: str, version: int = 1) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def _page(*names: str, version: str = "10", more: str = "") -> dict[str, Any]:
    metadata = {"resourceVersion": version} | ({"continue": more} if more else {})
    return {"metadata": metadata, "items": [_item(name) for name in names]}


def test_an_object_is_read_with_our_credentials(api: HttpApi, server: Server) -> None:
    server.answers_with(_item("digits"))
    assert api.get("/apis/x", {"a": "b c"}) == _item("digits")
    path, query, headers = server.asked[0]
    assert (path, query) == ("/apis/x", {"a": ["b c"]})
    assert headers["Authorization"] == "Bearer abc"


@pytest.mark.parametrize(
    ("said", "read"),
    [("Thu, 01 Jan 2026 10:00:00 GMT", datetime(2026, 1, 1, 10, tzinfo=UTC)), ("soon", None), ("", None)],
)
def test_the_time_of_the_server_is_that_of_its_answer(
    said: str, read: datetime | None, api: HttpApi, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Handler, "date_time_string", lambda _self: said)
    server.answers_with({"gitVersion": "v1.34.4"})
    assert api.read_date() == read


def test_an_object_that_was_not_asked_for_is_not_taken_for_it(api: HttpApi, server: Server) -> None:
    server.answers_with({"kind": "Trial", "metadata": {"namespace": "other", "name": "digits-0"}})
    with pytest.raises(WrongObject, match="Trial vision/digits-0 was asked for"):
        api.get(paths.trial("vision", "digits-0"))


def test_a_path_that_leads_elsewhere_is_not_sent(api: HttpApi, server: Server) -> None:
    with pytest.raises(PathError, match="is not sent"):
        api.get("/api/v1/namespaces/vision/pods/../../other/secrets/s3")
    assert server.asked == []


def test_a_deletion_names_the_object_and_the_time_that_it_has(api: HttpApi, server: Server) -> None:
    for grace in (None, 0):
        server.answers_with({"kind": "Status"})
        api.delete("/api/v1/namespaces/vision/pods/digits-0-1", "uid-1", grace)
    preconditions = {"preconditions": {"uid": "uid-1"}}
    assert server.changes == [preconditions, {**preconditions, "gracePeriodSeconds": 0}]


def test_a_long_list_is_read_page_by_page(api: HttpApi, server: Server) -> None:
    server.answers_with(_page("a", "b", more="token"))
    server.answers_with(_page("c"))
    names = [item["metadata"]["name"] for item in api.list_all("/apis/x", {"labelSelector": "l"})]
    assert names == ["a", "b", "c"]
    assert [query.get("continue") for _, query, _ in server.asked] == [None, ["token"]]
    assert all(query["labelSelector"] == ["l"] for _, query, _ in server.asked)


def test_where_a_page_is_too_large_smaller_ones_are_asked_for(
    api: HttpApi, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_client, "MAX_ANSWER", 100)
    server.answers_with({"items": [{"n": "x" * 100}]})
    server.answers_with({"items": [{"n": 1}], "metadata": {"continue": "t"}})
    server.answers_with({"items": [{"n": 2}]})
    assert api.list_all(paths.trials("a")) == [{"n": 1}, {"n": 2}]
    assert [query["limit"] for _, query, _ in server.asked] == [["500"], ["62"], ["62"]]


def test_an_object_that_is_too_large_is_told(api: HttpApi, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_client, "MAX_ANSWER", 100)
    server.answers_with(b"x" * 101)
    with pytest.raises(AnswerTooLarge, match="has answered with more than"):
        api.get(paths.trials("a"))


def test_a_line_of_a_log_that_does_not_end_is_read_in_pieces(
    api: HttpApi, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_client, "MAX_LINE", 4)
    server.answers_with(b"abcdefg\nh\n")
    assert list(api.read_lines(paths.log_of(paths.pod("a", "p")))) == ["abcd", "efg", "h"]


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [
        (404, ResourceNotFound, 'trials "x" not found'),
        (403, ApiRefusal, 'the API server says 403: trials "x" not found'),
        (401, ApiRefusal, "log in again"),
    ],
)
def test_a_refusal_says_what_the_server_said(
    api: HttpApi, server: Server, status: int, kind: type[ApiRefusal], said: str
) -> None:
    server.answers_with({"kind": "Status", "message": 'trials "x" not found'}, status)
    with pytest.raises(kind) as raised:
        api.get("/apis/x")
    assert raised.value.status == status
    assert said in explain_error(raised.value)


def test_an_answer_that_is_no_status_is_shortened_to_one_line(api: HttpApi, server: Server) -> None:
    server.answers_with(b"<html>\n" + b"x" * 1000, 502)
    with pytest.raises(ApiRefusal) as raised:
        api.get("/apis/x")
    assert "\n" not in explain_error(raised.value)
    assert len(explain_error(raised.value)) < 300


def test_a_server_that_is_not_there_is_named(slept: list[float]) -> None:
    server = Server()
    server.http.server_close()
    with pytest.raises(NotSent, match=f"{server.url} can't be reached: .*Connection refused.*--context"):
        HttpApi(ServerAccess(server.url, "n", None)).get("/apis")


@pytest.mark.parametrize("body", [b"[]", b"hello", b""])
def test_something_that_is_no_api_server_is_told(api: HttpApi, server: Server, body: bytes) -> None:
    server.answers_with(body)
    with pytest.raises(Unanswered):
        api.get("/apis")


def test_our_token_is_not_carried_elsewhere(api: HttpApi, server: Server) -> None:
    server.answers_with(b"", 302, Location=f"{server.url}/elsewhere")
    with pytest.raises(ApiRefusal, match="302"):
        api.get("/apis")
    assert len(server.asked) == 1


def test_a_watch_goes_on_where_it_ended(api: HttpApi, server: Server, slept: list[float]) -> None:
    server.answers_with(_page("a", version="10"))
    server.streams({"type": "MODIFIED", "object": _item("a", 11)}, {"type": "BOOKMARK", "object": _item("", 15)})
    server.streams({"type": "DELETED", "object": _item("a", 16)})
    kinds = [change.kind for change in islice(api.watch("/apis/x", {"fieldSelector": "f"}), 5)]
    assert kinds == ["RELISTED", "ADDED", "SYNCED", "MODIFIED", "DELETED"]
    versions = [query.get("resourceVersion") for _, query, _ in server.asked]
    assert versions == [None, ["10"], ["15"]]
    assert all(query["fieldSelector"] == ["f"] for _, query, _ in server.asked)
    assert len(slept) == 1, "a pause before the watch is taken up again"


def test_a_watch_that_nobody_wants_any_more_is_not_taken_up_again(api: HttpApi, server: Server) -> None:
    server.answers_with(_page("a", version="10"))
    server.streams({"type": "BOOKMARK", "object": _item("", 15)})
    wanted = iter([True, True, False, False])
    assert [change.kind for change in api.watch("/apis/x", None, lambda: next(wanted))] == [
        "RELISTED",
        "ADDED",
        "SYNCED",
    ]
    assert server.answers == []


@pytest.mark.parametrize(
    "expired",
    [
        lambda server: server.answers_with({"message": "too old"}, 410),
        lambda server: server.streams({"type": "ERROR", "object": {"code": 410, "message": "too old"}}),
    ],
)
def test_a_watch_that_is_too_old_lists_again(api: HttpApi, server: Server, expired: Callable[[Server], None]) -> None:
    server.answers_with(_page("a"))
    expired(server)
    server.answers_with(_page("b"))
    changes = list(islice(api.watch("/apis/x"), 6))
    assert [change.kind for change in changes] == ["RELISTED", "ADDED", "SYNCED"] * 2
    assert changes[4] == Change("ADDED", _item("b"))


def test_a_broken_watch_is_taken_up_again_and_given_up_in_the_end(
    api: HttpApi, server: Server, slept: list[float]
) -> None:
    server.answers_with(_page())
    for _ in range(WATCH_TRIES):
        server.answers.append((0, b"", {}))
    with pytest.raises(Unanswered):
        list(api.watch("/apis/x"))
    assert len(slept) == WATCH_TRIES - 1
    assert slept == sorted(slept), "each wait is longer than the one before"
    assert server.answers == []


def test_a_watch_tells_that_it_was_interrupted_and_that_it_goes_on(api: HttpApi, server: Server) -> None:
    server.answers_with(_page("a", version="10"))
    server.answers += [(0, b"", {})] * 2
    server.streams()  # it is open again, and nothing has happened
    server.streams({"type": "MODIFIED", "object": _item("a", 11)})
    kinds = [change.kind for change in islice(api.watch("/apis/x"), 6)]
    assert kinds == ["RELISTED", "ADDED", "SYNCED", "INTERRUPTED", "RESUMED", "MODIFIED"]
    assert [query.get("resourceVersion") for _, query, _ in server.asked] == [None, *([["10"]] * 4)]


def test_a_silent_connection_is_probed_so_that_a_watch_does_not_wait_for_a_server_that_is_gone(
    api: HttpApi, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    probed: list[tuple[int, int]] = []
    probe = api_client._probe_peer

    def note(connection: socket.socket) -> None:
        probe(connection)
        options = (socket.SOL_SOCKET, socket.SO_KEEPALIVE), (socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
        alive, count = (connection.getsockopt(*option) for option in options)
        probed.append((alive, count))

    monkeypatch.setattr(api_client, "_probe_peer", note)
    server.answers_with(_item("digits"))
    api.get("/apis/x")
    assert probed == [(1, 3)]


def test_a_watch_lists_page_by_page(api: HttpApi, server: Server) -> None:
    server.answers_with(_page("a", more="token"))
    server.answers_with(_page("b", version="12"))
    server.streams({"type": "MODIFIED", "object": _item("a", 13)})
    kinds = [change.kind for change in islice(api.watch("/apis/x"), 5)]
    assert kinds == ["RELISTED", "ADDED", "ADDED", "SYNCED", "MODIFIED"]
    assert server.asked[-1][1]["resourceVersion"] == ["12"]


def test_a_forbidden_watch_is_not_tried_again(api: HttpApi, server: Server) -> None:
    server.answers_with(_page())
    server.answers_with({"message": "forbidden"}, 403)
    with pytest.raises(ApiRefusal, match="403"):
        list(api.watch("/apis/x"))


def test_a_log_is_read_line_by_line_whatever_is_in_it(api: HttpApi, server: Server) -> None:
    server.answers_with("epoch 1 ✓\n\nhalf".encode() + b"\xff")
    assert list(api.read_lines("/log", {"container": "trial"})) == ["epoch 1 ✓", "", "half\ufffd"]


def test_patch_changes_what_it_is_given(api: HttpApi, server: Server) -> None:
    server.answers_with({"metadata": {"name": "a"}})
    assert api.patch("/a", {"spec": {"suspend": True}}) == {"metadata": {"name": "a"}}
    assert server.changes == [{"spec": {"suspend": True}}]
    path, query, headers = server.asked[0]
    assert (path, query) == ("/a", {"fieldManager": ["kubectl-podtune"]})
    assert headers["Content-Type"] == "application/merge-patch+json"


def test_patch_says_why_the_server_refuses(api: HttpApi, server: Server) -> None:
    server.answers_with({"message": "a stopped trial can't be started again"}, 422)
    with pytest.raises(ApiRefusal, match="422 Unprocessable Entity: a stopped trial can't be started again"):
        api.patch("/a", {})
