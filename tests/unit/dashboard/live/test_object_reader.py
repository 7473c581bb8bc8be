"""What is read for a viewer on request."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from aiohttp.test_utils import make_mocked_request

from podtune.cli.client.api_client import HttpApi
from podtune.cli.client.kubeconfig import ServerAccess
from podtune.cli.client.resources import read_trial
from podtune.cli.errors import CliError
from podtune.dashboard.live import object_reader
from podtune.dashboard.live.object_reader import KubeconfigReader, TokenReader
from podtune.kube.errors import AnswerTimeout
from tests.unit.dashboard.archives import trial_body

POD = {
    "kind": "Pod",
    "metadata": {"name": "digits-0-1", "namespace": "team"},
    "spec": {"containers": [{"name": "trial"}]},
}
LINE = b"epoch 1\n"
WAIT = 30


@pytest.fixture(params=[b"", LINE], ids=["never", "no longer"])
def silent_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """Address of an API server that knows the pod, and says nothing of its log, or nothing after its first line."""
    said, is_over = request.param, threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if "/log?" not in self.path:
                self.answer(json.dumps(POD).encode())
                return
            if said:
                self.answer(said)
            is_over.wait(WAIT)

        def answer(self, body: bytes) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
    yield f"http://127.0.0.1:{server.server_port}"
    is_over.set()
    server.shutdown()
    server.server_close()


def test_a_log_that_is_silent_does_not_hold_its_thread(silent_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_reader, "LOG_SILENCE", 0.1)
    trial = read_trial(trial_body(0, state="RUNNING", attempt=1, pod={"name": "digits-0-1", "uid": "p-1", "node": "n"}))
    reader = KubeconfigReader(lambda: HttpApi(ServerAccess(silent_server, "team", None)))
    with pytest.raises(AnswerTimeout, match="no answer in time"):
        reader.read_log(make_mocked_request("GET", "/"), "team", trial, 0)


def test_nothing_is_read_for_who_has_no_token() -> None:
    def connect_as(token: str) -> None:
        raise AssertionError(f"{token} is nobody's")

    reader = TokenReader(connect_as)  # type: ignore[arg-type]
    with pytest.raises(CliError, match="with your own token"):
        reader.read_manifest(make_mocked_request("GET", "/"), "team", "digits-1")
