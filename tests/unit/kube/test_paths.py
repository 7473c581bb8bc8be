from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from podtune.kube import paths
from podtune.kube.paths import PathError

SOURCE = Path(paths.__file__).parents[1]
NO_REQUESTS = (
    "agent/endpoint/",
    "agent/trackers/mlflow_client.py",
    "local/detection/recorded_requests.py",
    "protocol/agent_environment.py",
    "webhooks/events.py",
)
"""Routes in here are those of other servers, or the source that an event names: none is asked of the API server."""
WRONG = [
    "",
    ".",
    "..",
    "../../other/trials/victim-0",
    "../trials?watch=1&n=0",
    "a/b",
    "a%2Fb",
    "%2e%2e",
    "a?limit=1",
    "a#b",
    "a..b",
    "-a",
    "a-",
    "A",
    "a b",
    "a\n",
    "é",
    "a" * 254,
]


def test_paths_as_the_api_server_has_them() -> None:
    assert paths.experiments() == "/apis/podtune.dev/v1alpha1/experiments"
    assert paths.trial("team-a", "digits-0") == "/apis/podtune.dev/v1alpha1/namespaces/team-a/trials/digits-0"
    assert paths.log_of(paths.pod("team-a", "digits-0-1")) == "/api/v1/namespaces/team-a/pods/digits-0-1/log"
    assert paths.claim("team-a", "a.b") == "/api/v1/namespaces/team-a/persistentvolumeclaims/a.b"


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_name_makes_no_path(name: str) -> None:
    for make in (paths.experiment, paths.trial, paths.pod, paths.claim, paths.config_map, paths.lease):
        with pytest.raises(PathError, match="can't be a name"):
            make("team-a", name)
        with pytest.raises(PathError, match="can't be a name"):
            make(name, "digits")


@given(st.text(alphabet="ab.-/?#%2e\\", max_size=12))
def test_a_path_leads_to_the_object_of_that_name_or_nowhere(name: str) -> None:
    try:
        path = paths.trial("team-a", name)
    except PathError:
        return
    sent = URL(f"https://server{path}")
    assert sent.raw_path == f"/apis/podtune.dev/v1alpha1/namespaces/team-a/trials/{name}"
    assert not sent.query_string


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/a/pods/..",
        "/api/v1/namespaces/a/pods/./b",
        "/api/v1/../../metrics",
        "/api/v1//pods",
        "/api/v1/pods?watch=1",
        "/api/v1/pods#x",
        "/api/v1/%2e%2e/pods",
        "/api/v1/pods/",
        "api/v1/pods",
        "/",
        "",
    ],
)
def test_what_is_no_path_is_not_sent(path: str) -> None:
    with pytest.raises(PathError, match="is not sent"):
        paths.check_path(path)


def test_all_paths_are_made_here() -> None:
    """A path that is written down elsewhere has names in it that nobody checks."""
    elsewhere = [
        f"{file.relative_to(SOURCE)}:{node.lineno}"
        for file in SOURCE.rglob("*.py")
        if file.parent != SOURCE / "kube" and not str(file.relative_to(SOURCE)).startswith(NO_REQUESTS)
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(("/api/", "/apis/"))
    ]
    assert elsewhere == []
