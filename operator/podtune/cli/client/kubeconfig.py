"""Finds the way to the cluster, as kubectl does: kubeconfig files, contexts, tokens, certificates, exec plugins.

The official client does this too, but takes 0.6 s to import; a command that lists ten lines must not.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from podtune.cli.errors import KubeconfigError

SERVICE_ACCOUNT_FILES = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
EXEC_TIMEOUT = 120.0
"""Seconds for an exec plugin; some ask a person to log in."""

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """How to reach the API server.

    Attributes:
        server: Its URL, without a slash at the end.
        namespace: The namespace that is meant where none is given.
        tls: Certificates on both sides; None for plain HTTP.
        headers: Who we are, where certificates don't say it.
        proxy: URL of a proxy, where the kubeconfig names one.
    """

    server: str
    namespace: str
    tls: ssl.SSLContext | None
    headers: Mapping[str, str] = field(default_factory=dict)
    proxy: str | None = None


def connect(
    kubeconfig: Path | None = None,
    context: str | None = None,
    namespace: str | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    token: str = "",
) -> ServerAccess:
    """Reads the kubeconfig, or in a pod without one its service account.

    Args:
        kubeconfig: The file; else those of $KUBECONFIG, else ~/.kube/config.
        context: Which context; else the current one.
        namespace: Which namespace; else the context's.
        environment: The environment.
        token: Somebody else's, in the place of all credentials there are.

    Raises:
        KubeconfigError: It is missing or unusable.
    """
    files = _list_files(kubeconfig, environment)
    existing = [path for path in files if path.is_file()]
    if not existing and kubeconfig is None and context is None and "KUBERNETES_SERVICE_HOST" in environment:
        return _read_in_cluster(namespace, environment, token)
    if not existing:
        raise KubeconfigError(
            f"no kubeconfig at {os.pathsep.join(map(str, files))}; name one with --kubeconfig, or the directory "
            "of a run on this machine"
        )
    merged = _Merged([(path.parent, _read(path)) for path in existing])
    chosen = context or merged.current_context
    if not chosen:
        raise KubeconfigError("the kubeconfig has no current context; name one with --context")
    settings = merged.find_entry("context", chosen)
    cluster = merged.find_entry("cluster", settings.get("cluster", ""))
    user = merged.find_entry("user", settings["user"]) if settings.get("user") and not token else {"token": token}
    return _make_access(cluster, user, namespace or settings.get("namespace") or "default", environment)


class _Merged:
    """Several kubeconfigs as one: the first that has an entry wins; paths are relative to their own file."""

    def __init__(self, configs: Sequence[tuple[Path, Entry]]) -> None:
        self._configs = configs

    @property
    def current_context(self) -> str:
        return next((str(c["current-context"]) for _, c in self._configs if c.get("current-context")), "")

    def find_entry(self, kind: str, name: str) -> Entry:
        for folder, config in self._configs:
            for entry in config.get(f"{kind}s") or ():
                if entry.get("name") == name:
                    return {key: _resolve(folder, key, value) for key, value in (entry.get(kind) or {}).items()}
        raise KubeconfigError(f"the kubeconfig has no {kind} {name!r}; `kubectl config get-{kind}s` lists them")


def _resolve(folder: Path, key: str, value: Any) -> Any:
    is_path = key in ("certificate-authority", "client-certificate", "client-key", "tokenFile")
    return str(folder / value) if is_path and value else value


def _list_files(kubeconfig: Path | None, environment: Mapping[str, str]) -> list[Path]:
    if kubeconfig is not None:
        return [kubeconfig]
    listed = [Path(name) for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name]
    return listed or [Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"]


def _read(path: Path) -> Entry:
    try:
        config = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, yaml.YAMLError) as error:
        raise KubeconfigError(f"{path} can't be read: {' '.join(str(error).split())}") from error
    if not isinstance(config, dict):
        raise KubeconfigError(f"{path} is not a kubeconfig; name another with --kubeconfig")
    return config


def _make_access(cluster: Entry, user: Entry, namespace: str, environment: Mapping[str, str]) -> ServerAccess:
    server = str(cluster.get("server") or "").rstrip("/")
    if not server:
        raise KubeconfigError("the kubeconfig's cluster has no server; add its URL")
    if "exec" in user:
        user = user | _from_plugin(user["exec"], cluster, environment)
    if "auth-provider" in user:
        raise KubeconfigError("the kubeconfig uses an auth-provider, which Kubernetes 1.26 removed; use an exec plugin")
    return ServerAccess(
        server=server,
        namespace=namespace,
        tls=_build_tls(cluster, user) if server.startswith("https:") else None,
        headers=_build_headers(user),
        proxy=cluster.get("proxy-url"),
    )


def _read_in_cluster(namespace: str | None, environment: Mapping[str, str], token: str) -> ServerAccess:
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    try:
        own = (SERVICE_ACCOUNT_FILES / "namespace").read_text().strip()
        token = token or (SERVICE_ACCOUNT_FILES / "token").read_text().strip()
    except OSError as error:
        raise KubeconfigError(f"no kubeconfig, and this pod has no service account ({error})") from error
    host = f"[{host}]" if ":" in host else host
    cluster = {"server": f"https://{host}:{port}", "certificate-authority": str(SERVICE_ACCOUNT_FILES / "ca.crt")}
    return _make_access(cluster, {"token": token}, namespace or own, environment)


def _build_headers(user: Entry) -> dict[str, str]:
    if user.get("token"):
        return {"Authorization": f"Bearer {user['token']}"}
    if user.get("tokenFile"):
        try:
            return {"Authorization": f"Bearer {Path(user['tokenFile']).read_text().strip()}"}
        except OSError as error:
            raise KubeconfigError(f"the kubeconfig's tokenFile can't be read: {error}") from error
    if user.get("username"):
        both = f"{user['username']}:{user.get('password', '')}"
        return {"Authorization": f"Basic {base64.b64encode(both.encode()).decode()}"}
    return {}


def _build_tls(cluster: Entry, user: Entry) -> ssl.SSLContext:
    try:
        authority = _read_data(cluster, "certificate-authority")
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        certificate, key = _read_data(user, "client-certificate"), _read_data(user, "client-key")
        if certificate and key:
            # OpenSSL reads a client's certificate from a file only.
            with tempfile.NamedTemporaryFile(suffix=".pem") as file:
                file.write(certificate + b"\n" + key)
                file.flush()
                context.load_cert_chain(file.name)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError, binascii.Error a ValueError
        raise KubeconfigError(f"the kubeconfig's certificates can't be used: {error}") from error
    return context


def _read_data(entry: Entry, key: str) -> bytes | None:
    """A certificate that stands in the kubeconfig itself, or in a file that it names."""
    inline = entry.get(f"{key}-data")
    if inline:
        try:
            return base64.b64decode(inline, validate=True)
        except binascii.Error as error:
            raise ValueError(f"{key}-data is not base64 ({error})") from error
    return Path(entry[key]).read_bytes() if entry.get(key) else None


def _from_plugin(plugin: Entry, cluster: Entry, environment: Mapping[str, str]) -> Entry:
    """Asks a credential plugin, as https://kubernetes.io/docs/reference/config-api/client-authentication.v1/ has it."""
    version = plugin.get("apiVersion")
    if version not in EXEC_VERSIONS:
        raise KubeconfigError(f"the exec plugin speaks {version}, not {EXEC_VERSIONS[0]}; update it")
    question: Entry = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": True}}
    if plugin.get("provideClusterInfo"):
        question["spec"]["cluster"] = {
            "server": cluster.get("server"),
            "certificate-authority-data": cluster.get("certificate-authority-data"),
        }
    added = {entry["name"]: entry["value"] for entry in plugin.get("env") or ()}
    command = [plugin["command"], *(plugin.get("args") or ())]
    try:
        answered = subprocess.run(
            command,
            env={**environment, **added, "KUBERNETES_EXEC_INFO": json.dumps(question)},
            stdout=subprocess.PIPE,
            timeout=EXEC_TIMEOUT,
            check=True,
        )
        status = json.loads(answered.stdout)["status"]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
        hint = plugin.get("installHint") or "does it run by itself?"
        raise KubeconfigError(f"the exec plugin {plugin['command']} failed: {error}; {hint}") from error
    return {
        "token": status.get("token"),
        "client-certificate-data": _encode(status.get("clientCertificateData")),
        "client-key-data": _encode(status.get("clientKeyData")),
    }


def _encode(pem: str | None) -> str | None:
    return base64.b64encode(pem.encode()).decode() if pem else None
