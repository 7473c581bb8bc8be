"""Keys, certificates and kubeconfigs: one authority, one client certificate for each component."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from e2e.devcluster.building.packages import program
from e2e.devcluster.layout import API_URL, CLUSTER_DOMAIN, NODES, SERVICE_API_ADDRESS, SYSTEM_NODE, Layout
from e2e.devcluster.processes import run

_DAYS = "365"
_CLIENTS = {
    # name: (common name, organization); what each may do follows from Kubernetes' own bootstrap roles.
    "admin": ("podtune-e2e-admin", "system:masters"),
    "apiserver-kubelet-client": ("apiserver-kubelet-client", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "kube-proxy": ("system:kube-proxy", ""),
    **{f"kubelet-{node.name}": (f"system:node:{node.name}", "system:nodes") for node in NODES},
}


def create(layout: Layout) -> None:
    """Create everything anew: authority, serving certificate, clients, the ServiceAccount key, kubeconfigs."""
    _authority(layout.pki)
    names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", f"kubernetes.default.svc.{CLUSTER_DOMAIN}"]
    addresses = [SYSTEM_NODE.address, SERVICE_API_ADDRESS, "127.0.0.1"]
    alternatives = [f"DNS:{name}" for name in ("localhost", *names)] + [f"IP:{address}" for address in addresses]
    _sign(layout.pki, "apiserver", "/CN=kube-apiserver", "serverAuth", f"subjectAltName={','.join(alternatives)}")
    for name, (common_name, organization) in _CLIENTS.items():
        subject = (f"/O={organization}" if organization else "") + f"/CN={common_name}"
        _sign(layout.pki, name, subject, "clientAuth")
        write_kubeconfig(layout.pki / f"{name}.kubeconfig", layout.pki, name)
    write_kubeconfig(layout.kubeconfig, layout.pki, "admin")
    _key(layout.pki / "service-account.key")
    run([program("openssl"), "pkey", "-in", layout.pki / "service-account.key", "-pubout",
         "-out", layout.pki / "service-account.pub"])  # fmt: skip


def write_kubeconfig(path: Path, pki: Path, client: str) -> None:
    """Write a kubeconfig that carries its certificates in itself, so that it can be copied."""

    def inline(name: str) -> str:
        return base64.b64encode((pki / name).read_bytes()).decode()

    # JSON is YAML, and the standard library writes it.
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "podtune",
        "contexts": [{"name": "podtune", "context": {"cluster": "podtune", "user": client}}],
        "clusters": [
            {"name": "podtune", "cluster": {"server": API_URL, "certificate-authority-data": inline("ca.crt")}}
        ],
        "users": [
            {
                "name": client,
                "user": {
                    "client-certificate-data": inline(f"{client}.crt"),
                    "client-key-data": inline(f"{client}.key"),
                },
            }
        ],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=1))


def _authority(pki: Path) -> None:
    _key(pki / "ca.key")
    usage = "keyUsage=critical,keyCertSign,cRLSign,digitalSignature"
    run([program("openssl"), "req", "-x509", "-new", "-key", pki / "ca.key", "-subj", "/CN=podtune-e2e-ca",
         "-days", _DAYS, "-addext", usage, "-out", pki / "ca.crt"])  # fmt: skip


def _key(path: Path) -> None:
    path.touch(mode=0o600)
    run([program("openssl"), "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path])


def _sign(pki: Path, name: str, subject: str, usage: str, *extensions: str) -> None:
    """Make a key and a certificate for it.

    The extensions include those that Python's strict verification asks for, which clients inside pods may use.
    """
    _key(pki / f"{name}.key")
    request = run([program("openssl"), "req", "-new", "-key", pki / f"{name}.key", "-subj", subject])
    settings = pki / f"{name}.extensions"
    settings.write_text("\n".join([
        "basicConstraints=critical,CA:FALSE", "keyUsage=critical,digitalSignature", f"extendedKeyUsage={usage}",
        "subjectKeyIdentifier=hash", "authorityKeyIdentifier=keyid", *extensions,
    ]))  # fmt: skip
    run([program("openssl"), "x509", "-req", "-CA", pki / "ca.crt", "-CAkey", pki / "ca.key", "-days", _DAYS,
         "-extfile", settings, "-out", pki / f"{name}.crt"], stdin=request)  # fmt: skip
