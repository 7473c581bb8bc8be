from __future__ import annotations

import base64
import ssl
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from podtune.cli.client import kubeconfig
from podtune.cli.client.kubeconfig import connect
from podtune.cli.errors import KubeconfigError


def _config(server: str = "http://one:8080", name: str = "one", **user: Any) -> dict[str, Any]:
    return {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": f"ns-{name}"}}],
        "clusters": [{"name": name, "cluster": {"server": server}}],
        "users": [{"name": name, "user": user}],
    }


def _write(path: Path, config: Any) -> Path:
    path.write_text(config if isinstance(config, str) else yaml.safe_dump(config))
    return path


def test_the_current_context_says_where_and_as_whom(tmp_path: Path) -> None:
    path = _write(tmp_path / "config", _config(token="abc"))
    connection = connect(path, environment={})
    assert connection.server == "http://one:8080"
    assert connection.namespace == "ns-one"
    assert connection.headers == {"Authorization": "Bearer abc"}
    assert connection.tls is None
    assert connect(path, namespace="other", environment={}).namespace == "other"


def test_several_files_are_one_and_the_first_wins(tmp_path: Path) -> None:
    one = _write(tmp_path / "one", _config())
    two = _write(tmp_path / "two", _config("http://two:8080/", "two") | {"current-context": "two"})
    environment = {"KUBECONFIG": f"{one}:{tmp_path / 'missing'}:{two}"}
    assert connect(environment=environment).server == "http://one:8080"
    assert connect(context="two", environment=environment).server == "http://two:8080"


def test_without_kubeconfig_in_the_environment_it_is_the_one_at_home(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    _write(tmp_path / ".kube" / "config", _config())
    assert connect(environment={"HOME": str(tmp_path)}).namespace == "ns-one"


def test_in_a_pod_without_one_it_is_the_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT_FILES", tmp_path)
    _write(tmp_path / "namespace", "vision")
    _write(tmp_path / "token", "abc\n")
    _write(tmp_path / "ca.crt", Path(ssl.get_default_verify_paths().cafile or "/dev/null").read_text())
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443", "HOME": str(tmp_path)}
    connection = connect(environment=environment)
    assert connection.server == "https://[fd00::1]:443"
    assert connection.namespace == "vision"
    assert connection.headers == {"Authorization": "Bearer abc"}


def test_a_token_may_stand_in_a_file_beside_the_kubeconfig(tmp_path: Path) -> None:
    _write(tmp_path / "token", "from-a-file\n")
    path = _write(tmp_path / "config", _config(tokenFile="token"))
    assert connect(path, environment={}).headers == {"Authorization": "Bearer from-a-file"}


def test_a_name_and_password_are_sent_as_such(tmp_path: Path) -> None:
    path = _write(tmp_path / "config", _config(username="me", password="pw"))
    assert connect(path, environment={}).headers == {"Authorization": f"Basic {base64.b64encode(b'me:pw').decode()}"}


def test_a_cluster_may_be_trusted_blindly_where_it_says_so(tmp_path: Path) -> None:
    config = _config("https://one:6443")
    assert _context(tmp_path, config).verify_mode == ssl.CERT_REQUIRED
    config["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    assert _context(tmp_path, config).verify_mode == ssl.CERT_NONE


def _context(tmp_path: Path, config: dict[str, Any]) -> ssl.SSLContext:
    tls = connect(_write(tmp_path / "config", config), environment={}).tls
    assert tls is not None
    return tls


def _plugin(tmp_path: Path, body: str) -> dict[str, Any]:
    script = _write(tmp_path / "plugin", f"#!{sys.executable}\nimport json, os, sys\n{body}\n")
    script.chmod(script.stat().st_mode | stat.S_IEXEC)
    return {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(script),
        "args": ["token"],
        "env": [{"name": "PROFILE", "value": "dev"}],
        "installHint": "install the plugin",
    }


def test_an_exec_plugin_is_asked_for_a_token(tmp_path: Path) -> None:
    answer = (
        'asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])["kind"]\n'
        'token = "-".join([asked, *sys.argv[1:], os.environ["PROFILE"]])\n'
        'print(json.dumps({"status": {"token": token}}))'
    )
    path = _write(tmp_path / "config", _config(exec=_plugin(tmp_path, answer)))
    assert connect(path, environment={}).headers == {"Authorization": "Bearer ExecCredential-token-dev"}


@pytest.mark.parametrize("body", ["sys.exit(3)", "print('not json')", "print(json.dumps([]))"])
def test_an_exec_plugin_that_fails_is_named_with_its_hint(tmp_path: Path, body: str) -> None:
    path = _write(tmp_path / "config", _config(exec=_plugin(tmp_path, body)))
    with pytest.raises(KubeconfigError, match=r"the exec plugin \S+ failed: .*; install the plugin"):
        connect(path, environment={})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"current-context": ""}, "no current context; name one with --context"),
        ({"contexts": []}, "no context 'one'; `kubectl config get-contexts` lists them"),
        ({"clusters": []}, "no cluster 'one'"),
        ({"users": []}, "no user 'one'"),
        ({"clusters": [{"name": "one", "cluster": {}}]}, "no server"),
        ({"users": [{"name": "one", "user": {"auth-provider": {"name": "gcp"}}}]}, "use an exec plugin"),
        ({"users": [{"name": "one", "user": {"exec": {"apiVersion": "v1alpha1", "command": "x"}}}]}, "update it"),
        ({"users": [{"name": "one", "user": {"tokenFile": "missing"}}]}, "tokenFile can't be read"),
    ],
)
def test_an_unusable_kubeconfig_is_explained(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    path = _write(tmp_path / "config", _config() | change)
    with pytest.raises(KubeconfigError) as raised:
        connect(path, environment={})
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ({"certificate-authority": "missing.crt"}, "missing.crt"),
        ({"certificate-authority-data": "!"}, "certificate-authority-data is not base64"),
        ({"certificate-authority-data": base64.b64encode(b"no certificate").decode()}, "certificates can't be used"),
    ],
)
def test_unusable_certificates_are_explained(tmp_path: Path, cluster: dict[str, Any], said: str) -> None:
    config = _config("https://one:6443")
    config["clusters"][0]["cluster"] |= cluster
    with pytest.raises(KubeconfigError, match=said):
        connect(_write(tmp_path / "config", config), environment={})


