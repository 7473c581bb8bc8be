"""Objects are read from an API server over TLS, and look as kubectl writes them."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from e2e.api_reader import ApiReader
from e2e.devcluster.errors import ClusterError
from tests.unit.dashboard.server.test_proxy_over_tls import OPENSSL, make_certificate

pytestmark = pytest.mark.skipif(not OPENSSL, reason="its certificates are made with openssl")
PODS = "/api/v1/namespaces/team/pods"
TRIALS = "/apis/podtune.dev/v1alpha1/namespaces/team/trials"
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        found: dict[str, Any] = {
            f"{PODS}/a": POD,
            PODS: {"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}}]},
            TRIALS: {"apiVersion": "podtune.dev/v1alpha1", "kind": "TrialList", "items": [parse_qs(asked.query)]},
        }
        answer = found.get(asked.path)
        self.send_response(404 if answer is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(answer or {"message": "there is no such pod"}).encode())

    def log_message(self, *_: object) -> None:
        """A test says what it wants to know."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadingHTTPServer]:
    """One that asks for its client's certificate."""
    certificate = make_certificate(tmp_path, "server")
    client = make_certificate(tmp_path, "client")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=client)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    context.verify_mode = ssl.CERT_REQUIRED
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def reader(server: ThreadingHTTPServer, tmp_path: Path) -> ApiReader:
    address = f"https://127.0.0.1:{server.server_port}"
    user = {"client-certificate": "client.crt", "client-key": "client.key"}
    config = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": address, "certificate-authority": "server.crt"}}],
        "users": [{"name": "it", "user": user}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    cluster: Any = SimpleNamespace(kubeconfig=tmp_path / "kubeconfig", inside=nullcontext)
    return ApiReader(cluster)


def test_objects_have_their_kind_in_lists_too(reader: ApiReader) -> None:
    assert reader.get("team", "pods", "a") == POD
    assert reader.list("team", "pods") == [POD]


def test_a_selector_chooses_and_groups_have_paths_of_their_own(reader: ApiReader) -> None:
    (found,) = reader.list("team", "trials.podtune.dev", "podtune.dev/experiment=a,podtune.dev/trial")
    assert (found["apiVersion"], found["kind"]) == ("podtune.dev/v1alpha1", "Trial")
    assert found["labelSelector"] == ["podtune.dev/experiment=a,podtune.dev/trial"]


def test_what_is_not_there_is_an_error_that_says_so(reader: ApiReader, server: ThreadingHTTPServer) -> None:
    with pytest.raises(ClusterError, match=f"GET {PODS}/b: 404 .*there is no such pod"):
        reader.get("team", "pods", "b")
    server.shutdown()
    server.server_close()
    with pytest.raises(ClusterError, match=f"GET {PODS}: "):
        reader.list("team", "pods")


def test_other_kinds_are_left_to_kubectl() -> None:
    assert not ApiReader.knows("networkpolicies")
