"""Who the viewer is by a proxy's word: only over mutual TLS, and only with the headers that were agreed on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from podtune.dashboard.access.session import ProxyTrust, read_proxied_viewer
from podtune.dashboard.access.viewer import Viewer

TRUST = ProxyTrust("X-User", "X-Groups")


class Transport:
    """A connection whose other end has shown a certificate or not."""

    def __init__(self, certificate: dict[str, Any] | None) -> None:
        self.certificate = certificate

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self.certificate if name == "peercert" else default


def read(headers: Mapping[str, str], certificate: dict[str, Any] | None, trust: ProxyTrust = TRUST) -> Viewer | None:
    request = make_mocked_request("GET", "/", headers=headers, transport=Transport(certificate))
    return read_proxied_viewer(request, trust)


def test_a_proxy_with_a_certificate_names_the_viewer_and_their_groups() -> None:
    viewer = read({"X-User": "alice", "X-Groups": "team, admins,"}, {"subject": ()} | {"serialNumber": "1"})
    assert viewer == Viewer("alice", groups=("team", "admins", "system:authenticated"))


@pytest.mark.parametrize("certificate", [None, {}])
def test_without_a_certificate_the_header_is_not_believed(certificate: dict[str, Any] | None) -> None:
    assert read({"X-User": "root"}, certificate) is None


def test_by_default_no_header_is_believed() -> None:
    assert read({"X-User": "root", "": "root"}, {"serialNumber": "1"}, ProxyTrust()) is None


def test_groups_are_read_from_the_header_that_was_agreed_on_alone() -> None:
    viewer = read({"X-User": "alice", "X-Groups": "system:masters"}, {"serialNumber": "1"}, ProxyTrust("X-User"))
    assert viewer == Viewer("alice", groups=("system:authenticated",))


@pytest.mark.parametrize("names", [("alice", "root"), ("root", "alice"), ("", "root"), ()])
def test_exactly_one_header_names_the_viewer(names: tuple[str, ...]) -> None:
    headers = CIMultiDict(("X-User", name) for name in names)
    assert read(headers, {"serialNumber": "1"}) is None


@pytest.mark.parametrize("name", ["system:admin", " system:serviceaccount:kube-system:default"])
def test_no_proxy_names_one_of_kubernetes_own_users(name: str) -> None:
    assert read({"X-User": name}, {"serialNumber": "1"}) is None


def test_no_proxy_puts_a_viewer_in_one_of_kubernetes_own_groups() -> None:
    viewer = read({"X-User": "alice", "X-Groups": "system:masters, team,system:nodes"}, {"serialNumber": "1"})
    assert viewer == Viewer("alice", groups=("team", "system:authenticated"))