@pytest.mark.parametrize(("content", "said"), [("a: [", "can't be read"), ("just text", "is not a kubeconfig")])
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, content: str, said: str) -> None:
    path = _write(tmp_path / "config", content)
    with pytest.raises(KubeconfigError) as raised:
        connect(path, environment={})
    assert str(path) in str(raised.value)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_no_kubeconfig_at_all_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=r"no kubeconfig at .*\.kube/config; name one with --kubeconfig, or the"):
        connect(environment={"HOME": str(tmp_path)})


def test_what_an_exec_plugin_was_asked_names_the_cluster_where_it_wants_to_know(tmp_path: Path) -> None:
    answer = (
        'asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])\n'
        'print(json.dumps({"status": {"token": asked["spec"]["cluster"]["server"]}}))'
    )
    config = _config(exec=_plugin(tmp_path, answer) | {"provideClusterInfo": True})
    path = _write(tmp_path / "config", config)
    assert connect(path, environment={}).headers == {"Authorization": "Bearer http://one:8080"}


def test_somebody_elses_token_takes_the_place_of_all_credentials(tmp_path: Path) -> None:
    # A client certificate would win over the token, and the API server would see us in the place of them.
    path = _write(tmp_path / "config", _config(username="me", password="mine") | {"users": []})
    assert connect(path, environment={}, token="theirs").headers == {"Authorization": "Bearer theirs"}
    broken = {"client-certificate": "/no/such.crt", "client-key": "/no/such.key"}
    secured = _write(tmp_path / "secured", _config("https://one:6443", **broken))
    assert connect(secured, environment={}, token="theirs").headers == {"Authorization": "Bearer theirs"}


def test_in_a_pod_somebody_elses_token_takes_the_place_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT_FILES", tmp_path)
    _write(tmp_path / "namespace", "vision")
    _write(tmp_path / "token", "own")
    _write(tmp_path / "ca.crt", Path(ssl.get_default_verify_paths().cafile or "/dev/null").read_text())
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOME": str(tmp_path)}
    assert connect(environment=environment, token="theirs").headers == {"Authorization": "Bearer theirs"}
